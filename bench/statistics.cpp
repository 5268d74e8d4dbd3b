// SPDX-License-Identifier: Apache-2.0
#include "bench/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <string>
#include <vector>

#include "mage_bench/random.hpp"

namespace mage::statistics {

void require_finite(const char* function, std::span<const double> samples) {
  if (samples.empty()) throw std::invalid_argument{std::string{function} + ": no samples"};
  const auto bad = std::find_if_not(samples.begin(), samples.end(), [](double x) { return std::isfinite(x); });
  if (bad != samples.end())
    throw std::invalid_argument{std::string{function} + ": sample " + std::to_string(bad - samples.begin()) + " is " +
                                std::to_string(*bad)};
}

namespace {

void require_inside(const char* function, const char* name, double value, double above, double below) {
  if (!(value > above && value < below))
    throw std::invalid_argument{std::string{function} + ": " + name + " is " + std::to_string(value) +
                                ", but must be inside (" + std::to_string(above) + ", " + std::to_string(below) + ")"};
}

double median_in_place(std::span<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  const double below = *std::max_element(values.begin(), middle);
  return below + (*middle - below) / 2;
}

double sorted_quantile(std::span<const double> sorted, double p) {
  const double position = p * static_cast<double>(sorted.size() - 1);
  const auto index = std::min(static_cast<std::size_t>(position), sorted.size() - 1);
  const double low = sorted[index];
  const double high = sorted[std::min(index + 1, sorted.size() - 1)];
  return low + (position - static_cast<double>(index)) * (high - low);
}

bool all_equal(std::span<const double> samples) {
  return std::all_of(samples.begin(), samples.end(), [&](double x) { return x == samples[0]; });
}

double mean(std::span<const double> values) {
  double sum = 0;
  for (const double x : values) sum += x;
  return sum / static_cast<double>(values.size());
}

/// Gamma(a + 1/2) / Gamma(a). The difference of two lgamma loses the digits that it is wanted for.
double gamma_ratio(double a) {
  double shift = 1;
  for (; a < 32; a += 1) shift *= a / (a + 0.5);
  const double r = 1 / (a * a);
  // Asymptotic series of the logarithm; the first term left out is below 1e-17 from a = 32 on.
  const double series = (-1.0 / 8 + r * (1.0 / 192 + r * (-1.0 / 640 + r * (17.0 / 14336 - r * 31.0 / 18432)))) / a;
  return shift * std::sqrt(a) * std::exp(series);
}

/// P(0 < T < t) / density(t) for t^2 <= 9, where all terms are positive and few: the power series of the incomplete
/// beta function. Beyond, `tail_over_density` has the digits.
double center_over_density(double t, double dof) {
  const double y = t * t / (dof + t * t);
  double sum = 1, term = 1;
  for (double n = 0; term > 1e-17 * sum; n += 1) {
    term *= y * (dof + 1 + 2 * n) / (3 + 2 * n);
    sum += term;
  }
  return t * sum;
}

/// P(T > t) / density(t) for t^2 >= 9: the continued fraction of the incomplete beta function by modified Lentz. Nearer
/// to the middle it would cancel for many degrees of freedom.
double tail_over_density(double t, double dof) {
  const double x = dof / (dof + t * t), a = dof / 2, b = 0.5;
  double d = 1 / (1 - (a + b) * x / (a + 1));
  double c = 1, fraction = d;
  // Rounding can keep the last factor from ever being 1.
  for (double m = 1; std::fabs(d * c - 1) > 1e-15 || m == 1; m += 1) {
    const auto step = [&](double coefficient) {
      d = 1 / (1 + coefficient * d);
      c = 1 + coefficient / c;
      fraction *= d * c;
    };
    step(m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)));
    step(-(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)));
    if (m > 1e5) throw std::logic_error{"Student's t: the continued fraction did not converge"};
  }
  return fraction * t / dof;
}

double student_density(double t, double dof) {
  return gamma_ratio(dof / 2) / std::sqrt(dof * std::numbers::pi) * std::exp(-(dof + 1) / 2 * std::log1p(t * t / dof));
}

/// Newton's step from t > 0 towards the quantile of upper tail probability `tail` = 1/2 - `center`.
double newton_step(double t, double dof, double tail, double center) {
  const double density = student_density(t, dof);
  if (t * t < 9) return center / density - center_over_density(t, dof);
  const double over_density = tail_over_density(t, dof);
  // Of log(tail) over log(t), which is a straight line far out.
  return t * std::expm1(std::log(over_density * density / tail) * over_density / t);
}

}  // namespace

double median(std::span<const double> samples) {
  require_finite("median", samples);
  std::vector<double> copy{samples.begin(), samples.end()};
  return median_in_place(copy);
}

double mad(std::span<const double> samples, double quantum) {
  require_finite("mad", samples);
  if (!(quantum >= 0)) throw std::invalid_argument{"mad: quantum is " + std::to_string(quantum) + "; give 0 for none"};
  std::vector<double> deviations{samples.begin(), samples.end()};
  const double center = median_in_place(deviations);
  for (auto& deviation : deviations) deviation = std::fabs(deviation - center);
  constexpr double to_standard_deviation = 1.4826;
  const double spread = to_standard_deviation * median_in_place(deviations);
  return spread > 0 ? spread : quantum / std::sqrt(12.0);
}

double quantile(std::span<const double> samples, double p) {
  require_finite("quantile", samples);
  if (!(p >= 0 && p <= 1)) throw std::invalid_argument{"quantile: p is " + std::to_string(p) + ", outside [0, 1]"};
  std::vector<double> sorted{samples.begin(), samples.end()};
  std::sort(sorted.begin(), sorted.end());
  return sorted_quantile(sorted, p);
}

std::optional<double> lag1_autocorrelation(std::span<const double> samples) {
  require_finite("lag1_autocorrelation", samples);
  // Equal samples can differ from their own mean by a rounding, which would correlate.
  if (all_equal(samples)) return std::nullopt;
  const double center = mean(samples);
  double products = 0, squares = 0, previous = 0;
  for (const double x : samples) {
    const double deviation = x - center;
    products += deviation * previous;
    squares += deviation * deviation;
    previous = deviation;
  }
  return products / squares;
}

std::optional<double> drift(std::span<const double> samples) {
  require_finite("drift", samples);
  const auto half = samples.size() / 2;
  if (half == 0) return std::nullopt;
  const double before = median(samples.first(half)), after = median(samples.last(half));
  if (before == 0) return std::nullopt;
  return after / before - 1;
}

double student_t_quantile(double p, double dof) {
  if (!(p >= 1e-100 && p < 1))
    throw std::invalid_argument{"student_t_quantile: p is " + std::to_string(p) + ", outside [1e-100, 1)"};
  if (!(dof >= 1 && dof <= 1e6))
    throw std::invalid_argument{"student_t_quantile: dof is " + std::to_string(dof) + ", outside [1, 1e6]"};
  const double tail = std::min(p, 1 - p), center = std::fabs(p - 0.5);
  if (center == 0) return 0;
  double low = 0, high = 1;
  while (newton_step(high, dof, tail, center) > 0) {
    low = high;
    high *= 2;
  }
  double t = low + (high - low) / 2;
  for (int i = 0; i < 200; ++i) {
    const double step = newton_step(t, dof, tail, center);
    (step > 0 ? low : high) = t;
    double next = t + step;
    if (!(next > low && next < high)) next = low + (high - low) / 2;  // bisection where Newton leaves the bracket
    const double moved = std::fabs(next - t);
    t = next;
    if (moved <= 1e-15 * t) break;
  }
  return p < 0.5 ? -t : t;
}

double student_t_p_value(double t, double dof) {
  if (!(std::fabs(t) <= 1e150))
    throw std::invalid_argument{"student_t_p_value: t is " + std::to_string(t) + ", outside [-1e150, 1e150]"};
  if (!(dof >= 1 && dof <= 1e6))
    throw std::invalid_argument{"student_t_p_value: dof is " + std::to_string(dof) + ", outside [1, 1e6]"};
  const double size = std::fabs(t), density = student_density(size, dof);
  if (size * size < 9) return 1 - 2 * density * center_over_density(size, dof);
  return 2 * density * tail_over_density(size, dof);
}

std::optional<MeanEstimate> mean_estimate(std::span<const double> samples) {
  require_finite("mean_estimate", samples);
  if (samples.size() < 2) return std::nullopt;
  const auto n = static_cast<double>(samples.size());
  // Equal samples can differ from their own mean by a rounding.
  if (all_equal(samples)) return MeanEstimate{samples[0], 0, n - 1};
  const double center = mean(samples);
  double squares = 0;
  for (const double x : samples) squares += (x - center) * (x - center);
  return MeanEstimate{center, std::sqrt(squares / (n - 1) / n), n - 1};
}

std::optional<MeanEstimate> welch_estimate(std::span<const double> baseline, std::span<const double> candidate) {
  require_finite("welch_estimate", baseline);
  require_finite("welch_estimate", candidate);
  const auto a = mean_estimate(baseline), b = mean_estimate(candidate);
  if (!a || !b) return std::nullopt;
  const double error = std::hypot(a->standard_error, b->standard_error);
  if (error == 0) return MeanEstimate{b->mean - a->mean, 0, a->dof + b->dof};
  // Welch and Satterthwaite's, with the shares of the variance so that nothing is raised to the fourth power.
  const double share_a = std::pow(a->standard_error / error, 2), share_b = std::pow(b->standard_error / error, 2);
  const double dof = 1 / (share_a * share_a / a->dof + share_b * share_b / b->dof);
  return MeanEstimate{b->mean - a->mean, error, std::max(dof, std::min(a->dof, b->dof))};  // less is a rounding
}

Interval t_interval(const MeanEstimate& estimate, double level) {
  require_inside("t_interval", "level", level, 0, 1);
  const double half = student_t_quantile(0.5 + level / 2, estimate.dof) * estimate.standard_error;
  return {estimate.mean - half, estimate.mean + half};
}

double t_test_p_value(const MeanEstimate& estimate) {
  if (estimate.standard_error == 0) return estimate.mean == 0 ? 1 : 0;
  return student_t_p_value(std::clamp(estimate.mean / estimate.standard_error, -1e150, 1e150), estimate.dof);
}

std::optional<Interval> t_interval_us(std::span<const double> round_medians_us, double level) {
  require_finite("t_interval_us", round_medians_us);
  require_inside("t_interval_us", "level", level, 0, 1);
  std::vector<double> logs;
  for (const double median_us : round_medians_us) {
    if (median_us <= 0)
      throw std::invalid_argument{"t_interval_us: a round's median is " + std::to_string(median_us) +
                                  " us; only positive times have a logarithm"};
    logs.push_back(std::log(median_us));
  }
  const auto estimate = mean_estimate(logs);
  if (!estimate) return std::nullopt;
  const Interval interval = t_interval(*estimate, level);
  return Interval{std::exp(interval.low), std::exp(interval.high)};
}

std::optional<Interval> bootstrap_interval_us(std::span<const double> round_medians_us, std::uint64_t seed,
                                              double level, int resamples) {
  require_finite("bootstrap_interval_us", round_medians_us);
  require_inside("bootstrap_interval_us", "level", level, 0, 1);
  if (resamples < 1)
    throw std::invalid_argument{"bootstrap_interval_us: " + std::to_string(resamples) + " resamples; give at least 1"};
  const auto n = round_medians_us.size();
  if (n < 2) return std::nullopt;
  const std::array<std::uint32_t, 2> key{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
  std::vector<double> medians(static_cast<std::size_t>(resamples)), drawn(n);
  for (std::size_t k = 0; k < medians.size(); ++k) {
    std::array<std::uint32_t, 4> words{};
    for (std::size_t i = 0; i < n; ++i) {
      if (i % 4 == 0) words = philox({static_cast<std::uint32_t>(i / 4), static_cast<std::uint32_t>(k), 0, 0}, key);
      drawn[i] = round_medians_us[static_cast<std::size_t>((static_cast<std::uint64_t>(words[i % 4]) * n) >> 32)];
    }
    medians[k] = median_in_place(drawn);
  }
  std::sort(medians.begin(), medians.end());
  return Interval{sorted_quantile(medians, (1 - level) / 2), sorted_quantile(medians, (1 + level) / 2)};
}

}  // namespace mage::statistics
