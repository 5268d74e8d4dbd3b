// SPDX-License-Identifier: Apache-2.0
#include "bench/comparison.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace mage {
namespace {

constexpr std::size_t fewest_rounds = 3;  ///< fewer say next to nothing of their own spread

struct Side {
  const char* name;
  const StoredBenchmark& benchmark;
};

/// Round medians of both sides; of paired ones, entry i of each is from the same round.
struct Medians {
  std::vector<double> baseline_us, candidate_us;
};

void require_options(const ComparisonOptions& options) {
  if (!(options.alpha > 0 && options.alpha < 1))
    throw std::invalid_argument{fmt::format("alpha is {}, but must be inside (0, 1)", options.alpha)};
  if (!(options.claim_alpha > 0 && options.claim_alpha < 1))
    throw std::invalid_argument{
        fmt::format("the alpha of a claim is {}, but must be inside (0, 1)", options.claim_alpha)};
  if (!(options.min_effect >= 0 && options.min_effect < 1))
    throw std::invalid_argument{fmt::format("the minimum effect is {}, but must be in [0, 1)", options.min_effect)};
}

void require_ascending(const StoredBenchmark& benchmark) {
  const auto unordered = [](const StoredRound& a, const StoredRound& b) { return a.round >= b.round; };
  const auto& rounds = benchmark.rounds;
  const auto found = std::adjacent_find(rounds.begin(), rounds.end(), unordered);
  if (found != rounds.end())
    throw std::invalid_argument{fmt::format("{}: round {} follows round {}; rounds must ascend", benchmark.name,
                                            std::next(found)->round, found->round)};
}

bool has_flag(const StoredBenchmark& benchmark, std::string_view flag) {
  return std::find(benchmark.flags.begin(), benchmark.flags.end(), flag) != benchmark.flags.end();
}

/// Why the two must not be compared; empty where they may.
std::string objection(const Side& baseline, const Side& candidate) {
  const auto &a = baseline.benchmark, &b = candidate.benchmark;
  if (a.mode != b.mode) return fmt::format("mode {} against mode {}: different measurements", a.mode, b.mode);
  if (a.inputs_sha256 != b.inputs_sha256)
    return fmt::format("different inputs: inputs_sha256 is {} and {}", a.inputs_sha256, b.inputs_sha256);
  for (const auto& side : {baseline, candidate})
    for (const auto& round : side.benchmark.rounds)
      if (!(round.median_us > 0 && std::isfinite(round.median_us)))
        return fmt::format("the {}'s median of round {} is {} us, which is no time", side.name, round.round,
                           round.median_us);
  return {};
}

/// What the flags of one side forbid goes to `barriers`, what they only tell to `notes`.
void read_flags(const Side& side, std::vector<std::string>& barriers, std::vector<std::string>& notes) {
  const auto& benchmark = side.benchmark;
  if (has_flag(benchmark, "unstable")) barriers.push_back(fmt::format("the {} is unstable", side.name));
  if (has_flag(benchmark, "launch_bound"))
    barriers.push_back(fmt::format("the {} is launch_bound: the host was timed, not the device", side.name));
  if (has_flag(benchmark, "counter_example"))
    notes.push_back(
        fmt::format("the {} is a counter_example: its time is that of something nobody should use", side.name));
  if (has_flag(benchmark, "floor_dominated"))
    notes.push_back(fmt::format("the {} is floor_dominated: mostly fixed cost, which both sides share", side.name));
  if (has_flag(benchmark, "gains_by_repetition"))
    notes.push_back(fmt::format("the {} gains_by_repetition: decide by event_cold", side.name));
  if (has_flag(benchmark, "missing_rounds"))
    notes.push_back(
        fmt::format("the {} has {} of {} rounds", side.name, benchmark.rounds.size(), benchmark.rounds_planned));
  if (has_flag(benchmark, "unverified_after"))
    notes.push_back(fmt::format("the {} was not checked again after its rounds", side.name));
}

std::vector<double> logarithms(const std::vector<double>& values) {
  std::vector<double> logs;
  logs.reserve(values.size());
  for (const double value : values) logs.push_back(std::log(value));
  return logs;
}

/// Of rounds that ascend, those that both have.
Medians common_rounds(const StoredBenchmark& baseline, const StoredBenchmark& candidate) {
  Medians medians;
  auto a = baseline.rounds.begin();
  auto b = candidate.rounds.begin();
  while (a != baseline.rounds.end() && b != candidate.rounds.end()) {
    if (a->round < b->round) {
      ++a;
    } else if (b->round < a->round) {
      ++b;
    } else {
      medians.baseline_us.push_back(a++->median_us);
      medians.candidate_us.push_back(b++->median_us);
    }
  }
  return medians;
}

std::vector<double> all_rounds(const StoredBenchmark& benchmark) {
  std::vector<double> medians_us;
  medians_us.reserve(benchmark.rounds.size());
  for (const auto& round : benchmark.rounds) medians_us.push_back(round.median_us);
  return medians_us;
}

/// All but what is estimated from the logarithms.
Comparison describe(const Side& baseline, const Side& candidate, const Medians& medians, bool paired) {
  Comparison comparison;
  comparison.paired = paired;
  const std::size_t rounds = std::min(medians.baseline_us.size(), medians.candidate_us.size());
  comparison.rounds = static_cast<int>(rounds);
  std::vector<std::string> barriers;
  for (const auto& side : {baseline, candidate}) read_flags(side, barriers, comparison.notes);
  if (rounds < fewest_rounds)
    barriers.push_back(fmt::format("{} {}; at least {} are needed", rounds,
                                   paired ? "rounds that both have" : "rounds on one side", fewest_rounds));
  comparison.barred = !barriers.empty();
  comparison.why = fmt::format("{}", fmt::join(barriers, "; "));
  if (rounds == 0) return comparison;
  comparison.baseline_us = statistics::median(medians.baseline_us);
  comparison.candidate_us = statistics::median(medians.candidate_us);
  comparison.ratio = comparison.candidate_us / comparison.baseline_us;
  return comparison;
}

/// Ratio, interval and p from the mean of the logarithm of the ratio, where there is one.
void estimate_ratio(Comparison& comparison, std::optional<statistics::MeanEstimate> estimate, const Side& baseline,
                    const Side& candidate, const ComparisonOptions& options) {
  if (!estimate) return;
  // Ratios that are equal in truth differ in the last bits of their logarithms.
  constexpr double rounding = 1e-14;
  if (estimate->standard_error < rounding) estimate->standard_error = 0;
  const double reach = baseline.benchmark.quantum_us / 2 / comparison.baseline_us +
                       candidate.benchmark.quantum_us / 2 / comparison.candidate_us;
  comparison.ratio = std::exp(estimate->mean);
  const auto at_level = [&](double alpha) {
    const auto interval = statistics::t_interval(*estimate, 1 - alpha);
    return statistics::Interval{std::exp(std::min(interval.low, estimate->mean - reach)),
                                std::exp(std::max(interval.high, estimate->mean + reach))};
  };
  comparison.interval = at_level(options.alpha);
  comparison.claim_interval = at_level(options.claim_alpha);
  const bool hidden_by_step = estimate->standard_error == 0 && std::fabs(estimate->mean) <= reach + rounding;
  comparison.p_value = hidden_by_step ? 1 : statistics::t_test_p_value(*estimate);
}

std::string percent(double ratio) { return fmt::format("{:+.2f} %", 100 * (ratio - 1)); }

bool excludes_one(const statistics::Interval& interval) { return interval.low > 1 || interval.high < 1; }

/// Whether all of the interval is at least `effect` away from 1.
bool beyond(const statistics::Interval& interval, double effect) {
  return interval.low >= 1 + effect || interval.high <= 1 - effect;
}

Word word_of(const Comparison& comparison, const ComparisonOptions& options) {
  if (comparison.barred || !comparison.interval) return Word::inconclusive;
  const auto &interval = *comparison.interval, &claim = *comparison.claim_interval;
  const auto clear = [&](const statistics::Interval& of) { return excludes_one(of) && beyond(of, options.min_effect); };
  if (comparison.adjusted_p_value < options.alpha && clear(interval) && clear(claim))
    return comparison.ratio < 1 ? Word::faster : Word::slower;
  if (interval.low > 1 - options.min_effect && interval.high < 1 + options.min_effect) return Word::equivalent;
  return Word::inconclusive;
}

/// Why the figures allow none of the other words, where nothing bars them.
std::string indecision(const Comparison& comparison, const ComparisonOptions& options, std::size_t tests) {
  if (!comparison.interval) return "there is no interval";
  const auto& interval = *comparison.interval;
  const std::string effect = fmt::format("the minimum effect of {:g} %", 100 * options.min_effect);
  const std::string from_to = fmt::format("from {} to {}", percent(interval.low), percent(interval.high));
  if (!excludes_one(interval)) return fmt::format("the interval {} holds both 0 % and {}", from_to, effect);
  if (!beyond(interval, options.min_effect)) return fmt::format("the interval {} reaches across {}", from_to, effect);
  const auto& claim = *comparison.claim_interval;
  if (!excludes_one(claim) || !beyond(claim, options.min_effect))
    return fmt::format("the {:g} % interval, from {} to {}, reaches across {}", 100 * (1 - options.claim_alpha),
                       percent(claim.low), percent(claim.high), effect);
  return fmt::format("p is {:.2g}, adjusted for {} comparisons {:.2g}: not below {:g}", comparison.p_value.value_or(1),
                     tests, comparison.adjusted_p_value, options.alpha);
}

Comparison not_comparable(std::string why, bool paired) {
  Comparison comparison;
  comparison.paired = paired;
  comparison.word = Word::not_comparable;
  comparison.why = std::move(why);
  return comparison;
}

}  // namespace

std::string_view to_string(Word word) {
  switch (word) {
    case Word::faster: return "faster";
    case Word::slower: return "slower";
    case Word::equivalent: return "equivalent";
    case Word::inconclusive: return "inconclusive";
    case Word::not_comparable: return "not comparable";
  }
  return "?";
}

Comparison compare_paired(const StoredBenchmark& baseline, const StoredBenchmark& candidate,
                          const ComparisonOptions& options) {
  require_options(options);
  const Side from{"baseline", baseline}, to{"candidate", candidate};
  for (const auto* side : {&baseline, &candidate}) require_ascending(*side);
  if (auto why = objection(from, to); !why.empty()) return not_comparable(std::move(why), true);
  const Medians medians = common_rounds(baseline, candidate);
  Comparison comparison = describe(from, to, medians, true);
  const std::size_t pairs = medians.baseline_us.size();
  for (const auto& side : {from, to})
    if (side.benchmark.rounds.size() > pairs)
      comparison.notes.push_back(fmt::format("rounds of the {} left out, since the other has none such: {}", side.name,
                                             side.benchmark.rounds.size() - pairs));
  if (pairs == 0) return comparison;
  // A difference of logarithms changes its sign exactly where the sides are swapped, so that ranks see such ties.
  std::vector<double> log_ratios = logarithms(medians.candidate_us);
  for (std::size_t i = 0; i < pairs; ++i) log_ratios[i] -= std::log(medians.baseline_us[i]);
  estimate_ratio(comparison, statistics::mean_estimate(log_ratios), from, to, options);
  comparison.hodges_lehmann_ratio = std::exp(statistics::hodges_lehmann(log_ratios));
  comparison.wilcoxon_p_value = statistics::wilcoxon_signed_rank_p_value(log_ratios);
  return comparison;
}

Comparison compare_unpaired(const StoredBenchmark& baseline, const StoredBenchmark& candidate,
                            const ComparisonOptions& options) {
  require_options(options);
  const Side from{"baseline", baseline}, to{"candidate", candidate};
  for (const auto* side : {&baseline, &candidate}) require_ascending(*side);
  if (auto why = objection(from, to); !why.empty()) return not_comparable(std::move(why), false);
  const Medians medians{all_rounds(baseline), all_rounds(candidate)};
  Comparison comparison = describe(from, to, medians, false);
  if (comparison.rounds == 0) return comparison;
  const auto logs_from = logarithms(medians.baseline_us), logs_to = logarithms(medians.candidate_us);
  estimate_ratio(comparison, statistics::welch_estimate(logs_from, logs_to), from, to, options);
  comparison.hodges_lehmann_ratio = std::exp(statistics::hodges_lehmann_shift(logs_from, logs_to));
  comparison.wilcoxon_p_value = statistics::wilcoxon_rank_sum_p_value(logs_from, logs_to);
  return comparison;
}

void decide(std::span<Comparison> table, const ComparisonOptions& options) {
  require_options(options);
  std::vector<Comparison*> tested;
  std::vector<double> p_values;
  for (auto& comparison : table) {
    comparison.adjusted_p_value = 1;
    if (comparison.word == Word::not_comparable || !comparison.p_value) continue;
    tested.push_back(&comparison);
    p_values.push_back(*comparison.p_value);
  }
  if (!tested.empty()) {
    const auto adjusted = statistics::holm_adjusted(p_values);
    for (std::size_t i = 0; i < tested.size(); ++i) tested[i]->adjusted_p_value = adjusted[i];
  }
  for (auto& comparison : table) {
    if (comparison.word == Word::not_comparable) continue;
    comparison.word = word_of(comparison, options);
    if (comparison.barred) continue;
    const bool decided = comparison.word != Word::inconclusive;
    comparison.why = decided ? std::string{} : indecision(comparison, options, tested.size());
  }
}

}  // namespace mage
