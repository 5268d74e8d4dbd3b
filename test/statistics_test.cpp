// SPDX-License-Identifier: Apache-2.0
#include "bench/statistics.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "mage_bench/random.hpp"
#include "test/support/data.hpp"

namespace mage::statistics {
namespace {

using Samples = std::vector<double>;

const nlohmann::json& scipy() {
  static const auto data = test::read_json(test::data_path("statistics_scipy.json"));
  return data;
}

void expect_close(double got, double expected, double relative, const std::string& what) {
  EXPECT_LE(std::fabs(got - expected), relative * std::fabs(expected) + 1e-300)
      << what << ": got " << got << ", expected " << expected;
}

TEST(Statistics, AgreeWithNumPyAndSciPy) {
  ASSERT_GE(scipy()["sets"].size(), 8U);
  for (const auto& [name, set] : scipy()["sets"].items()) {
    const Samples samples = set["samples"];
    expect_close(median(samples), set["median"], 1e-15, name + " median");
    expect_close(mad(samples), set["mad"], 1e-13, name + " mad");
    for (const auto& q : set["quantiles"])
      expect_close(quantile(samples, q["p"]), q["value"], 1e-14, name + " quantile " + q["p"].dump());
    const auto lag1 = lag1_autocorrelation(samples);
    ASSERT_TRUE(lag1) << name;
    EXPECT_NEAR(*lag1, set["lag1"].get<double>(), 1e-10) << name;
    const auto moved = drift(samples);
    ASSERT_TRUE(moved) << name;
    EXPECT_NEAR(*moved, set["drift"].get<double>(), 1e-12 * (1 + std::fabs(*moved))) << name;
    for (const auto& expected : set["t_intervals"]) {
      const auto interval = t_interval_us(samples, expected["level"]);
      ASSERT_TRUE(interval) << name;
      expect_close(interval->low, expected["low"], 1e-9, name + " t low");
      expect_close(interval->high, expected["high"], 1e-9, name + " t high");
    }
  }
}

// SciPy draws other resamples. Both estimate the same discrete distribution, so their ends differ by less than a
// tenth of the interval.
TEST(Statistics, BootstrapAgreesWithSciPyUpToTheDraws) {
  for (const auto& [name, set] : scipy()["sets"].items()) {
    const Samples samples = set["samples"];
    const auto interval = bootstrap_interval_us(samples, 7, 0.95, 50000);
    ASSERT_TRUE(interval) << name;
    const double low = set["bootstrap_95"]["low"], high = set["bootstrap_95"]["high"];
    EXPECT_NEAR(interval->low, low, 0.1 * (high - low)) << name;
    EXPECT_NEAR(interval->high, high, 0.1 * (high - low)) << name;
  }
}

TEST(Statistics, BootstrapDependsOnItsSeedAlone) {
  const Samples samples = scipy()["sets"]["rounds_10"]["samples"];
  EXPECT_EQ(bootstrap_interval_us(samples, 3), bootstrap_interval_us(samples, 3));
  EXPECT_NE(bootstrap_interval_us(samples, 3, 0.95, 101), bootstrap_interval_us(samples, 4, 0.95, 101));
}

TEST(Statistics, StudentQuantileAgreesWithSciPy) {
  const auto& grid = scipy()["student_t_quantile"];
  ASSERT_GE(grid.size(), 150U);
  for (const auto& point : grid)
    expect_close(student_t_quantile(point["p"], point["dof"]), point["value"], 1e-10, point.dump());
}

TEST(Statistics, StudentPValueAgreesWithSciPy) {
  const auto& grid = scipy()["student_t_p_value"];
  ASSERT_GE(grid.size(), 150U);
  double least = 1;
  for (const auto& point : grid) {
    const double t = point["t"], p = student_t_p_value(t, point["dof"]);
    expect_close(p, point["value"], 1e-10, point.dump());
    EXPECT_EQ(p, student_t_p_value(-t, point["dof"]));
    least = std::min(least, p);
  }
  EXPECT_LT(least, 1e-200);
}

// Also over t and degrees of freedom that no table has: the two are each other's inverse.
TEST(Statistics, StudentPValueInvertsTheQuantile) {
  for (double dof = 1; dof <= 1e6; dof *= 1.31)
    for (double p = 0.99; p > 1e-90; p *= p < 1e-3 ? 1e-3 : 0.83)
      expect_close(student_t_p_value(student_t_quantile(p / 2, dof), dof), p, 2e-11,
                   "p " + std::to_string(p) + " dof " + std::to_string(dof));
}

// Closed forms, exact for one and two degrees of freedom.
TEST(Statistics, StudentQuantileAgreesWithItsClosedForms) {
  const double pi = std::acos(-1.0);
  for (const double p : {1e-100, 1e-12, 1e-3, 0.2, 0.4999, 0.5000001, 0.7, 0.975, 0.999}) {
    // -1 / tan(pi p), without its cancellation near 1/2.
    const double cauchy = p < 0.25 ? -1 / std::tan(pi * p) : std::tan(pi * (p - 0.5));
    expect_close(student_t_quantile(p, 1), cauchy, 1e-12, "Cauchy at " + std::to_string(p));
    const double a = 4 * p * (1 - p);
    expect_close(student_t_quantile(p, 2), 2 * (p - 0.5) * std::sqrt(2 / a), 1e-12, "t2 at " + std::to_string(p));
  }
  // With many degrees of freedom: the normal quantile and the first term of its Cornish-Fisher expansion.
  const double z = normal_quantile(0.975);
  EXPECT_NEAR(student_t_quantile(0.975, 1e6), z + (z * z * z + z) / 4e6, 5e-12);  // the next term is 3e-12
}

TEST(Statistics, RankTestsAgreeWithSciPy) {
  ASSERT_GE(scipy()["signed_rank"].size(), 10U);
  for (const auto& [name, set] : scipy()["signed_rank"].items()) {
    const Samples differences = set["differences"];
    expect_close(wilcoxon_signed_rank_p_value(differences), set["p"], 1e-12, name);
    EXPECT_NEAR(hodges_lehmann(differences), set["hodges_lehmann"].get<double>(), 1e-15) << name;
  }
  ASSERT_GE(scipy()["rank_sum"].size(), 10U);
  for (const auto& [name, set] : scipy()["rank_sum"].items()) {
    const Samples baseline = set["baseline"], candidate = set["candidate"];
    expect_close(wilcoxon_rank_sum_p_value(baseline, candidate), set["p"], 1e-12, name);
    expect_close(wilcoxon_rank_sum_p_value(candidate, baseline), set["p"], 1e-12, name + " swapped");
    EXPECT_EQ(hodges_lehmann_shift(baseline, candidate), set["hodges_lehmann_shift"].get<double>()) << name;
    EXPECT_EQ(hodges_lehmann_shift(candidate, baseline), -set["hodges_lehmann_shift"].get<double>()) << name;
  }
}

TEST(Statistics, WelchAgreesWithSciPy) {
  int compared = 0;
  for (const auto& [name, set] : scipy()["rank_sum"].items()) {
    if (!set.contains("welch")) continue;
    const auto& expected = set["welch"];
    const auto estimate = welch_estimate(set["baseline"].get<Samples>(), set["candidate"].get<Samples>());
    ASSERT_TRUE(estimate) << name;
    expect_close(estimate->dof, expected["dof"], 1e-12, name + " dof");
    expect_close(t_test_p_value(*estimate), expected["p"], 1e-10, name + " p");
    const auto interval = t_interval(*estimate);
    EXPECT_NEAR(interval.low, expected["low"].get<double>(), 1e-9) << name;
    EXPECT_NEAR(interval.high, expected["high"].get<double>(), 1e-9) << name;
    ++compared;
  }
  EXPECT_GE(compared, 6);
}

TEST(Statistics, WelchOfOneSidedSpreadHasThatSidesFreedom) {
  const auto estimate = welch_estimate(Samples{2, 2, 2, 2}, Samples{3, 4});
  ASSERT_TRUE(estimate);
  EXPECT_DOUBLE_EQ(estimate->mean, 1.5);
  EXPECT_DOUBLE_EQ(estimate->standard_error, 0.5);
  EXPECT_DOUBLE_EQ(estimate->dof, 1);
}

TEST(Statistics, ATTestWithoutSpreadKnows) {
  const auto nothing = mean_estimate(Samples(5, 0.0)), something = mean_estimate(Samples(7, 0.1));
  ASSERT_TRUE(nothing && something);
  EXPECT_EQ(something->standard_error, 0);  // seven times 0.1 is not 0.7
  EXPECT_EQ(t_test_p_value(*nothing), 1);
  EXPECT_EQ(t_test_p_value(*something), 0);
  const auto sides = welch_estimate(Samples{1, 1}, Samples{2, 2, 2});
  ASSERT_TRUE(sides);
  EXPECT_EQ(sides->dof, 3);
  EXPECT_EQ(t_test_p_value(*sides), 0);
  EXPECT_EQ(t_test_p_value({.mean = 1e200, .standard_error = 1e-200, .dof = 9}), 0);
}

// By hand.
TEST(Statistics, RankEstimatesOfFewSamples) {
  EXPECT_EQ(hodges_lehmann(Samples{1, 2, 9}), 3.5);                       // of 1, 1.5, 2, 5, 5.5, 9
  EXPECT_EQ(hodges_lehmann(Samples{-4, 4}), 0);                           // of -4, 0, 4
  EXPECT_EQ(hodges_lehmann(Samples{-3, -1, -0.0}), -1.25);                // of -3, -2, -1.5, -1, -0.5, 0
  EXPECT_EQ(hodges_lehmann_shift(Samples{1, 2}, Samples{4, 8, 9}), 6.5);  // of 2, 3, 6, 7, 7, 8
  EXPECT_EQ(hodges_lehmann_shift(Samples{5}, Samples{3}), -2);
  EXPECT_EQ(wilcoxon_signed_rank_p_value(Samples{1, 1, -1}), 1);        // ranks 2, 2, 2: 4 of 8 sums are at most 2
  EXPECT_EQ(wilcoxon_signed_rank_p_value(Samples{1, 2, 3, 4}), 0.125);  // 1 of 16
  EXPECT_EQ(wilcoxon_signed_rank_p_value(Samples{-1, 2, 3, 4}), 0.25);  // 2 of 16
  EXPECT_EQ(wilcoxon_signed_rank_p_value(Samples{0, 2, 3, 0, 4, 1}), 0.125);    // zeros count for nothing
  EXPECT_EQ(wilcoxon_rank_sum_p_value(Samples{1, 2}, Samples{3, 4}), 1.0 / 3);  // 1 of 6
  EXPECT_EQ(wilcoxon_rank_sum_p_value(Samples{1, 1}, Samples{1, 2}), 1);        // 3 of 6 are as low
}

TEST(Statistics, RankTestsGoOnWhereCountingEnds) {
  Samples differences, baseline, candidate;
  for (int i = 1; i <= 50; ++i) {
    differences.push_back(i % 3 == 0 ? -i : i);
    (i % 2 == 0 ? baseline : candidate).push_back(i % 6 == 0 ? i + 30.5 : i);
  }
  const double counted = wilcoxon_signed_rank_p_value(differences);
  differences.push_back(0);  // not a difference: still counted
  EXPECT_EQ(wilcoxon_signed_rank_p_value(differences), counted);
  differences.back() = 25.5;
  EXPECT_NEAR(wilcoxon_signed_rank_p_value(differences) / counted, 1, 0.3);
  const double dealt = wilcoxon_rank_sum_p_value(baseline, candidate);
  baseline.push_back(27.5);
  EXPECT_NEAR(wilcoxon_rank_sum_p_value(baseline, candidate) / dealt, 1, 0.3);
  EXPECT_EQ(wilcoxon_rank_sum_p_value(Samples(40, 2.0), Samples(30, 2.0)), 1);
}

TEST(Statistics, HodgesLehmannOfManySamplesNeedsNoListOfPairs) {
  Samples samples(100001);  // 5e9 pairs
  for (std::size_t i = 0; i < samples.size(); ++i) samples[i] = static_cast<double>(i * 7919 % samples.size());
  EXPECT_EQ(hodges_lehmann(samples), 50000);
  EXPECT_EQ(hodges_lehmann_shift(samples, samples), 0);
}

TEST(Statistics, HolmByHand) {
  EXPECT_EQ(holm_adjusted(Samples{0.25}), (Samples{0.25}));
  // Sorted 0.01, 0.02, 0.03, 0.04 by 4, 3, 2, 1: 0.04, 0.06, 0.06, and 0.04 held up by the one before.
  const auto adjusted = holm_adjusted(Samples{0.04, 0.01, 0.03, 0.02});
  const Samples expected{0.06, 0.04, 0.06, 0.06};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_DOUBLE_EQ(adjusted[i], expected[i]) << i;
  EXPECT_EQ(holm_adjusted(Samples{0.5, 0, 1, 0.5}), (Samples{1, 0, 1, 1}));
  EXPECT_EQ(holm_adjusted(Samples{0.25, 0.25}), (Samples{0.5, 0.5}));
  EXPECT_THROW(static_cast<void>(holm_adjusted(Samples{0.1, 1.1})), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(holm_adjusted(Samples{-0.1})), std::invalid_argument);
}

TEST(Statistics, NoSamplesAndNoNumbersThrow) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  for (const auto& bad : {Samples{}, Samples{1, nan, 2}, Samples{1, 2, infinity}, Samples{nan}}) {
    EXPECT_THROW(static_cast<void>(median(bad)), std::invalid_argument);
    EXPECT_THROW(static_cast<void>(mad(bad)), std::invalid_argument);
    EXPECT_THROW(static_cast<void>(quantile(bad, 0.5)), std::invalid_argument);
    EXPECT_THROW(static_cast<void>(lag1_autocorrelation(bad)), std::invalid_argument);
    EXPECT_THROW(static_cast<void>(drift(bad)), std::invalid_argument);
    EXPECT_THROW(static_cast<void>(t_interval_us(bad)), std::invalid_argument);
    EXPECT_THROW(static_cast<void>(bootstrap_interval_us(bad, 1)), std::invalid_argument);
    EXPECT_THROW(static_cast<void>(mean_estimate(bad)), std::invalid_argument);
    EXPECT_THROW(static_cast<void>(hodges_lehmann(bad)), std::invalid_argument);
    EXPECT_THROW(static_cast<void>(wilcoxon_signed_rank_p_value(bad)), std::invalid_argument);
    EXPECT_THROW(static_cast<void>(holm_adjusted(bad)), std::invalid_argument);
    const Samples good{0.5};
    for (const auto& [baseline, candidate] : {std::pair{bad, good}, std::pair{good, bad}}) {
      EXPECT_THROW(static_cast<void>(welch_estimate(baseline, candidate)), std::invalid_argument);
      EXPECT_THROW(static_cast<void>(hodges_lehmann_shift(baseline, candidate)), std::invalid_argument);
      EXPECT_THROW(static_cast<void>(wilcoxon_rank_sum_p_value(baseline, candidate)), std::invalid_argument);
    }
  }
}

TEST(Statistics, ArgumentsOutOfRangeThrow) {
  const Samples samples{1, 2, 3};
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double p : {-0.1, 1.1, nan}) {
    EXPECT_THROW(static_cast<void>(quantile(samples, p)), std::invalid_argument);
    EXPECT_THROW(static_cast<void>(t_interval_us(samples, p)), std::invalid_argument);
    EXPECT_THROW(static_cast<void>(bootstrap_interval_us(samples, 1, p)), std::invalid_argument);
    EXPECT_THROW(static_cast<void>(student_t_quantile(p, 5)), std::invalid_argument);
  }
  for (const double p : {0.0, 1e-101, 1.0})
    EXPECT_THROW(static_cast<void>(student_t_quantile(p, 5)), std::invalid_argument);
  for (const double dof : {0.0, 0.5, 1e7, nan}) {
    EXPECT_THROW(static_cast<void>(student_t_quantile(0.9, dof)), std::invalid_argument);
    EXPECT_THROW(static_cast<void>(student_t_p_value(1, dof)), std::invalid_argument);
  }
  for (const double t : {1e151, -1e151, nan})
    EXPECT_THROW(static_cast<void>(student_t_p_value(t, 5)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(t_interval({.mean = 1, .standard_error = 1, .dof = 9}, 1)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(mad(samples, -1)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(mad(samples, nan)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(bootstrap_interval_us(samples, 1, 0.95, 0)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(t_interval_us(Samples{1, 0})), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(t_interval_us(Samples{-1})), std::invalid_argument);
}

TEST(Statistics, OneSampleHasAPlaceButNoSpread) {
  const Samples one{4.5};
  EXPECT_EQ(median(one), 4.5);
  EXPECT_EQ(mad(one), 0);
  EXPECT_EQ(quantile(one, 0.1), 4.5);
  EXPECT_EQ(lag1_autocorrelation(one), std::nullopt);
  EXPECT_EQ(drift(one), std::nullopt);
  EXPECT_EQ(t_interval_us(one), std::nullopt);
  EXPECT_EQ(bootstrap_interval_us(one, 1), std::nullopt);
  EXPECT_FALSE(mean_estimate(one));
  EXPECT_FALSE(welch_estimate(one, Samples{1, 2}));
  EXPECT_FALSE(welch_estimate(Samples{1, 2}, one));
  EXPECT_EQ(hodges_lehmann(one), 4.5);
  EXPECT_EQ(hodges_lehmann_shift(one, Samples{5}), 0.5);
  EXPECT_EQ(wilcoxon_signed_rank_p_value(one), 1);
  EXPECT_EQ(wilcoxon_signed_rank_p_value(Samples{0}), 1);
  EXPECT_EQ(wilcoxon_rank_sum_p_value(one, Samples{5}), 1);
}

TEST(Statistics, EqualSamplesGiveAnEmptyInterval) {
  const Samples same(10, 0.1);
  EXPECT_EQ(median(same), 0.1);
  EXPECT_EQ(lag1_autocorrelation(same), std::nullopt);
  EXPECT_EQ(drift(same), 0.0);
  const auto interval = t_interval_us(same);
  ASSERT_TRUE(interval);
  EXPECT_NEAR(interval->low, 0.1, 1e-15);
  EXPECT_NEAR(interval->high, 0.1, 1e-15);
  EXPECT_EQ(bootstrap_interval_us(same, 1), (Interval{0.1, 0.1}));
}

TEST(Statistics, MadFallsBackToTheQuantumOnlyWhereItIsZero) {
  const Samples mostly_same{2, 2, 2, 2, 9};
  EXPECT_EQ(mad(mostly_same), 0);
  EXPECT_DOUBLE_EQ(mad(mostly_same, 0.5), 0.5 / std::sqrt(12.0));
  EXPECT_DOUBLE_EQ(mad(Samples{1, 2, 3}, 0.5), 1.4826);
}

TEST(Statistics, OrderMattersOnlyWhereItShould) {
  const Samples up{1, 2, 3, 4, 5, 6}, down{6, 5, 4, 3, 2, 1}, alternating{1, 6, 2, 5, 3, 4};
  EXPECT_EQ(median(up), median(alternating));
  EXPECT_EQ(quantile(up, 0.9), quantile(down, 0.9));
  EXPECT_EQ(drift(up), 5.0 / 2 - 1);
  EXPECT_EQ(drift(down), 2.0 / 5 - 1);
  EXPECT_EQ(lag1_autocorrelation(up), 0.5);  // by hand: (3.75 + 0.75 - 0.25 + 0.75 + 3.75) / 17.5
  EXPECT_LT(lag1_autocorrelation(alternating), 0.0);
  EXPECT_EQ(drift(Samples{0, 0, 1, 1}), std::nullopt);
}

// Rounds differ by more than their samples do. An interval from round medians covers as it says; one that takes all
// samples for independent would not, which shows that this simulation can tell.
TEST(Statistics, IntervalCoversUnderRunEffects) {
  constexpr std::size_t experiments = 4000, rounds = 10, samples = 15;
  constexpr double truth_us = 31.2, run_effect = 0.01, noise = 0.004;
  const auto draws = static_cast<int64>(experiments * rounds * (samples + 1));
  std::vector<double> z(static_cast<std::size_t>(draws));
  generate({.name = "z", .dtype = DType::f64, .rows = 1, .cols = draws, .seed = 95}, 0, z.data());
  std::size_t next = 0, covered = 0, covered_pooled = 0;
  for (std::size_t experiment = 0; experiment < experiments; ++experiment) {
    Samples medians, pooled;
    for (std::size_t round = 0; round < rounds; ++round) {
      const double effect = run_effect * z[next++];
      Samples times;
      for (std::size_t i = 0; i < samples; ++i) times.push_back(truth_us * std::exp(effect + noise * z[next++]));
      medians.push_back(median(times));
      pooled.insert(pooled.end(), times.begin(), times.end());
    }
    const auto covers = [&](const Samples& values) {
      const auto interval = t_interval_us(values);
      return interval && interval->low <= truth_us && truth_us <= interval->high;
    };
    covered += covers(medians) ? 1U : 0U;
    covered_pooled += covers(pooled) ? 1U : 0U;
  }
  const auto percent = [](std::size_t count) { return 100.0 * static_cast<double>(count) / experiments; };
  EXPECT_GE(percent(covered), 93);
  EXPECT_LE(percent(covered), 97);
  EXPECT_LT(percent(covered_pooled), 60);
}

}  // namespace
}  // namespace mage::statistics
