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

/// Checks an operation through the sampler itself: what is checked is what will be timed. Twice, each call behind
/// another poison, so that an operation that works on its first call only is caught; a deterministic one must give
/// the same bits both times.
[[nodiscard]] Verdict run_gate(Sampler& sampler, Case& bound, bool deterministic);

}  // namespace mage
