// SPDX-License-Identifier: Apache-2.0
// One duration by every path that there is: the operation's own stamps, events, batches, graphs and CUPTI.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/gate.hpp"
#include "bench/samplers.hpp"
#include "bench/selftest/proof.hpp"
#include "bench/selftest/spin.hpp"
#include "bench/statistics.hpp"

namespace mage::selftest {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array durations_us{5.0, 20.0, 100.0, 1000.0};
constexpr int default_samples_a_path = 30;

std::vector<double> take(Device& device, Launch& launch, TimingMode mode, int samples) {
  const auto sampler = make_sampler(mode, device, launch);
  sampler->prepare();
  Samples taken;
  SamplerGroup group{*sampler};
  for (int i = 0; i < samples; ++i) sampler->sample(taken);
  group.close();
  return taken.us;
}

/// The medians of one operation by each path, and the samples behind them.
struct Row {
  double asked_us = 0, stamped_us = 0, event_us = 0, batch_us = 0, graph_us = 0;
  std::optional<double> cupti_us;
  Json samples;
};

class Triangulation {
 public:
  Triangulation(Context& context, int samples) : context_{context}, device_{*context.devices.cuda}, samples_{samples} {}

  ProofResult run() {
    device_.change_stream(0);
    raise_clock(device_);
    auto empty = device_.empty_launch();
    empty_.event_us = series(empty_, empty, TimingMode::event);
    std::vector<std::unique_ptr<BoundSpin>> spins;
    for (const double us : durations_us) {
      spins.push_back(std::make_unique<BoundSpin>(device_, us));
      rows_.push_back(measure(*spins.back(), us));
      if (context_.interrupted()) return {};
      context_.progress(0.5 * static_cast<double>(rows_.size()) / durations_us.size());
    }
    // The tracer makes later calls a little slower: what it has no part in came first.
    trace(empty_, empty);
    for (std::size_t i = 0; i < rows_.size() && !context_.interrupted(); ++i) {
      trace(rows_[i], spins[i]->launch());
      context_.progress(0.5 + 0.5 * static_cast<double>(i + 1) / static_cast<double>(rows_.size()));
    }
    result_.data = {{"empty", empty_.samples}, {"durations", Json::array()}};
    for (const auto& row : rows_) {
      judge(row);
      result_.data["durations"].push_back(row.samples);
    }
    add_figure(result_, "gpu__time_duration of ncu", "skipped: run tools/ncu_check.py");
    return std::move(result_);
  }

 private:
  double series(Row& row, Launch& launch, TimingMode mode) {
    const auto us = take(device_, launch, mode, samples_);
    row.samples[std::string{to_string(mode)} + "_us"] = us;
    return statistics::median(us);
  }

  Row measure(BoundSpin& spin, double us) {
    spin.verify();
    Row row;
    row.asked_us = us;
    row.samples["asked_us"] = us;
    std::vector<double> stamped;
    for (int i = 0; i < samples_; ++i) {
      device_.submit(spin.launch());
      stamped.push_back(whole_ns(spin.stamped_us()));
    }
    row.samples["stamped_us"] = stamped;
    row.stamped_us = statistics::median(stamped);
    row.event_us = series(row, spin.launch(), TimingMode::event);
    row.batch_us = series(row, spin.launch(), TimingMode::batch);
    row.graph_us = series(row, spin.launch(), TimingMode::graph);
    return row;
  }

  void trace(Row& row, Launch& launch) {
    try {
      row.cupti_us = series(row, launch, TimingMode::kernel);
    } catch (const UnavailableError& error) {
      no_cupti_ = error.what();
    }
  }

  void compare(const std::string& what, double us, double with_us, double share, double least_us) {
    const double limit_us = std::max(share * with_us, least_us);
    add_check(result_, what, fmt::format("{:.3f} +- {:.2f} us", with_us, limit_us),
              fmt::format("{:.3f} us ({:+.3f})", us, us - with_us), std::fabs(us - with_us) <= limit_us);
  }

  void judge(const Row& row) {
    const auto name = fmt::format("{:g} us", row.asked_us);
    add_figure(result_, name + ", its own stamps", fmt::format("{:.3f} us", row.stamped_us));
    add_figure(result_, name + ", event span", fmt::format("{:.3f} us", row.event_us));
    if (!row.cupti_us || !empty_.cupti_us) {
      result_.checks.push_back({name + ", by CUPTI", "a duration", no_cupti_, Outcome::unavailable});
      // Without it, an event span still is the empty kernel's span and the operation's own time.
      compare(name + ", event - floor, against its stamps", row.event_us - empty_.event_us, row.stamped_us, 0.01, 0.3);
      return;
    }
    const double cupti_us = *row.cupti_us;
    const double own_us = *empty_.cupti_us;  // what CUPTI counts of a kernel that does nothing
    add_figure(result_, name + ", by CUPTI", fmt::format("{:.3f} us", cupti_us));
    compare(name + fmt::format(", event - ({:.3f} - {:.3f}), against CUPTI", empty_.event_us, own_us),
            row.event_us - (empty_.event_us - own_us), cupti_us, 0.01, 0.3);
    compare(name + fmt::format(", stamps + {:.3f}, against CUPTI", own_us), row.stamped_us + own_us, cupti_us, 0.01,
            0.3);
    // One operation begins while the one before it ends, and has a gap before it: neither is in a kernel's duration.
    compare(name + ", batch slope (gaps and overlap of launches), against CUPTI", row.batch_us, cupti_us, 0.01, 1.5);
    compare(name + ", graph slope (gaps and overlap of launches), against CUPTI", row.graph_us, cupti_us, 0.01, 1.5);
  }

  Context& context_;
  Device& device_;
  int samples_;
  ProofResult result_;
  Row empty_;
  std::vector<Row> rows_;
  std::string no_cupti_;
};

}  // namespace

ProofResult triangulation(Context& context) {
  if (!context.devices.cuda) return unavailable(context.no_cuda_reason);
  return Triangulation{context, context.repeats_or(default_samples_a_path, 3)}.run();
}

}  // namespace mage::selftest
