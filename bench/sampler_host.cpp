// SPDX-License-Identifier: Apache-2.0
#include "bench/samplers.hpp"

namespace mage {

void HostSampler::prepare() {
  device_.submit(launch_);
  device_.synchronize();
}

void HostSampler::sample(Samples& out, const Hooks& hooks) {
  call(hooks.spoil);
  call(hooks.before);
  device_.synchronize();
  const double begin_us = device_.now_us();
  device_.submit(launch_);
  const double submitted_us = device_.now_us();
  device_.synchronize();
  const double done_us = device_.now_us();
  call(hooks.after);
  out.us.push_back(whole_ns(done_us - begin_us));
  out.parts["submit_us"].push_back(whole_ns(submitted_us - begin_us));
}

}  // namespace mage
