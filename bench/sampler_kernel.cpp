// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>

#include "bench/audits.hpp"
#include "bench/samplers.hpp"
#include "bench/statistics.hpp"

namespace mage {
namespace {

constexpr int untraced_samples = 10;
constexpr double tolerated_change = 0.05;
constexpr std::uint64_t untimed_mark = std::uint64_t{1} << 62U;  // and above: calls that are not timed

}  // namespace

void KernelSampler::prepare() {
  untraced_.prepare();
  device_.trace_start();  // a CUPTI that another tool holds says so here
  delay_us_ = pilot_delay_us(device_, [this] {
    device_.trace_mark(1);
    device_.submit(launch_);
    device_.trace_mark(0);
  });
  static_cast<void>(device_.trace_stop());
}

void KernelSampler::open() {
  outside_us_.clear();
  pending_.clear();
  audited_ = {};
  Samples outside;
  for (int i = 0; i < untraced_samples; ++i) untraced_.sample(outside);
  outside_us_ = std::move(outside.us);
  device_.trace_start();
}

void KernelSampler::sample(Samples& out, const Hooks& hooks) {
  call(hooks.spoil);
  device_.trace_mark(untimed_mark + pending_.size());
  device_.submit(launch_);
  device_.trace_mark(0);
  pending_.push_back({&out, 0});
  const auto span = gated_span(
      device_, delay_us_,
      [this] {
        device_.trace_mark(pending_.size());
        device_.submit(launch_);
        device_.trace_mark(0);
      },
      hooks);
  pending_.back().span_us = span.us;
  out.gate_missed += span.held ? 0 : 1;
}

void KernelSampler::close() {
  auto records = device_.trace_stop();
  std::stable_sort(records.begin(), records.end(),
                   [](const KernelRecord& a, const KernelRecord& b) { return a.begin_us < b.begin_us; });
  judge_order(records);
  std::vector<std::vector<const KernelRecord*>> by_mark(pending_.size() + 1);
  for (const auto& record : records)
    if (record.mark > 0 && record.mark <= pending_.size()) by_mark[record.mark].push_back(&record);
  std::map<Samples*, std::vector<double>> spans_us;
  for (std::size_t k = 0; k < pending_.size(); ++k) {
    auto& out = *pending_[k].out;
    const auto& kernels = by_mark[k + 1];
    if (kernels.empty())
      throw std::runtime_error{"CUPTI reported no kernel for a sample that ran the operation: nothing to time"};
    double sum_us = 0, busy_us = 0, busy_until_us = kernels.front()->begin_us;
    std::vector<std::string> names;
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      const double duration_us = whole_ns(kernels[i]->end_us - kernels[i]->begin_us);
      sum_us += duration_us;
      // A dependent kernel waits while the one before it runs: what two do at the same time counts once.
      busy_us += std::max(0.0, kernels[i]->end_us - std::max(kernels[i]->begin_us, busy_until_us));
      busy_until_us = std::max(busy_until_us, kernels[i]->end_us);
      names.push_back(kernels[i]->name);
      out.parts["kernel_" + std::to_string(i) + "_us"].push_back(duration_us);
    }
    if (out.kernels.empty()) out.kernels = names;
    if (out.kernels != names)
      throw WrongError{"the operation ran " + std::to_string(names.size()) + " kernels in one sample and " +
                       std::to_string(out.kernels.size()) +
                       " in another, or other ones: not the same work on every call"};
    out.us.push_back(whole_ns(sum_us));
    out.parts["busy_us"].push_back(whole_ns(busy_us));
    out.parts["span_us"].push_back(pending_[k].span_us);
    out.parts["gap_us"].push_back(whole_ns(pending_[k].span_us - sum_us));
    spans_us[&out].push_back(pending_[k].span_us);
  }
  const double outside_us = statistics::median(outside_us_);
  for (auto& [out, spans] : spans_us) {
    const double inside_us = statistics::median(spans);
    out->figures["span_untraced_us"] = outside_us;
    // A kernel cannot take longer than the untraced span around it.
    out->perturbed =
        std::fabs(inside_us - outside_us) > tolerated_change * outside_us || statistics::median(out->us) > outside_us;
  }
  pending_.clear();
}

}  // namespace mage
