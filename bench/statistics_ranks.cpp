// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/statistics.hpp"

namespace mage::statistics {
namespace {

/// Up to here ways are counted one by one: at most 2^50 of them, so a double holds their number exactly.
constexpr std::size_t exact_limit = 50;

std::vector<double> sorted_copy(std::span<const double> samples) {
  std::vector<double> sorted{samples.begin(), samples.end()};
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

/// Integers in the order of the doubles. The function is its own inverse, but for -0, which becomes 0.
std::int64_t to_ordered(std::int64_t bits) { return bits < 0 ? std::numeric_limits<std::int64_t>::min() - bits : bits; }
std::int64_t ordered(double x) { return to_ordered(std::bit_cast<std::int64_t>(x)); }
double from_ordered(std::int64_t key) { return std::bit_cast<double>(to_ordered(key)); }

/// The k-th smallest of a multitude that is only counted: at most 64 counts, and no list of n^2 values.
template <class CountUpTo>
double kth_smallest(double low, double high, std::int64_t k, const CountUpTo& count_up_to) {
  std::int64_t below = ordered(low), above = ordered(high);
  while (below < above) {
    const std::int64_t middle = std::midpoint(below, above);
    if (count_up_to(from_ordered(middle)) >= k)
      above = middle;
    else
      below = middle + 1;
  }
  return from_ordered(above);
}

template <class CountUpTo>
double counted_median(double low, double high, std::int64_t count, const CountUpTo& count_up_to) {
  const double upper = kth_smallest(low, high, count / 2 + 1, count_up_to);
  return count % 2 == 1 ? upper : std::midpoint(kth_smallest(low, high, count / 2, count_up_to), upper);
}

struct Ranks {
  std::vector<std::int64_t> doubled;  ///< twice the mean rank, so that a tie's is whole; in the order of the values
  double ties = 0;                    ///< sum of t^3 - t over groups of t equal values
};

Ranks mean_ranks(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  Ranks ranks{std::vector<std::int64_t>(values.size())};
  for (std::size_t first = 0, last = 0; first < order.size(); first = last) {
    while (last < order.size() && values[order[last]] == values[order[first]]) ++last;
    for (std::size_t i = first; i < last; ++i) ranks.doubled[order[i]] = static_cast<std::int64_t>(first + 1 + last);
    const auto tied = static_cast<double>(last - first);
    ranks.ties += tied * tied * tied - tied;
  }
  return ranks;
}

/// P(|Z| >= distance / deviation), the distance made smaller by half a step of the statistic.
double normal_p_value(double distance, double deviation) {
  if (deviation == 0) return 1;
  const double z = std::max(0.0, std::fabs(distance) - 0.5) / deviation;
  return std::erfc(z / std::sqrt(2.0));
}

}  // namespace

double hodges_lehmann(std::span<const double> samples) {
  require_finite("hodges_lehmann", samples);
  const auto sorted = sorted_copy(samples);
  const auto n = static_cast<std::int64_t>(sorted.size());
  return counted_median(sorted.front(), sorted.back(), n * (n + 1) / 2, [&](double bound) {
    std::int64_t count = 0;
    std::size_t end = sorted.size();  // partners of sample i up to the bound are [i, end)
    for (std::size_t i = 0; i < end; ++i) {
      while (end > i && std::midpoint(sorted[i], sorted[end - 1]) > bound) --end;
      count += static_cast<std::int64_t>(end - i);
    }
    return count;
  });
}

double hodges_lehmann_shift(std::span<const double> baseline, std::span<const double> candidate) {
  require_finite("hodges_lehmann_shift", baseline);
  require_finite("hodges_lehmann_shift", candidate);
  const auto a = sorted_copy(baseline), b = sorted_copy(candidate);
  const auto pairs = static_cast<std::int64_t>(a.size() * b.size());
  return counted_median(b.front() - a.back(), b.back() - a.front(), pairs, [&](double bound) {
    std::int64_t count = 0;
    std::size_t end = 0;  // candidates up to the bound above this baseline are [0, end)
    for (const double from : a) {
      while (end < b.size() && b[end] - from <= bound) ++end;
      count += static_cast<std::int64_t>(end);
    }
    return count;
  });
}

double wilcoxon_signed_rank_p_value(std::span<const double> differences) {
  require_finite("wilcoxon_signed_rank_p_value", differences);
  std::vector<double> sizes;
  std::vector<bool> positive;
  for (const double difference : differences) {
    if (difference == 0) continue;
    sizes.push_back(std::fabs(difference));
    positive.push_back(difference > 0);
  }
  const auto ranks = mean_ranks(sizes);
  std::int64_t of_positive = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) of_positive += positive[i] ? ranks.doubled[i] : 0;
  const auto n = static_cast<std::int64_t>(sizes.size());
  const std::int64_t total = n * (n + 1);
  if (sizes.size() <= exact_limit) {
    // ways[s]: sets of ranks whose doubled sum is s. Both tails are alike, since each sign can be turned.
    std::vector<double> ways(static_cast<std::size_t>(std::min(of_positive, total - of_positive)) + 1);
    ways[0] = 1;
    for (const std::int64_t rank : ranks.doubled)
      for (std::size_t sum = ways.size(); sum-- > static_cast<std::size_t>(rank);)
        ways[sum] += ways[sum - static_cast<std::size_t>(rank)];
    const double tail = std::accumulate(ways.begin(), ways.end(), 0.0);
    return std::min(1.0, std::ldexp(2 * tail, -static_cast<int>(n)));
  }
  const auto count = static_cast<double>(n);
  const double variance = count * (count + 1) * (2 * count + 1) / 24 - ranks.ties / 48;
  return normal_p_value(static_cast<double>(2 * of_positive - total) / 4, std::sqrt(variance));
}

double wilcoxon_rank_sum_p_value(std::span<const double> baseline, std::span<const double> candidate) {
  require_finite("wilcoxon_rank_sum_p_value", baseline);
  require_finite("wilcoxon_rank_sum_p_value", candidate);
  std::vector<double> all{baseline.begin(), baseline.end()};
  all.insert(all.end(), candidate.begin(), candidate.end());
  const auto ranks = mean_ranks(all);
  const std::size_t of = baseline.size();
  std::int64_t got = 0;
  for (std::size_t i = 0; i < of; ++i) got += ranks.doubled[i];
  if (all.size() <= exact_limit) {
    // ways[k][s]: sets of k ranks whose doubled sum is s.
    const std::size_t largest = all.size() * (all.size() + 1);
    std::vector<std::vector<double>> ways(of + 1, std::vector<double>(largest + 1));
    ways[0][0] = 1;
    for (const std::int64_t rank : ranks.doubled) {
      const auto step = static_cast<std::size_t>(rank);
      for (std::size_t k = of; k > 0; --k)
        for (std::size_t sum = step; sum <= largest; ++sum) ways[k][sum] += ways[k - 1][sum - step];
    }
    const auto at = ways[of].begin() + static_cast<std::ptrdiff_t>(got);
    const double lower = std::accumulate(ways[of].begin(), at + 1, 0.0);
    const double upper = std::accumulate(at, ways[of].end(), 0.0);
    return std::min(1.0, 2 * std::min(lower, upper) / (lower + upper - *at));
  }
  const auto a = static_cast<double>(baseline.size()), b = static_cast<double>(candidate.size());
  const double expected = a * (a + b + 1) / 2;
  const double variance = a * b / 12 * (a + b + 1 - ranks.ties / ((a + b) * (a + b - 1)));
  return normal_p_value(static_cast<double>(got) / 2 - expected, std::sqrt(std::max(0.0, variance)));
}

std::vector<double> holm_adjusted(std::span<const double> p_values) {
  require_finite("holm_adjusted", p_values);
  for (const double p : p_values)
    if (p < 0 || p > 1)
      throw std::invalid_argument{"holm_adjusted: " + std::to_string(p) + " is no p-value; they lie in [0, 1]"};
  std::vector<std::size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return p_values[a] < p_values[b]; });
  std::vector<double> adjusted(p_values.size());
  double least = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    least = std::max(least, p_values[order[i]] * static_cast<double>(order.size() - i));
    adjusted[order[i]] = std::min(1.0, least);
  }
  return adjusted;
}

}  // namespace mage::statistics
