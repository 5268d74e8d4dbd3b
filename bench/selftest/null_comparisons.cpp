// SPDX-License-Identifier: Apache-2.0
// One operation under several names, compared with itself by the whole path of a measurement and a comparison.
#include <fmt/format.h>

#include <algorithm>
#include <list>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "bench/plan_order.hpp"
#include "bench/selftest/binomial.hpp"
#include "bench/selftest/experiment.hpp"
#include "bench/selftest/proof.hpp"
#include "bench/selftest/spin.hpp"

namespace mage::selftest {
namespace {

using Json = nlohmann::ordered_json;

constexpr int clones_each = 8;  // as four pairs that share nothing
constexpr int samples_divisor = 4;
constexpr int default_groups = 2;
constexpr int default_host_groups = 10;
constexpr double level = 0.05;
constexpr double band = 0.9995;  // 99.9 % two-sided

/// A registered variant on a problem, in the modes in which it is compared with itself.
struct Original {
  const Family* family;
  const VariantInfo* variant;
  AnyProblem problem;
  std::vector<TimingMode> modes;
};

/// By default the first and the last variant of each family on its first two problems; with a filter, what it selects.
std::vector<Original> originals(const Context& context) {
  std::vector<Original> list;
  const auto machine = describe_machine(cuda_presence(), context.devices.cuda.get());
  for (const auto& fixture : select_fixtures(context.options, machine)) {
    if (fixture.status != Status::ok || fixture.variant->on_host()) continue;
    const auto known = std::find_if(list.begin(), list.end(), [&](const Original& other) {
      return other.variant == fixture.variant && other.problem.name == fixture.problem.name;
    });
    if (known != list.end())
      known->modes.push_back(fixture.mode);
    else
      list.push_back({fixture.family, fixture.variant, fixture.problem, {fixture.mode}});
  }
  if (context.options.filter != ".") return list;
  std::map<const Family*, std::vector<std::string>> problems;
  std::map<std::pair<const Family*, std::string>, std::pair<std::string, std::string>> ends;
  for (const auto& original : list) {
    auto& names = problems[original.family];
    if (std::find(names.begin(), names.end(), original.problem.name) == names.end())
      names.push_back(original.problem.name);
    const auto& name = original.variant->name;
    const auto [found, first] = ends.try_emplace({original.family, original.problem.name}, name, name);
    if (!first) found->second = {std::min(found->second.first, name), std::max(found->second.second, name)};
  }
  std::erase_if(list, [&](const Original& original) {
    const auto& names = problems.at(original.family);
    const auto place = std::find(names.begin(), names.end(), original.problem.name) - names.begin();
    const auto& [first, last] = ends.at({original.family, original.problem.name});
    return place >= 2 || (original.variant->name != first && original.variant->name != last);
  });
  return list;
}

std::vector<SpinVariant> numbered(int count) {
  std::vector<SpinVariant> variants(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) variants[static_cast<std::size_t>(i)].name = fmt::format("spin_{}", i);
  return variants;
}

/// How many comparisons found a difference.
struct Count {
  int comparisons = 0, different = 0, claimed = 0, equivalent = 0;
};

class NullComparisons {
 public:
  explicit NullComparisons(Context& context)
      : context_{context},
        host_{context.devices.cuda == nullptr},
        device_{host_ ? *context.devices.host : *context.devices.cuda},
        spins_{device_, numbered(clones_each)} {}

  ProofResult run() {
    const int groups = context_.repeats_or(host_ ? default_host_groups : default_groups);
    auto plan = make_plan_of_clones(groups);
    const auto experiment = carry_out(context_, options_, plan, {}, 0, 1);
    ProofResult result;
    result.data = {{"device", host_ ? "host" : "cuda"}, {"comparisons", Json::array()}, {"benchmarks", Json::array()}};
    if (host_) mark_on_host(result, context_.no_cuda_reason);
    add_dropouts(result, experiment);
    if (context_.options.filter != "." && clones_.empty()) {
      add_figure(result, "what --benchmark_filter selects",
                 "no GPU variant that runs here: the spin alone is compared");
      result.reason +=
          (result.reason.empty() ? "" : "; ") + std::string{"nothing that the filter selects was compared"};
    }
    compare(plan, experiment, groups, result);
    for (std::size_t i = 0; i < plan.fixtures.size(); ++i)
      result.data["benchmarks"].push_back(
          {{"name", plan.fixtures[i].name}, {"samples_us", samples_of(experiment.rows[i])}});
    for (const auto& [mode, count] : by_mode_) judge(result, mode, count);
    judge(result, "all", all_);
    return result;
  }

 private:
  Plan make_plan_of_clones(int groups) {
    std::vector<Fixture> fixtures;
    const auto add = [&](const Family& family, std::span<const VariantInfo> variants, const AnyProblem& problem,
                         TimingMode mode) {
      const auto more = fixtures_of(family, variants, problem, mode);
      fixtures.insert(fixtures.end(), more.begin(), more.end());
    };
    const auto spin = SpinFamily::problem(host_ ? 100 : 10);
    for (const auto mode : all_modes)
      if (!device_.unavailable(mode)) add(spins_, spins_.spins(), spin, mode);
    if (!host_)
      for (const auto& original : originals(context_)) {
        clones_.push_back(clones(*original.variant, clones_each));
        for (const auto mode : original.modes) add(*original.family, clones_.back(), original.problem, mode);
      }
    // Problem by problem, as a plan needs them.
    std::stable_sort(fixtures.begin(), fixtures.end(), [](const Fixture& a, const Fixture& b) {
      return std::make_pair(a.family->name(), a.problem.name) < std::make_pair(b.family->name(), b.problem.name);
    });
    options_ = context_.options;
    options_.samples_divisor = samples_divisor;
    // Each group of rounds repeats the design of what is measured interleaved, so it is a comparison by itself.
    std::map<std::tuple<const Family*, std::string, TimingMode>, int> together;
    int most = 0;
    for (const auto& fixture : fixtures)
      most = std::max(most, ++together[{fixture.family, fixture.problem.name, fixture.mode}]);
    rounds_a_group_ = default_rounds(most);
    options_.rounds = groups * rounds_a_group_;
    return make_plan(std::move(fixtures), options_);
  }

  void compare(const Plan& plan, const Experiment& experiment, int groups, ProofResult& result) {
    const ComparisonOptions comparing{.alpha = level};
    for (std::size_t i = 0; i + 1 < plan.fixtures.size(); i += 2)
      for (int group = 0; group < groups; ++group) {
        const auto first = group * rounds_a_group_;
        const auto a = benchmark_of(experiment.rows[i], first, rounds_a_group_);
        const auto b = benchmark_of(experiment.rows[i + 1], first, rounds_a_group_);
        if (a.rounds.size() != static_cast<std::size_t>(rounds_a_group_) || a.rounds.size() != b.rounds.size())
          continue;
        auto comparison = compare_paired(a, b, comparing);
        // Alone in its table, no adjustment for many comparisons makes it careful.
        decide({&comparison, 1}, comparing);
        if (!comparison.interval) continue;
        const bool different = comparison.interval->low > 1 || comparison.interval->high < 1;
        const bool claimed = comparison.word == Word::faster || comparison.word == Word::slower;
        for (auto* count : {&by_mode_[a.mode], &all_}) {
          count->comparisons += 1;
          count->different += different ? 1 : 0;
          count->claimed += claimed ? 1 : 0;
          count->equivalent += comparison.word == Word::equivalent ? 1 : 0;
        }
        auto entry = to_json(comparison);
        entry["baseline"] = a.name;
        entry["candidate"] = b.name;
        entry["mode"] = a.mode;
        entry["first_round"] = first;
        result.data["comparisons"].push_back(std::move(entry));
      }
  }

  void judge(ProofResult& result, const std::string& mode, const Count& count) {
    const int most = binomial_quantile(count.comparisons, level, band);
    add_check(result, fmt::format("{}: 95 % intervals without 1", mode),
              fmt::format("at most {} of {}", most, count.comparisons),
              fmt::format("{} ({:.1f} %)", count.different, 100.0 * count.different / std::max(count.comparisons, 1)),
              count.comparisons > 0 && count.different <= most);
    // A host that shares its cores has differences of more than 1 % that are real, once in a while.
    const int most_claimed = host_ ? most : 0;
    add_check(result, fmt::format("{}: faster or slower by 1 % or more", mode),
              fmt::format("at most {} of {}", most_claimed, count.comparisons), std::to_string(count.claimed),
              count.comparisons > 0 && count.claimed <= most_claimed);
    // How much the line above says: what is never precise enough to claim anything claims nothing wrong either.
    add_figure(result, fmt::format("{}: precise enough to be called equivalent within 1 %", mode),
               fmt::format("{} of {}", count.equivalent, count.comparisons));
  }

  Context& context_;
  bool host_;
  Device& device_;
  SpinFamily spins_;
  std::list<std::vector<VariantInfo>> clones_;  // fixtures point into them
  Options options_;
  int rounds_a_group_ = 0;
  std::map<std::string, Count> by_mode_;
  Count all_;
};

}  // namespace

ProofResult null_comparisons(Context& context) { return NullComparisons{context}.run(); }

}  // namespace mage::selftest
