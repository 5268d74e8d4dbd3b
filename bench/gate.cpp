// SPDX-License-Identifier: Apache-2.0
#include "bench/gate.hpp"

#include <exception>

namespace mage {

SamplerGroup::~SamplerGroup() {
  if (closed_) return;
  try {
    sampler_.close();  // an exception is under way: leave no trace running, and let the first cause be reported
  } catch (const std::exception&) {
    closed_ = true;
  }
}

void SamplerGroup::close() {
  closed_ = true;
  sampler_.close();
}

void warm_up(Device& device, Sampler& sampler, Samples& discarded) {
  device.flush_l2();
  sampler.sample(discarded);
}

Verdict run_gate(Sampler& sampler, Case& bound, bool deterministic) {
  Verdict first;
  for (int call = 0; call < 2; ++call) {
    Samples discarded;
    SamplerGroup group{sampler};
    sampler.sample(discarded, {.speckle = {}, .poison = [&] { bound.poison(); }});
    auto verdict = bound.check();
    group.close();
    if (!verdict.ok) return verdict;
    if (call == 0) {
      first = verdict;
    } else if (deterministic && verdict.output_checksum != first.output_checksum) {
      verdict.ok = false;
      verdict.reason = "two calls gave different bits, though the variant says it is deterministic";
      return verdict;
    }
  }
  return first;
}

}  // namespace mage
