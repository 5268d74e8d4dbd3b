// SPDX-License-Identifier: Apache-2.0
#pragma once

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
/// Around operations that are checked and do not count: all of the outputs are spoilt right before each.
[[nodiscard]] Hooks audit_hooks(Case& bound);

/// Checks an operation through the sampler itself: what is checked is what will be timed. Three times, each behind
/// other outputs (a poison that shows what was never written, then plausible values) and with inputs that take turns;
/// a deterministic one must give the same bits for the same inputs.
[[nodiscard]] Verdict run_gate(Sampler& sampler, Case& bound, bool deterministic);

/// What inspections found, and the whole of the outputs behind them.
[[nodiscard]] Verdict check_all(Case& bound);

}  // namespace mage
