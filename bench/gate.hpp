// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "bench/samplers.hpp"
#include "mage_bench/case.hpp"

namespace mage {

/// Opens a sampler for a group of samples, and closes it however the group ends.
class SamplerGroup {
 public:
  explicit SamplerGroup(Sampler& sampler) : sampler_{sampler} { sampler_.open(); }
  SamplerGroup(const SamplerGroup&) = delete;
  SamplerGroup& operator=(const SamplerGroup&) = delete;
  ~SamplerGroup();
  /// The orderly end: may throw.
  void close();

 private:
  Sampler& sampler_;
  bool closed_ = false;
};

/// Leaves in L2 what the operation alone puts there: sweeps it, then takes one sample that does not count. Uploads,
/// fills and checks leave buffers in L2 as lines to keep; an operation whose loads pass L1 would find those there call
/// after call, and look faster than it is anywhere else (docs/journal/0007).
void warm_up(Device& device, Sampler& sampler, Samples& discarded);

/// Around samples that count: inputs that take turns, a few spoilt elements, a look at both. With `whole` all of the
/// outputs are spoilt, before caches are swept.
[[nodiscard]] Hooks counted_hooks(Case& bound, bool whole);
/// What all of the outputs hold before an operation that is checked: a NaN that shows what was never written, or
/// plausible values.
enum class Behind { poison, values };
/// Around operations that are checked and do not count. With `dependent` the look is a dependent kernel: enqueued right
/// behind an operation, as in a graph or a batch, it begins while that still runs. Leave it off under a trace, where
/// the records tell the order. `set` is that of the inputs; without it, one is drawn.
[[nodiscard]] Hooks audit_hooks(Case& bound, bool dependent, Behind behind = Behind::values,
                                std::optional<int> set = {});

/// Checks an operation through the sampler itself: what is checked is what will be timed. `calls` times, with inputs
/// that take turns; of three calls, a deterministic one must give the same bits for the same inputs.
[[nodiscard]] Verdict run_gate(Sampler& sampler, Case& bound, bool deterministic, int calls = 3);

/// What inspections found, and the whole of the outputs behind them.
[[nodiscard]] Verdict check_all(Case& bound);

}  // namespace mage
