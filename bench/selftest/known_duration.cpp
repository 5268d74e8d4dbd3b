// SPDX-License-Identifier: Apache-2.0
// The span of an operation that stamps its own begin and end must be a + b x, with b = 1 and a = the floor.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "bench/samplers.hpp"
#include "bench/selftest/proof.hpp"
#include "bench/selftest/spin.hpp"
#include "bench/statistics.hpp"

namespace mage::selftest {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array durations_us{1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0};
constexpr int samples_a_pass = 15;
constexpr int default_passes = 4;
// Sample k of a pass lasts k steps longer. The end of an operation of one exact duration always meets the same phase of
// whatever writes the second stamp, and reads up to 0.1 us early or late for as long as it is repeated: the dither goes
// through the phases. A step is that of %globaltimer; 15 of them are more than twice the longest jump seen.
constexpr double dither_step_us = 0.032;

/// What the fit must keep to.
struct Limits {
  double slope, intercept_us, residual_share, residual_us;
};
constexpr Limits gpu_limits{5e-4, 0.1, 5e-4, 0.1};
// Another process may hold the core, and neither spin nor clock can tell.
constexpr Limits host_limits{5e-3, 1, 5e-3, 1};

struct Series {
  std::vector<double> stamped_us, span_us;
  /// What the span holds beside the duration: the Hodges-Lehmann estimate, for which no single phase decides.
  [[nodiscard]] double beside_us() const {
    std::vector<double> differences;
    differences.reserve(span_us.size());
    for (std::size_t i = 0; i < span_us.size(); ++i) differences.push_back(span_us[i] - stamped_us[i]);
    return statistics::hodges_lehmann(differences);
  }
};

/// Takes one span of a launch, by the path of mode event, or of mode host where there is no GPU.
class Spans {
 public:
  explicit Spans(Device& device) : device_{device}, host_{device.info().is_host} {}
  [[nodiscard]] double take(Launch& launch) {
    device_.submit(launch);
    if (host_) {
      const double begin_us = device_.now_us();
      device_.submit(launch);
      device_.synchronize();
      return whole_ns(device_.now_us() - begin_us);
    }
    if (delay_us_ == 0) delay_us_ = pilot_delay_us(device_, [&] { device_.submit(launch); });
    const auto span = gated_span(device_, delay_us_, [&] { device_.submit(launch); });
    missed_ += span.held ? 0 : 1;
    taken_ += 1;
    return span.us;
  }
  [[nodiscard]] int missed() const { return missed_; }
  [[nodiscard]] int taken() const { return taken_; }

 private:
  Device& device_;
  bool host_;
  double delay_us_ = 0;  // of the first launch, which must be the one that takes longest to enqueue: all are alike
  int missed_ = 0, taken_ = 0;
};

struct Fit {
  double intercept_us = 0, slope = 0;
};

/// y = a + b x by least squares.
Fit fit(const std::vector<double>& x, const std::vector<double>& y) {
  const auto n = static_cast<double>(x.size());
  double sx = 0;
  double sy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    sx += x[i];
    sy += y[i];
  }
  double sxx = 0;
  double sxy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    sxx += (x[i] - sx / n) * (x[i] - sx / n);
    sxy += (x[i] - sx / n) * (y[i] - sy / n);
  }
  const double slope = sxy / sxx;
  return {sy / n - slope * sx / n, slope};
}

void judge(ProofResult& result, const std::vector<Series>& series, const Series& none,
           const std::vector<double>& empty_us, const Limits& limits) {
  std::vector<double> x;
  std::vector<double> y;
  for (const auto& one : series) {
    x.push_back(statistics::median(one.stamped_us));
    y.push_back(x.back() + one.beside_us());
  }
  const auto line = fit(x, y);
  const double empty_span_us = statistics::median(empty_us);
  // What the operation costs beside its duration: parameters, and two stores that must arrive before it ends.
  const double floor_us = none.beside_us();
  result.data["slope"] = line.slope;
  result.data["intercept_us"] = line.intercept_us;
  result.data["floor_us"] = floor_us;
  result.data["no_duration"] = {{"stamped_us", none.stamped_us}, {"span_us", none.span_us}};
  add_check(result, "slope of span over duration", fmt::format("1 +- {:g}", limits.slope),
            fmt::format("{:.6f}", line.slope), std::fabs(line.slope - 1) <= limits.slope);
  add_check(result, "span of no duration, by the line",
            fmt::format("{:.3f} us +- {:g}, as measured", floor_us, limits.intercept_us),
            fmt::format("{:.3f} us", line.intercept_us),
            std::fabs(line.intercept_us - floor_us) <= limits.intercept_us);
  add_figure(result, "span of an empty operation, which stores no stamps", fmt::format("{:.3f} us", empty_span_us));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double off_us = y[i] - line.intercept_us - line.slope * x[i];
    const double limit_us = std::max(limits.residual_share * x[i], limits.residual_us);
    add_check(result, fmt::format("{:g} us, stamped {:.3f}: off the line", durations_us[i], x[i]),
              fmt::format("0 +- {:.3f} us", limit_us), fmt::format("{:+.3f} us", off_us),
              std::fabs(off_us) <= limit_us);
    result.data["durations"].push_back(
        {{"asked_us", durations_us[i]}, {"stamped_us", series[i].stamped_us}, {"span_us", series[i].span_us}});
  }
}

}  // namespace

ProofResult known_duration(Context& context) {
  const bool host = context.devices.cuda == nullptr;
  auto& device = host ? *context.devices.host : *context.devices.cuda;
  device.change_stream(0);  // stamps cost what they cost on one stream: another has another intercept
  BoundSpin spin{device, durations_us.back()};
  spin.verify();
  raise_clock(device);
  auto empty = device.empty_launch();
  Spans spans{device};
  std::vector<Series> series(durations_us.size());
  Series none;
  std::vector<double> empty_us;
  const auto take = [&](double us, int sample, Series& into) {
    spin.set_duration(us + sample * dither_step_us);
    into.span_us.push_back(spans.take(spin.launch()));
    into.stamped_us.push_back(whole_ns(spin.stamped_us()));
  };
  const int passes = context.repeats_or(default_passes, 2);  // 30 samples at least
  for (int pass = 0; pass < passes && !context.interrupted(); ++pass) {
    context.progress(static_cast<double>(pass) / passes);
    for (std::size_t k = 0; k < series.size(); ++k) {
      // There and back, so that a drift does not look like a slope.
      const auto i = pass % 2 == 0 ? k : series.size() - 1 - k;
      for (int sample = 0; sample < samples_a_pass; ++sample) {
        take(durations_us[i], sample, series[i]);
        take(0, sample, none);
        empty_us.push_back(spans.take(empty));
      }
    }
  }
  ProofResult result;
  if (context.interrupted()) return result;
  result.data = {{"device", host ? "host" : "cuda"}, {"mode", host ? "host" : "event"}, {"durations", Json::array()}};
  if (host) mark_on_host(result, context.no_cuda_reason);
  judge(result, series, none, empty_us, host ? host_limits : gpu_limits);
  result.data["empty_us"] = empty_us;
  if (!host) {
    result.data["gate_missed"] = spans.missed();
    add_check(result, "spans that began before they were enqueued", "at most 1 %",
              fmt::format("{} of {}", spans.missed(), spans.taken()), spans.missed() * 100 <= spans.taken());
  }
  return result;
}

}  // namespace mage::selftest
