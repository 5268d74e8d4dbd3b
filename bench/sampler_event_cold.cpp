// SPDX-License-Identifier: Apache-2.0
#include "bench/samplers.hpp"

namespace mage {

void EventColdSampler::prepare() {
  device_.submit(launch_);  // loads the operation's modules
  device_.synchronize();
}

void EventColdSampler::sample(Samples& out, const Hooks& hooks) {
  call(hooks.spoil);
  device_.flush_l2();  // tens of microseconds long: hides enqueueing as the delay does elsewhere
  call(hooks.before);
  device_.record(Stamp::begin);
  device_.submit(launch_);
  device_.record(Stamp::end);
  out.gate_missed += device_.reached(Stamp::begin) ? 1 : 0;
  call(hooks.after);
  device_.synchronize();
  out.us.push_back(whole_ns(device_.elapsed_us()));
}

}  // namespace mage
