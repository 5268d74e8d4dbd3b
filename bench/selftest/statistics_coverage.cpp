// SPDX-License-Identifier: Apache-2.0
// Simulated runs, whose truth is known, through the functions that judge real ones. The seeds are fixed.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/comparison.hpp"
#include "bench/selftest/proof.hpp"
#include "bench/statistics.hpp"
#include "mage_bench/parallel.hpp"
#include "mage_bench/random.hpp"

namespace mage::selftest {
namespace {

constexpr int own_experiments = 2000;
constexpr std::size_t rounds = 10, samples = 20;

/// What two variants are, and how their times vary. Shares of the time, as standard deviations.
struct World {
  std::uint64_t seed = 0;
  double ratio = 1;  ///< of the candidate to the baseline, in truth
  double time_us = 31.2;
  double quantum_us = 0;      ///< times are whole steps of it; 0: any
  double run_effect = 0.003;  ///< of a round, on both variants alike
  double variant_round_effect = 0.0015;
  double noise = 0.01;  ///< of a sample
};

struct Simulated {
  StoredBenchmark baseline, candidate;
};

Simulated simulate(const World& world, int64 number) {
  std::vector<double> normal(rounds * (1 + 2 * (1 + samples)));
  generate({.name = "z", .dtype = DType::f64, .rows = 1, .cols = static_cast<int64>(normal.size()), .seed = world.seed},
           static_cast<std::uint32_t>(number), normal.data());
  auto draw = normal.begin();
  // Where in a step of the clock a time lies differs from experiment to experiment.
  const double time_us = world.time_us + world.quantum_us * static_cast<double>(number % 97) / 97;
  Simulated result;
  for (auto* benchmark : {&result.baseline, &result.candidate}) {
    benchmark->quantum_us = world.quantum_us;
    benchmark->rounds_planned = static_cast<int>(rounds);
  }
  for (std::size_t round = 0; round < rounds; ++round) {
    const double shared = world.run_effect * *draw++;
    for (auto* benchmark : {&result.baseline, &result.candidate}) {
      const double truth_us = time_us * (benchmark == &result.candidate ? world.ratio : 1);
      const double round_us = truth_us * std::exp(shared + world.variant_round_effect * *draw++);
      std::vector<double> times_us;
      for (std::size_t i = 0; i < samples; ++i) {
        const double us = round_us * (1 + world.noise * *draw++);
        times_us.push_back(world.quantum_us > 0 ? std::round(us / world.quantum_us) * world.quantum_us : us);
      }
      benchmark->rounds.push_back({static_cast<int>(round), statistics::median(times_us)});
    }
  }
  return result;
}

std::vector<double> medians_us(const StoredBenchmark& benchmark) {
  std::vector<double> medians;
  medians.reserve(benchmark.rounds.size());
  for (const auto& round : benchmark.rounds) medians.push_back(round.median_us);
  return medians;
}

bool holds(const std::optional<statistics::Interval>& interval, double truth) {
  return interval && interval->low <= truth && truth <= interval->high;
}

using Compare = Comparison (*)(const StoredBenchmark&, const StoredBenchmark&, const ComparisonOptions&);

class StatisticsCoverage {
 public:
  explicit StatisticsCoverage(Context& context)
      : context_{context}, experiments_{context.repeats_or(own_experiments)} {}

  ProofResult run() {
    const std::vector<void (StatisticsCoverage::*)()> parts{
        &StatisticsCoverage::intervals, &StatisticsCoverage::null, &StatisticsCoverage::effects,
        &StatisticsCoverage::coarse_clock, &StatisticsCoverage::edges};
    for (std::size_t i = 0; i < parts.size() && !context_.interrupted(); ++i) {
      (this->*parts[i])();
      context_.progress(static_cast<double>(i + 1) / static_cast<double>(parts.size()));
    }
    result_.data["experiments"] = experiments_;
    return std::move(result_);
  }

 private:
  std::vector<Comparison> compare_all(const World& world, Compare compare = compare_paired,
                                      const ComparisonOptions& options = {}) const {
    std::vector<Comparison> all(static_cast<std::size_t>(experiments_));
    parallel_blocks(experiments_, 50, [&](int64 begin, int64 end) {
      for (int64 number = begin; number < end && !context_.interrupted(); ++number) {
        const auto experiment = simulate(world, number);
        all[static_cast<std::size_t>(number)] = compare(experiment.baseline, experiment.candidate, options);
      }
    });
    return all;
  }
  /// Each a table of its own.
  std::vector<Comparison> decided(std::vector<Comparison> all, const ComparisonOptions& options) const {
    for (auto& comparison : all) decide(std::span{&comparison, 1}, options);
    return all;
  }
  template <class Range, class Predicate>
  [[nodiscard]] double percent_of(const Range& range, const Predicate& predicate) const {
    return 100.0 * static_cast<double>(std::count_if(range.begin(), range.end(), predicate)) /
           static_cast<double>(range.size());
  }
  static bool claims(const Comparison& comparison) {
    return comparison.word == Word::faster || comparison.word == Word::slower;
  }
  /// Standard deviation in percent of a share of 5 or 95 % that is estimated from all experiments.
  [[nodiscard]] double deviation() const { return std::sqrt(5.0 * 95 / experiments_); }

  void add_percent(const char* key, std::string what, double low, double high, double percent) {
    add_check(result_, std::move(what),
              low == high ? fmt::format("{:g} %", low) : fmt::format("{:.1f} to {:.1f} %", low, high),
              fmt::format("{:.2f} %", percent), percent >= low && percent <= high);
    result_.data[key] = percent;
  }
  void add_coverage(const char* key, std::string what, double percent, bool may_be_wider = false) {
    // Four deviations where few experiments make that the wider band.
    const double slack = std::max(2.0, 4 * deviation());
    add_percent(key, std::move(what), 95 - slack, may_be_wider ? 100 : std::min(95 + slack, 100.0), percent);
  }
  [[nodiscard]] double coverage(const std::vector<Comparison>& all, double truth) const {
    return percent_of(all, [&](const Comparison& comparison) { return holds(comparison.interval, truth); });
  }

  void intervals() {
    add_coverage("coverage_paired", "intervals of a ratio of 1 that hold it", coverage(compare_all({.seed = 1}), 1));
    add_coverage("coverage_paired_slower", "intervals of a ratio of 1.02 that hold it",
                 coverage(compare_all({.seed = 2, .ratio = 1.02}), 1.02));
    add_coverage("coverage_unpaired", "intervals of runs that share nothing that hold their ratio",
                 coverage(compare_all({.seed = 3, .run_effect = 0}, compare_unpaired), 1));
    const World world{.seed = 4};
    std::vector<int> held(static_cast<std::size_t>(experiments_));
    parallel_blocks(experiments_, 50, [&](int64 begin, int64 end) {
      for (int64 number = begin; number < end && !context_.interrupted(); ++number)
        held[static_cast<std::size_t>(number)] =
            holds(statistics::t_interval_us(medians_us(simulate(world, number).baseline)), world.time_us) ? 1 : 0;
    });
    add_coverage("coverage_time", "intervals of a time that hold it", percent_of(held, [](int h) { return h == 1; }));
  }

  void null() {
    const World world{.seed = 5};
    const ComparisonOptions any{.min_effect = 0, .claim_alpha = 0.05};
    add_percent("claimed_of_null", "equal variants called different at 5 %, without a minimum effect",
                std::max(0.0, 5 - 4 * deviation()), 5 + 4 * deviation(),
                percent_of(decided(compare_all(world, compare_paired, any), any), claims));
    add_percent("claimed_of_null_min_effect", "the same as results are claimed", 0, 0,
                percent_of(decided(compare_all(world), {}), claims));
  }

  void effects() {
    const auto is = [](Word word) { return [word](const Comparison& comparison) { return comparison.word == word; }; };
    const auto words = [&](std::uint64_t seed, double ratio) {
      return decided(compare_all({.seed = seed, .ratio = ratio}), {});
    };
    add_percent("found_slower", "2 % slower called slower", 90, 100, percent_of(words(6, 1.02), is(Word::slower)));
    add_percent("found_faster", "2 % faster called faster", 90, 100, percent_of(words(7, 1 / 1.02), is(Word::faster)));
    const auto below = words(8, 1.002);
    add_percent("claimed_below", "0.2 % slower called different", 0, 0, percent_of(below, claims));
    add_percent("equivalent_below", "0.2 % slower called equivalent", 99, 100, percent_of(below, is(Word::equivalent)));
  }

  // A step of the clock is 1 % of the time here, and the noise less than a step.
  void coarse_clock() {
    const World world{.seed = 9, .ratio = 1.003, .time_us = 3, .quantum_us = 0.032, .noise = 0.002};
    const auto all = compare_all(world);
    add_coverage("coverage_coarse", "intervals by a clock of 1 % steps that hold their ratio",
                 coverage(all, world.ratio), true);
    add_percent("claimed_coarse", "0.3 % slower called different by that clock", 0, 0,
                percent_of(decided(all, {}), claims));
  }

  void edges() {
    const std::vector<double> one{10}, none;
    add_check(result_, "the interval of one round", "none", statistics::t_interval_us(one) ? "an interval" : "none",
              !statistics::t_interval_us(one));
    add_check(result_, "the drift and autocorrelation of one sample", "none",
              statistics::drift(one) || statistics::lag1_autocorrelation(one) ? "some" : "none",
              !statistics::drift(one) && !statistics::lag1_autocorrelation(one));
    add_word("one round of each, 10 and 20 us", compared({10}, {20}), Word::inconclusive);
    const std::vector<double> equal(20, 10.0);
    add_check(result_, "the deviation of equal samples by a clock of 0.1 us", "0.1 us / sqrt 12",
              fmt::format("{:.4f} us", statistics::mad(equal, 0.1)),
              std::abs(statistics::mad(equal, 0.1) - 0.1 / std::sqrt(12.0)) < 1e-12);
    add_word("equal medians in every round", compared(equal, equal), Word::equivalent);
    add_word("equal medians, 5 % apart", compared(equal, std::vector<double>(20, 10.5)), Word::slower);
    add_word("equal medians one step of a coarse clock apart",
             compared({10, 10, 10, 10}, {10.5, 10.5, 10.5, 10.5}, 0.5), Word::inconclusive);
    const double nan = std::numeric_limits<double>::quiet_NaN();
    add_word("a median that is NaN", compared({10, 10, 10}, {10, nan, 10}), Word::not_comparable);
    for (const auto& [what, broken] :
         {std::pair<const char*, std::vector<double>>{"no sample at all", none}, {"a sample that is NaN", {1, nan, 2}}})
      add_refusal(what, broken);
  }

  static Word compared(const std::vector<double>& from_us, const std::vector<double>& to_us, double quantum_us = 0) {
    const auto benchmark = [&](const std::vector<double>& us) {
      StoredBenchmark stored;
      stored.quantum_us = quantum_us;
      stored.rounds_planned = static_cast<int>(us.size());
      for (const double median_us : us) stored.rounds.push_back({static_cast<int>(stored.rounds.size()), median_us});
      return stored;
    };
    auto comparison = compare_paired(benchmark(from_us), benchmark(to_us), {});
    decide(std::span{&comparison, 1}, {});
    return comparison.word;
  }
  void add_word(std::string what, Word word, Word expected) {
    add_check(result_, std::move(what), std::string{to_string(expected)}, std::string{to_string(word)},
              word == expected);
  }
  void add_refusal(std::string what, const std::vector<double>& broken) {
    int refused = 0;
    const auto count = [&](const auto& function) {
      try {
        static_cast<void>(function());
      } catch (const std::invalid_argument&) {
        refused += 1;
      }
    };
    count([&] { return statistics::median(broken); });
    count([&] { return statistics::mad(broken); });
    count([&] { return statistics::quantile(broken, 0.5); });
    count([&] { return statistics::t_interval_us(broken).has_value(); });
    add_check(result_, std::move(what), "refused by 4 of 4 functions", fmt::format("{} of 4", refused), refused == 4);
  }

  Context& context_;
  int experiments_;
  ProofResult result_;
};

}  // namespace

ProofResult statistics_coverage(Context& context) { return StatisticsCoverage{context}.run(); }

}  // namespace mage::selftest
