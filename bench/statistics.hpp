// SPDX-License-Identifier: Apache-2.0
// Pure functions of samples. Everywhere: no sample at all, NaN and infinities throw std::invalid_argument; what one
// sample cannot give is absent. A p-value is always there: where the samples cannot speak against its hypothesis it
// is 1.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace mage::statistics {

/// Throws where there are no samples or one is not finite. `function` is what the message calls the caller.
void require_finite(const char* function, std::span<const double> samples);

/// The mean of the two middle ones where the count is even.
[[nodiscard]] double median(std::span<const double> samples);

/// 1.4826 x the median absolute deviation from the median: the standard deviation, were the samples normal.
/// Where that is 0 because a clock's `quantum` hides the spread: quantum / sqrt 12, the deviation of a rounding.
[[nodiscard]] double mad(std::span<const double> samples, double quantum = 0);

/// Type 7 (linear between order statistics, as in NumPy and R); p in [0, 1].
[[nodiscard]] double quantile(std::span<const double> samples, double p);

/// Correlation of each sample with the next one, in the order of measurement. Absent where samples do not vary.
[[nodiscard]] std::optional<double> lag1_autocorrelation(std::span<const double> samples);

/// Median of the second half / median of the first half - 1, in the order of measurement (the middle one of an odd
/// count is in neither). Half medians and no slope: linear time, no unit, and one outlier moves nothing.
/// Absent below two samples, or where the first half's median is 0.
[[nodiscard]] std::optional<double> drift(std::span<const double> samples);

/// The p-quantile of Student's t to 1e-10 of itself, p in [1e-100, 1), dof in [1, 1e6] (whole or not).
[[nodiscard]] double student_t_quantile(double p, double dof);

/// P(|T| >= |t|) of Student's t to 1e-10 of itself, |t| up to 1e150, dof in [1, 1e6] (whole or not).
[[nodiscard]] double student_t_p_value(double t, double dof);

struct Interval {
  double low = 0, high = 0;
  bool operator==(const Interval&) const = default;
};

/// What a t interval and a t test are made of. The standard error is exactly 0 where samples are equal.
struct MeanEstimate {
  double mean = 0, standard_error = 0, dof = 0;
};

/// Of one sample's mean. Absent below two samples.
[[nodiscard]] std::optional<MeanEstimate> mean_estimate(std::span<const double> samples);
/// Welch's, of mean(candidate) - mean(baseline). Absent where a side has fewer than two samples.
[[nodiscard]] std::optional<MeanEstimate> welch_estimate(std::span<const double> baseline,
                                                         std::span<const double> candidate);
[[nodiscard]] Interval t_interval(const MeanEstimate& estimate, double level = 0.95);
/// Two-sided, that the mean is 0. Without spread: 1 where it is 0, else 0.
[[nodiscard]] double t_test_p_value(const MeanEstimate& estimate);

/// Confidence interval of the typical time from one median a round: Student's t on their logarithms, so that run
/// effects (clock, placement) are counted once a round, not once a sample. All medians must be positive.
[[nodiscard]] std::optional<Interval> t_interval_us(std::span<const double> round_medians_us, double level = 0.95);

/// Percentile bootstrap of the median of the round medians, resampling whole rounds. Too narrow for few rounds: it
/// stands beside the t interval as a check against heavy tails, not in its place. The same seed gives the same bits.
[[nodiscard]] std::optional<Interval> bootstrap_interval_us(std::span<const double> round_medians_us,
                                                            std::uint64_t seed, double level = 0.95,
                                                            int resamples = 10000);

// By ranks, in statistics_ranks.cpp.

/// Hodges and Lehmann's: the median of the means of all pairs, each sample paired with itself too. One wild sample in
/// four moves it little.
[[nodiscard]] double hodges_lehmann(std::span<const double> samples);
/// The same for two samples: the median of all candidate - baseline.
[[nodiscard]] double hodges_lehmann_shift(std::span<const double> baseline, std::span<const double> candidate);

/// Wilcoxon's signed-rank test, two-sided, that the differences lie symmetrically around 0. Zeros are dropped, as
/// Wilcoxon did; ties get their mean rank. Exact for up to 50 differences that are not 0, ties or none; beyond that the
/// normal approximation with corrections for ties and continuity.
[[nodiscard]] double wilcoxon_signed_rank_p_value(std::span<const double> differences);

/// Wilcoxon's rank-sum test (Mann and Whitney's U), two-sided: twice the smaller tail. Exact for up to 50 samples
/// together, ties or none; beyond that the normal approximation with corrections for ties and continuity.
[[nodiscard]] double wilcoxon_rank_sum_p_value(std::span<const double> baseline, std::span<const double> candidate);

/// Holm's adjustment for that many tests at once, in the order given: never below the p-value given, never above 1.
[[nodiscard]] std::vector<double> holm_adjusted(std::span<const double> p_values);

}  // namespace mage::statistics
