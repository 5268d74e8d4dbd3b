// SPDX-License-Identifier: Apache-2.0
#include "bench/samplers.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

namespace mage {

double whole_ns(double us) { return std::round(us * 1e3) / 1e3; }
double whole_ps(double us) { return std::round(us * 1e6) / 1e6; }

GatedSpan gated_span(Device& device, double delay_us, const std::function<void()>& body, const Hooks& hooks) {
  device.delay(delay_us);
  // Behind the delay: what an operation did on another stream meanwhile is undone, or finds other inputs.
  if (hooks.before) hooks.before();
  device.record(Stamp::begin);
  body();
  device.record(Stamp::end);
  // The begin stamp lies behind the delay: if it is already reached, the device did not wait for the enqueueing.
  const bool held = !device.reached(Stamp::begin);
  // Right behind the end stamp: what is not done by then is not done.
  if (hooks.after) hooks.after();
  device.synchronize();
  return {whole_ns(device.elapsed_us()), held};
}

Watched::Watched(int of_a_sample, std::uint64_t secret) : operations{std::max(of_a_sample, 4)} {
  constexpr int most = 8;
  count = std::min(operations, most);
  first = static_cast<int>(secret % static_cast<unsigned>(operations - count + 1));
}

void Sampler::audit(const Hooks& hooks) {
  Samples discarded;
  sample(discarded, hooks);
}

double pilot_delay_us(Device& device, const std::function<void()>& body) {
  constexpr double shortest_us = 60;
  constexpr double longest_us = 1000;
  constexpr double margin = 4;  // a host that is interrupted now and then should not miss the gate
  double slowest_us = 0;
  for (int i = 0; i < 4; ++i) {
    device.synchronize();
    const double begin_us = device.now_us();
    device.record(Stamp::begin);
    body();
    device.record(Stamp::end);
    // The first call loads modules and is no measure of the next.
    if (i > 0) slowest_us = std::max(slowest_us, device.now_us() - begin_us);
  }
  device.synchronize();
  return std::clamp(margin * slowest_us, shortest_us, longest_us);
}

double pilot_span_us(Device& device, Launch& launch) {
  std::array<double, 3> spans{};
  const auto once = [&] { device.submit(launch); };
  const double delay_us = pilot_delay_us(device, once);
  for (auto& span : spans) span = gated_span(device, delay_us, once).us;
  std::sort(spans.begin(), spans.end());
  return spans[1];
}

std::unique_ptr<Sampler> make_sampler(TimingMode mode, Device& device, Launch& launch) {
  switch (mode) {
    case TimingMode::event: return std::make_unique<EventSampler>(device, launch);
    case TimingMode::event_cold: return std::make_unique<EventColdSampler>(device, launch);
    case TimingMode::batch: return std::make_unique<BatchSampler>(device, launch);
    case TimingMode::graph: return std::make_unique<GraphSampler>(device, launch);
    case TimingMode::host: return std::make_unique<HostSampler>(device, launch);
    case TimingMode::kernel: return std::make_unique<KernelSampler>(device, launch);
  }
  throw std::logic_error{"make_sampler: unknown mode"};
}

int default_samples(TimingMode mode) {
  switch (mode) {
    case TimingMode::event:
    case TimingMode::event_cold:
    case TimingMode::kernel: return 32;
    case TimingMode::batch:
    case TimingMode::graph: return 16;
    case TimingMode::host: return 100;
  }
  throw std::logic_error{"default_samples: unknown mode"};
}

}  // namespace mage
