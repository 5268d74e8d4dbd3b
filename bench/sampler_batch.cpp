// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "bench/samplers.hpp"

namespace mage {
namespace {

constexpr double target_us = 200;     // within 200 us to 5 ms: long against the fixed cost, short for the power limit
constexpr int most_operations = 256;  // 2N launches must fit the driver's queue of about 1000

}  // namespace

void BatchSampler::prepare() {
  const double operation_us = std::max(pilot_span_us(device_, launch_), 0.1);
  operations_ = std::clamp(static_cast<int>(std::lround(target_us / operation_us)), 1, most_operations);
  delay_us_ = pilot_delay_us(device_, [this] { device_.submit(launch_); });
}

BatchSampler::Span BatchSampler::span(int operations, const Hooks& hooks) {
  double enqueue_us = 0;
  const auto gated = gated_span(
      device_, delay_us_,
      [&] {
        const double begin_us = device_.now_us();
        for (int i = 0; i < operations; ++i) device_.submit(launch_);
        enqueue_us = device_.now_us() - begin_us;
      },
      hooks);
  return {gated.us, enqueue_us, gated.held};
}

void BatchSampler::sample(Samples& out, const Hooks& hooks) {
  call(hooks.spoil);
  device_.submit(launch_);
  const auto one = span(1, hooks);
  const auto n = span(operations_, hooks);
  const auto twice = span(2 * operations_, hooks);
  out.us.push_back(whole_ps((twice.span_us - n.span_us) / operations_));
  out.parts["span_1_us"].push_back(one.span_us);
  out.parts["span_n_us"].push_back(n.span_us);
  out.parts["span_2n_us"].push_back(twice.span_us);
  out.parts["enqueue_2n_us"].push_back(whole_ns(twice.enqueue_us));
  out.parts["intercept_us"].push_back(whole_ns(2 * n.span_us - twice.span_us));
  out.figures["operations_n"] = operations_;
  out.alone_missed += one.held ? 0 : 1;
  out.launch_bound += twice.enqueue_us >= 0.9 * twice.span_us ? 1 : 0;
}

void BatchSampler::audit(const Hooks& hooks) {
  const Watched watched{2 * operations_, hooks.secret};
  device_.delay(delay_us_);
  for (int i = 0; i < watched.operations; ++i) {
    if (watched(i)) call(hooks.spoil);
    if (watched(i)) call(hooks.before);
    device_.submit(launch_);
    if (watched(i)) call(hooks.after);
  }
  device_.synchronize();
}

}  // namespace mage
