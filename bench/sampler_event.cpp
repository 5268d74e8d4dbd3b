// SPDX-License-Identifier: Apache-2.0
#include "bench/samplers.hpp"

namespace mage {

void EventSampler::prepare() {
  delay_us_ = pilot_delay_us(device_, [this] { device_.submit(launch_); });
}

void EventSampler::sample(Samples& out, const Hooks& hooks) {
  call(hooks.spoil);
  device_.submit(launch_);
  const auto span = gated_span(device_, delay_us_, [this] { device_.submit(launch_); }, hooks);
  out.us.push_back(span.us);
  out.gate_missed += span.held ? 0 : 1;
  out.figures["delay_us"] = delay_us_;
}

}  // namespace mage
