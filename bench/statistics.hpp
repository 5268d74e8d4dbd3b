// SPDX-License-Identifier: Apache-2.0
// Pure functions of samples. Everywhere: no sample at all, NaN and infinities throw std::invalid_argument; what one
// sample cannot give is absent.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace mage::statistics {

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

struct Interval {
  double low = 0, high = 0;
  bool operator==(const Interval&) const = default;
};

/// Confidence interval of the typical time from one median a round: Student's t on their logarithms, so that run
/// effects (clock, placement) are counted once a round, not once a sample. All medians must be positive.
[[nodiscard]] std::optional<Interval> t_interval_us(std::span<const double> round_medians_us, double level = 0.95);

/// Percentile bootstrap of the median of the round medians, resampling whole rounds. Too narrow for few rounds: it
/// stands beside the t interval as a check against heavy tails, not in its place. The same seed gives the same bits.
[[nodiscard]] std::optional<Interval> bootstrap_interval_us(std::span<const double> round_medians_us,
                                                            std::uint64_t seed, double level = 0.95,
                                                            int resamples = 10000);

}  // namespace mage::statistics
