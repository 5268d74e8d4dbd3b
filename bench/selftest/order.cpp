// SPDX-License-Identifier: Apache-2.0
// A ratio must not depend on the order in which its rounds were taken, nor on what moves under both sides alike.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/selftest/experiment.hpp"
#include "bench/selftest/proof.hpp"
#include "bench/selftest/spin.hpp"
#include "bench/statistics.hpp"
#include "mage_bench/random.hpp"

namespace mage::selftest {
namespace {

using Json = nlohmann::ordered_json;

constexpr double spin_us = 100;
constexpr double planted = 0.01;
constexpr double drift = 0.05;
constexpr double drift_seen = 0.02;  // of it, at least, between the first and the last third of the rounds
constexpr double ratio_limit = 0.002;
constexpr double clock_share = span_clock_us / spin_us;
constexpr double host_ratio_limit = 0.02;
constexpr int default_rounds_each = 20;
constexpr int samples = 5;
// Intervals of the same ratio at 99 % miss each other once in some thousand times; at 95 % once in some hundred.
constexpr ComparisonOptions comparing{.alpha = 0.01};

/// `reorder` on the steps of each round, which then know their new places.
template <class Reorder>
Plan reordered(Plan plan, const Reorder& reorder) {
  for (auto& problem : plan.problems) {
    auto& steps = problem.steps;
    for (auto begin = steps.begin(); begin != steps.end();) {
      const auto end = std::find_if(begin, steps.end(), [&](const Step& step) { return step.round != begin->round; });
      reorder(begin, end);
      int predecessor = -1;
      for (auto at = begin; at != end; ++at) {
        at->position = static_cast<int>(at - begin);
        at->predecessor = predecessor;
        predecessor = at->fixture;
      }
      begin = end;
    }
  }
  return plan;
}

Plan reversed(const Plan& plan) {
  return reordered(plan, [](auto begin, auto end) { std::reverse(begin, end); });
}

Plan shuffled(const Plan& plan, std::uint32_t seed) {
  return reordered(plan, [seed](auto begin, auto end) {
    for (auto left = end - begin; left > 1; --left) {
      const auto bits =
          philox({static_cast<std::uint32_t>(begin->round), static_cast<std::uint32_t>(left), 0, 0x0DE6U}, {seed, 0});
      std::swap(*(begin + (left - 1)), *(begin + bits[0] % static_cast<std::uint32_t>(left)));
    }
  });
}

std::string text(const Comparison& comparison) {
  if (!comparison.interval) return fmt::format("{:.5f}, no interval", comparison.ratio);
  return fmt::format("{:.5f} [{:.5f}, {:.5f}]", comparison.ratio, comparison.interval->low, comparison.interval->high);
}

class Order {
 public:
  explicit Order(Context& context)
      : context_{context},
        host_{context.devices.cuda == nullptr},
        device_{host_ ? *context.devices.host : *context.devices.cuda},
        options_{context.options},
        rounds_{2 * context.repeats_or(default_rounds_each / 2, 3)} {
    options_.samples = samples;
    options_.rounds = rounds_;
  }

  ProofResult run() {
    result_.data = {{"device", host_ ? "host" : "cuda"}, {"rounds", rounds_}, {"orders", Json::array()}};
    if (host_) mark_on_host(result_, context_.no_cuda_reason);
    orders();
    if (!context_.interrupted()) drifting();
    return std::move(result_);
  }

 private:
  Plan plan_of(const SpinFamily& spins) {
    return make_plan(
        fixtures_of(spins, spins.spins(), SpinFamily::problem(spin_us), host_ ? TimingMode::host : TimingMode::event),
        options_);
  }

  std::optional<Comparison> compare(const Experiment& experiment) {
    add_dropouts(result_, experiment);
    const auto a = benchmark_of(experiment.rows[0], 0, rounds_);
    const auto b = benchmark_of(experiment.rows[1], 0, rounds_);
    if (a.rounds.empty() || b.rounds.empty() || experiment.interrupted) return std::nullopt;
    auto comparison = compare_paired(a, b, comparing);
    decide({&comparison, 1}, comparing);
    return comparison;
  }

  void orders() {
    SpinFamily spins{device_, {{"base"}, {"plus_1", 1 + planted}}};
    const auto balanced = plan_of(spins);
    const std::array<std::pair<const char*, Plan>, 4> plans{{{"balanced", balanced},
                                                             {"reversed", reversed(balanced)},
                                                             {"random", shuffled(balanced, 1)},
                                                             {"random again", shuffled(balanced, 2)}}};
    std::vector<std::pair<const char*, Comparison>> found;
    for (std::size_t i = 0; i < plans.size() && !context_.interrupted(); ++i) {
      const auto begin = static_cast<double>(i) / 5;
      const auto experiment = carry_out(context_, options_, plans[i].second, {}, begin, begin + 0.2);
      const auto comparison = compare(experiment);
      if (!comparison) continue;
      found.emplace_back(plans[i].first, *comparison);
      auto entry = to_json(*comparison);
      entry["order"] = plans[i].first;
      entry["samples_us"] = {samples_of(experiment.rows[0]), samples_of(experiment.rows[1])};
      result_.data["orders"].push_back(std::move(entry));
    }
    if (context_.interrupted()) return;
    constexpr const char* figure = "ratio of +1 %, order balanced";
    const auto balanced_one = std::find_if(found.begin(), found.end(),
                                           [](const auto& one) { return std::string_view{one.first} == "balanced"; });
    if (balanced_one == found.end())
      return add_check(result_, figure, "a ratio for the other orders to agree with", "none: it has no time", false);
    const auto& reference = balanced_one->second;
    for (const auto& [name, comparison] : found) {
      if (&comparison == &reference)
        add_figure(result_, figure, text(comparison));
      else
        add_check(result_, fmt::format("ratio of +1 %, order {}", name),
                  fmt::format("99 % intervals within {:g} of each other", clock_share), text(comparison),
                  comparison.interval && reference.interval &&
                      comparison.interval->low <= reference.interval->high + clock_share &&
                      reference.interval->low <= comparison.interval->high + clock_share);
    }
  }

  void drifting() {
    SpinFamily spins{device_, {{"a"}, {"b"}}};
    // Step by step, so that the two of a round differ as on a machine that drifts, and not round by round.
    const auto drifts = [&](int step, int steps) { spins.set_drift(1 + drift * step / std::max(steps - 1, 1)); };
    const auto experiment = carry_out(context_, options_, plan_of(spins), {drifts, {}}, 0.8, 1);
    const auto comparison = compare(experiment);
    if (!comparison) return;
    std::vector<double> first;
    std::vector<double> last;
    for (const auto& row : experiment.rows[0]) {
      const int round = row.at("mage").at("round").get<int>();
      if (3 * round < rounds_) first.push_back(row.at("real_time").get<double>());
      if (3 * round >= 2 * rounds_) last.push_back(row.at("real_time").get<double>());
    }
    const double moved = statistics::median(last) / statistics::median(first) - 1;
    auto entry = to_json(*comparison);
    entry["moved"] = moved;
    entry["samples_us"] = {samples_of(experiment.rows[0]), samples_of(experiment.rows[1])};
    result_.data["drift"] = std::move(entry);
    const double limit = host_ ? host_ratio_limit : ratio_limit;
    add_check(result_, "machine 5 % slower over the rounds: last third over first", "more than +2 %",
              fmt::format("{:+.2f} %", 100 * moved), moved > drift_seen);
    add_check(result_, "machine 5 % slower over the rounds: ratio of equals", fmt::format("1 +- {:g}", limit),
              text(*comparison), std::fabs(comparison->ratio - 1) <= limit);
  }

  Context& context_;
  bool host_;
  Device& device_;
  Options options_;
  int rounds_;
  ProofResult result_;
};

}  // namespace

ProofResult order(Context& context) { return Order{context}.run(); }

}  // namespace mage::selftest
