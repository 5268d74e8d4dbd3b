// SPDX-License-Identifier: Apache-2.0
#include "bench/comparison.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace mage {
namespace {

using Samples = std::vector<double>;

StoredBenchmark benchmark(const Samples& medians_us, std::vector<std::string> flags = {}) {
  StoredBenchmark result;
  result.name = "family/variant/8x8/event";
  result.mode = "event";
  result.inputs_sha256 = "aa";
  result.rounds_planned = static_cast<int>(medians_us.size());
  for (const double median_us : medians_us)
    result.rounds.push_back({static_cast<int>(result.rounds.size()), median_us});
  result.flags = std::move(flags);
  return result;
}

const Samples base_us{10.00, 10.05, 9.97, 10.02, 9.96, 10.03, 9.99, 10.01};
/// Per cent by which a variant may differ from round to round.
const Samples wobble{0.05, -0.08, 0.02, 0.11, -0.06, -0.03, 0.07, -0.10};

/// `base_us`, each round `percent` longer, and off by its wobble.
Samples longer(double percent, double wobble_scale = 1) {
  Samples result;
  for (std::size_t i = 0; i < base_us.size(); ++i)
    result.push_back(base_us[i] * (1 + (percent + wobble_scale * wobble[i]) / 100));
  return result;
}

Comparison decided(const StoredBenchmark& baseline, const StoredBenchmark& candidate,
                   const ComparisonOptions& options = {}) {
  std::vector<Comparison> table{compare_paired(baseline, candidate, options)};
  decide(table, options);
  return table[0];
}

TEST(Comparison, FiguresByHand) {
  // Log ratios ln 1.1, ln 1.2, ln 1.1, ln 1.2; with d = (ln 1.2 - ln 1.1) / 2 the standard error is d / sqrt 3.
  const auto got = compare_paired(benchmark({1, 2, 3, 4}), benchmark({1.1, 2.4, 3.3, 4.8}), {});
  const double center = std::log(1.1 * 1.2) / 2, error = std::log(1.2 / 1.1) / 2 / std::sqrt(3.0);
  EXPECT_TRUE(got.paired);
  EXPECT_EQ(got.rounds, 4);
  EXPECT_DOUBLE_EQ(got.baseline_us, 2.5);
  EXPECT_DOUBLE_EQ(got.candidate_us, 2.85);
  EXPECT_NEAR(got.ratio, std::sqrt(1.32), 1e-14);
  ASSERT_TRUE(got.interval && got.p_value && got.wilcoxon_p_value);
  constexpr double t3 = 3.182446305284263;  // 0.975 quantile of three degrees of freedom
  EXPECT_NEAR(got.interval->low, std::exp(center - t3 * error), 1e-12);
  EXPECT_NEAR(got.interval->high, std::exp(center + t3 * error), 1e-12);
  EXPECT_NEAR(*got.p_value, statistics::student_t_p_value(center / error, 3), 1e-12);
  EXPECT_NEAR(got.hodges_lehmann_ratio, std::sqrt(1.32), 1e-14);
  EXPECT_EQ(*got.wilcoxon_p_value, 0.125);
  EXPECT_EQ(got.adjusted_p_value, 1);
}

TEST(Comparison, UnpairedIsWelchOnLogarithms) {
  const Samples a{1, 2, 4}, b{3, 3.5, 5, 6};
  const auto got = compare_unpaired(benchmark(a), benchmark(b), {.alpha = 0.1});
  Samples logs_a, logs_b;
  for (const double us : a) logs_a.push_back(std::log(us));
  for (const double us : b) logs_b.push_back(std::log(us));
  const auto expected = statistics::welch_estimate(logs_a, logs_b);
  ASSERT_TRUE(expected && got.interval && got.p_value && got.wilcoxon_p_value);
  const auto interval = statistics::t_interval(*expected, 0.9);
  EXPECT_FALSE(got.paired);
  EXPECT_EQ(got.rounds, 3);
  EXPECT_DOUBLE_EQ(got.ratio, std::pow(3 * 3.5 * 5 * 6, 0.25) / 2);
  EXPECT_DOUBLE_EQ(got.interval->low, std::exp(interval.low));
  EXPECT_DOUBLE_EQ(got.interval->high, std::exp(interval.high));
  EXPECT_DOUBLE_EQ(*got.p_value, statistics::t_test_p_value(*expected));
  EXPECT_DOUBLE_EQ(*got.wilcoxon_p_value, 8.0 / 35);  // 4 of 35 ways to deal have ranks of 8 or less: 1, 2, 5
  EXPECT_NEAR(got.hodges_lehmann_ratio, std::sqrt(1.75 * 2.5), 1e-14);  // the middle ones of twelve ratios
}

TEST(Comparison, SwappedSidesMirror) {
  const auto a = benchmark(base_us), b = benchmark(longer(1.7));
  for (const auto compare : {compare_paired, compare_unpaired}) {
    const auto one = compare(a, b, {}), other = compare(b, a, {});
    EXPECT_NEAR(one.ratio * other.ratio, 1, 1e-14);
    EXPECT_NEAR(one.interval->low * other.interval->high, 1, 1e-14);
    EXPECT_NEAR(one.hodges_lehmann_ratio * other.hodges_lehmann_ratio, 1, 1e-14);
    EXPECT_NEAR(*one.p_value, *other.p_value, 1e-12);
    EXPECT_EQ(*one.wilcoxon_p_value, *other.wilcoxon_p_value);
  }
}

TEST(Comparison, EveryWordIsReached) {
  const auto base = benchmark(base_us);
  auto other_inputs = base;
  other_inputs.inputs_sha256 = "bb";
  std::vector<Comparison> table;
  for (const auto& candidate :
       {benchmark(longer(-3)), benchmark(longer(3)), benchmark(longer(0)), benchmark(longer(0, 40)), other_inputs})
    table.push_back(compare_paired(base, candidate, {}));
  decide(table, {});
  const std::vector<Word> expected{Word::faster, Word::slower, Word::equivalent, Word::inconclusive,
                                   Word::not_comparable};
  std::set<std::string_view> texts;
  for (std::size_t i = 0; i < table.size(); ++i) {
    EXPECT_EQ(table[i].word, expected[i]) << to_string(table[i].word) << ": " << table[i].why;
    EXPECT_EQ(table[i].why.empty(), i < 3) << table[i].why;
    texts.insert(to_string(table[i].word));
  }
  EXPECT_EQ(texts, (std::set<std::string_view>{"faster", "slower", "equivalent", "inconclusive", "not comparable"}));
}

TEST(Comparison, BelowTheMinimumEffectNothingIsClaimed) {
  const auto small = decided(benchmark(base_us), benchmark(longer(0.4)));
  EXPECT_LT(*small.p_value, 1e-4);  // a difference, beyond doubt
  EXPECT_EQ(small.word, Word::equivalent);
  // As clear, but the interval reaches beyond 1 %.
  const auto between = decided(benchmark(base_us), benchmark(longer(0.97)));
  EXPECT_LT(*between.p_value, 1e-6);
  EXPECT_EQ(between.word, Word::inconclusive);
  EXPECT_NE(between.why.find("reaches across the minimum effect of 1 %"), std::string::npos) << between.why;
  const auto beyond = decided(benchmark(base_us), benchmark(longer(1.03)));
  EXPECT_GT(beyond.ratio, 1.01);
  EXPECT_EQ(beyond.word, Word::inconclusive) << "some of its interval is below 1 %";
  EXPECT_EQ(decided(benchmark(base_us), benchmark(longer(1.2))).word, Word::slower);
  EXPECT_EQ(decided(benchmark(base_us), benchmark(longer(0.4)), {.min_effect = 0}).word, Word::slower);
}

TEST(Comparison, AWideIntervalSaysSo) {
  const auto wide = decided(benchmark(base_us), benchmark(longer(2, 40)));
  EXPECT_EQ(wide.word, Word::inconclusive);
  EXPECT_NE(wide.why.find("holds both 0 % and the minimum effect"), std::string::npos) << wide.why;
}

TEST(Comparison, PairsByRoundNumber) {
  auto baseline = benchmark({10, 20, 30, 40, 50}), candidate = benchmark({11, 22, 33, 44, 55});
  baseline.rounds.erase(baseline.rounds.begin() + 1);
  candidate.rounds.erase(candidate.rounds.begin() + 2);
  candidate.rounds.pop_back();
  baseline.flags = {"missing_rounds"};
  const auto got = compare_paired(baseline, candidate, {});  // rounds 0 and 3 are left
  EXPECT_EQ(got.rounds, 2);
  EXPECT_EQ(got.baseline_us, 25);
  EXPECT_EQ(got.candidate_us, 27.5);
  EXPECT_NEAR(got.ratio, 1.1, 1e-14);
  EXPECT_TRUE(got.barred);
  EXPECT_EQ(got.notes,
            (std::vector<std::string>{"the baseline has 4 of 5 rounds",
                                      "rounds of the baseline left out, since the other has none such: 2",
                                      "rounds of the candidate left out, since the other has none such: 1"}));
}

TEST(Comparison, FewerThanThreeRoundsGiveNoVerdict) {
  for (const std::size_t rounds : {0U, 1U, 2U, 3U}) {
    Samples a, b;
    for (std::size_t i = 0; i < rounds; ++i) a.push_back(10.0 + static_cast<double>(i) / 1000), b.push_back(20.0);
    std::vector<Comparison> table{compare_paired(benchmark(a), benchmark(b), {}),
                                  compare_unpaired(benchmark(a), benchmark(b), {})};
    decide(table, {});
    for (const auto& got : table) {
      EXPECT_EQ(got.rounds, static_cast<int>(rounds));
      EXPECT_EQ(got.word, rounds < 3 ? Word::inconclusive : Word::slower) << got.why;
      EXPECT_EQ(got.why.find("at least 3") != std::string::npos, rounds < 3) << got.why;
      EXPECT_EQ(got.interval.has_value(), rounds >= 2);
      EXPECT_EQ(got.p_value.has_value(), rounds >= 2);
      EXPECT_EQ(got.wilcoxon_p_value.has_value(), rounds >= 1);
      EXPECT_NEAR(got.ratio, rounds == 0 ? 1 : 2, 1e-3);
    }
  }
  EXPECT_EQ(compare_unpaired(benchmark({1, 2, 3}), benchmark({1}), {}).rounds, 1);
  EXPECT_TRUE(compare_unpaired(benchmark({1, 2, 3}), benchmark({1}), {}).barred);
}

TEST(Comparison, FlagsOfEitherSideAreHeeded) {
  for (const std::string flag : {"unstable", "launch_bound"})
    for (const bool on_baseline : {true, false}) {
      const auto got = decided(benchmark(base_us, on_baseline ? std::vector{flag} : std::vector<std::string>{}),
                               benchmark(longer(5), on_baseline ? std::vector<std::string>{} : std::vector{flag}));
      EXPECT_EQ(got.word, Word::inconclusive);
      EXPECT_NE(got.why.find((on_baseline ? "the baseline is " : "the candidate is ") + flag), std::string::npos)
          << got.why;
      EXPECT_LT(*got.p_value, 1e-6);  // the figures stay to be seen
    }
  const auto both = decided(benchmark(base_us, {"launch_bound", "unstable"}), benchmark(longer(5), {"unstable"}));
  EXPECT_EQ(both.why,
            "the baseline is unstable; the baseline is launch_bound: the host was timed, not the device; the candidate "
            "is unstable");
  const auto noted = decided(benchmark(base_us, {"floor_dominated"}), benchmark(longer(5), {"unverified_after"}));
  EXPECT_EQ(noted.word, Word::slower);
  ASSERT_EQ(noted.notes.size(), 2U);
  EXPECT_NE(noted.notes[0].find("the baseline is floor_dominated"), std::string::npos);
  EXPECT_NE(noted.notes[1].find("the candidate was not checked again"), std::string::npos);
  EXPECT_TRUE(decided(benchmark(base_us, {"throttled"}), benchmark(longer(5))).notes.empty());
}

TEST(Comparison, WhatMustNotBeCompared) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  const auto good = benchmark(base_us);
  std::vector<std::pair<StoredBenchmark, std::string>> bad;
  for (const double median_us : {0.0, -1.0, nan, infinity}) {
    bad.emplace_back(good, "median of round 2");
    bad.back().first.rounds[2].median_us = median_us;
  }
  bad.emplace_back(good, "different inputs");
  bad.back().first.inputs_sha256 = "bb";
  bad.emplace_back(good, "different measurements");
  bad.back().first.mode = "graph";
  for (const auto& [benchmark, why] : bad)
    for (const auto compare : {compare_paired, compare_unpaired})
      for (const bool as_baseline : {true, false}) {
        std::vector<Comparison> table{as_baseline ? compare(benchmark, good, {}) : compare(good, benchmark, {})};
        decide(table, {});
        EXPECT_EQ(table[0].word, Word::not_comparable);
        EXPECT_NE(table[0].why.find(why), std::string::npos) << table[0].why;
        EXPECT_FALSE(table[0].p_value);
        EXPECT_FALSE(table[0].interval);
      }
}

TEST(Comparison, BadArgumentsThrow) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto good = benchmark(base_us);
  for (const ComparisonOptions& bad :
       {ComparisonOptions{.alpha = 0}, ComparisonOptions{.alpha = 1}, ComparisonOptions{.alpha = nan},
        ComparisonOptions{.claim_alpha = 0}, ComparisonOptions{.min_effect = -0.1}, ComparisonOptions{.min_effect = 1},
        ComparisonOptions{.min_effect = nan}}) {
    EXPECT_THROW(static_cast<void>(compare_paired(good, good, bad)), std::invalid_argument);
    EXPECT_THROW(static_cast<void>(compare_unpaired(good, good, bad)), std::invalid_argument);
    EXPECT_THROW(decide({}, bad), std::invalid_argument);
  }
  auto twice = good;
  twice.rounds[3].round = 2;
  EXPECT_THROW(static_cast<void>(compare_paired(twice, good, {})), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(compare_paired(good, twice, {})), std::invalid_argument);
}

TEST(Comparison, AgainstItselfIsEquivalent) {
  const auto got = decided(benchmark(base_us), benchmark(base_us));
  EXPECT_EQ(got.ratio, 1);
  EXPECT_EQ(got.interval, (statistics::Interval{1, 1}));
  EXPECT_EQ(got.p_value, 1);
  EXPECT_EQ(got.wilcoxon_p_value, 1);
  EXPECT_EQ(got.word, Word::equivalent);
}

// Events step in 32 ns, so that all rounds of a short kernel are often equal to the last digit.
TEST(Comparison, TheIntervalReachesHalfAStepOfEachClock) {
  const auto quantised = [](double us) {
    auto result = benchmark(Samples(10, us));
    result.quantum_us = 0.032;
    return result;
  };
  const auto base = quantised(3.2);
  for (const auto compare : {compare_paired, compare_unpaired}) {
    // One step of 1 %: the clock may have made it.
    auto got = compare(base, quantised(3.232), {});
    EXPECT_NEAR(got.ratio, 1.01, 1e-14);
    const double reach = 0.016 / 3.2 + 0.016 / 3.232;
    EXPECT_NEAR(got.interval->low, 1.01 * std::exp(-reach), 1e-14);
    EXPECT_NEAR(got.interval->high, 1.01 * std::exp(reach), 1e-14);
    EXPECT_EQ(got.p_value, 1);
    // Two steps are a difference.
    got = compare(base, quantised(3.264), {});
    EXPECT_GT(got.interval->low, 1);
    EXPECT_EQ(got.p_value, 0);
  }
  EXPECT_EQ(decided(base, quantised(3.232)).word, Word::inconclusive);
  EXPECT_EQ(decided(base, quantised(3.264)).word, Word::inconclusive);
  EXPECT_EQ(decided(base, quantised(3.296)).word, Word::slower);
  // Half a step of each is 1 % here: whether the two are within 1 % cannot be seen. Of twice the time it can.
  EXPECT_EQ(decided(base, base).word, Word::inconclusive);
  EXPECT_EQ(decided(quantised(6.4), quantised(6.4)).word, Word::equivalent);
}

// The same ratio in every round, from other medians: equal but for the last bits.
TEST(Comparison, EqualRatiosUpToRoundingHaveNoSpread) {
  Samples twice;
  for (const double us : base_us) twice.push_back(us * 1.1);
  const auto got = compare_paired(benchmark(base_us), benchmark(twice), {});
  EXPECT_EQ(got.p_value, 0);
  EXPECT_NEAR(got.interval->high - got.interval->low, 0, 1e-15);
}

TEST(Comparison, HolmIsOverTheTable) {
  const ComparisonOptions any{.min_effect = 0, .claim_alpha = 0.05};
  const auto base = benchmark(base_us);
  const auto weak = compare_paired(base, benchmark(longer(1.8, 22)), any);
  ASSERT_LT(*weak.p_value, 0.05);
  ASSERT_GT(*weak.p_value, 0.05 / 3);
  std::vector<Comparison> alone{weak};
  decide(alone, any);
  EXPECT_EQ(alone[0].word, Word::slower);
  EXPECT_EQ(alone[0].adjusted_p_value, *weak.p_value);

  std::vector<Comparison> table(3, weak);
  decide(table, any);
  for (const auto& got : table) {
    EXPECT_DOUBLE_EQ(got.adjusted_p_value, 3 * *weak.p_value);
    EXPECT_EQ(got.word, Word::inconclusive);
    EXPECT_NE(got.why.find("adjusted for 3 comparisons"), std::string::npos) << got.why;
  }
  // The sure ones are out of its way, and what cannot be compared is not counted.
  auto other_inputs = base;
  other_inputs.inputs_sha256 = "bb";
  const auto sure = compare_paired(base, benchmark(longer(3)), any);
  table = {compare_paired(base, other_inputs, any), sure, weak, sure};
  decide(table, any);
  EXPECT_DOUBLE_EQ(table[1].adjusted_p_value, 3 * *sure.p_value);
  EXPECT_EQ(table[2].adjusted_p_value, *weak.p_value);
  EXPECT_EQ(table[2].word, Word::slower);
  EXPECT_EQ(table[0].adjusted_p_value, 1);
}

// What is shown is the interval at 95 %; what is claimed must also lie beyond the minimum effect at 99.9 %.
TEST(Comparison, AClaimNeedsAStricterInterval) {
  const auto base = benchmark(base_us);
  auto got = compare_paired(base, benchmark(longer(1.8, 6)), {});
  ASSERT_GT(got.interval->low, 1.01);
  ASSERT_LT(got.claim_interval->low, 1.01);
  ASSERT_LT(got.claim_interval->low, got.interval->low);
  decide({&got, 1}, {});
  EXPECT_EQ(got.word, Word::inconclusive);
  EXPECT_TRUE(got.why.starts_with("the 99.9 % interval, from ")) << got.why;
  const ComparisonOptions lax{.claim_alpha = 0.05};
  got = compare_paired(base, benchmark(longer(1.8, 6)), lax);
  decide({&got, 1}, lax);
  EXPECT_EQ(got.word, Word::slower);
}

TEST(Comparison, AdjustingNeverClaimsMore) {
  const ComparisonOptions lax{.claim_alpha = 0.05};
  std::vector<Comparison> table;
  for (double percent = -3; percent <= 3; percent += 0.25)
    for (const double scale : {1.0, 10.0, 25.0})
      table.push_back(compare_paired(benchmark(base_us), benchmark(longer(percent, scale)), lax));
  auto together = table;
  decide(together, lax);
  int fewer = 0;
  for (std::size_t i = 0; i < table.size(); ++i) {
    std::vector<Comparison> alone{table[i]};
    decide(alone, lax);
    EXPECT_GE(together[i].adjusted_p_value, alone[0].adjusted_p_value);
    if (together[i].word == alone[0].word) continue;
    EXPECT_EQ(together[i].word, Word::inconclusive);
    ++fewer;
  }
  EXPECT_GT(fewer, 0);
}

TEST(Comparison, DecidingAgainStartsAfresh) {
  std::vector<Comparison> table{compare_paired(benchmark(base_us), benchmark(longer(2)), {}),
                                compare_paired(benchmark(base_us, {"unstable"}), benchmark(longer(2)), {})};
  decide(table, {.min_effect = 0.05});
  EXPECT_EQ(table[0].word, Word::equivalent);
  decide(table, {.min_effect = 0.02});
  EXPECT_EQ(table[0].word, Word::inconclusive);
  EXPECT_FALSE(table[0].why.empty());
  decide(table, {});
  EXPECT_EQ(table[0].word, Word::slower);
  EXPECT_EQ(table[0].why, "");
  EXPECT_EQ(table[1].word, Word::inconclusive);
  EXPECT_EQ(table[1].why, "the baseline is unstable");
  decide({}, {});  // an empty table is no error
  std::vector<Comparison> blank(1);
  decide(blank, {});
  EXPECT_EQ(blank[0].word, Word::inconclusive);
}

}  // namespace
}  // namespace mage
