// SPDX-License-Identifier: Apache-2.0
// The oracle of layernorm against values that are not its own, and its bounds against right and wrong FP32 arithmetic.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "mage_bench/case.hpp"
#include "mage_bench/random.hpp"
#include "mage_bench/registry.hpp"
#include "test/support/reference.hpp"

namespace mage {
namespace {

using test::accepted;
using test::infinity;
using test::nan;

/// What the oracle of layernorm expects of rows of x: y, mean, rstd.
Expected layernorm_of(std::vector<float> x, std::vector<float> gamma, std::vector<float> beta) {
  const auto* family = find_family("layernorm");
  const auto cols = gamma.size();
  const auto problem = family->parse(std::to_string(x.size() / cols) + "x" + std::to_string(cols));
  Expected expected;
  family->reference(*problem, Pointers{{x.data(), gamma.data(), beta.data(), nullptr, nullptr, nullptr}}, expected);
  return expected;
}

// mean 0 and variance 1; mean 3 and variance 0; mean 2 and variance (3 * 4 + 36) / 4 = 12.
TEST(Reference, LayernormOfRowsThatAreKnownOnPaper) {
  const auto expected = layernorm_of({1, -1, 1, -1, 3, 3, 3, 3, 0, 0, 0, 8}, {1, 2, -1, 0.5F}, {0, 10, 0.25F, -3});
  ASSERT_EQ(expected.size(), 3U);
  const auto& y = expected[0].value;
  const double rstd[]{1 / std::sqrt(1.00001), 1 / std::sqrt(0.00001), 1 / std::sqrt(12.00001)};
  for (std::size_t row = 0; row < 3; ++row) {
    EXPECT_EQ(expected[1].value[row], (std::array{0.0, 3.0, 2.0}[row]));
    EXPECT_DOUBLE_EQ(expected[2].value[row], rstd[row]);
  }
  EXPECT_DOUBLE_EQ(y[0], rstd[0]);
  EXPECT_DOUBLE_EQ(y[1], 10 - 2 * rstd[0]);
  EXPECT_DOUBLE_EQ(y[2], 0.25 - rstd[0]);
  EXPECT_DOUBLE_EQ(y[3], -3 - 0.5 * rstd[0]);
  EXPECT_EQ((std::vector<double>{y.begin() + 4, y.begin() + 8}), (std::vector<double>{0, 10, 0.25, -3}));
  EXPECT_DOUBLE_EQ(y[8], -2 * rstd[2]);
  EXPECT_DOUBLE_EQ(y[11], -3 + 3 * rstd[2]);
}

TEST(Reference, LayernormOfNoNumberIsDecided) {
  const auto expected = layernorm_of({infinity, 1, -infinity, 1, nan, 1, infinity, -infinity}, {1, 1}, {0, 0});
  EXPECT_EQ(expected[1].value[0], infinity);
  EXPECT_EQ(expected[1].value[1], -infinity);
  for (const std::size_t row : {2U, 3U}) EXPECT_TRUE(std::isnan(expected[1].value[row])) << row;
  for (const std::size_t output : {0U, 2U})
    for (const double value : expected[output].value) EXPECT_TRUE(std::isnan(value)) << output;
  for (const auto& output : expected)
    for (const float bound : output.bound) EXPECT_EQ(bound, 0) << "infinity or NaN would accept or refuse everything";
}

struct Statistics {
  float mean, rstd;
};

/// Sums as a warp of 32 lanes takes them.
float warp_sum(const std::vector<float>& values, const std::function<float(float)>& of) {
  std::array<float, 32> lanes{};
  for (std::size_t i = 0; i < values.size(); ++i) lanes[i % 32] += of(values[i]);
  for (std::size_t half = 16; half > 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  return lanes[0];
}

Statistics two_passes(const std::vector<float>& row) {
  const auto count = static_cast<float>(row.size());
  const float mean = warp_sum(row, [](float x) { return x; }) / count;
  return {mean, 1 / std::sqrt(warp_sum(row, [&](float x) { return (x - mean) * (x - mean); }) / count + 1e-5F)};
}

/// Which outputs the bound accepts of FP32 arithmetic on four rows of 515: y, mean, rstd.
std::array<bool, 3> accepted_of_layernorm(Distribution distribution,
                                          const std::function<Statistics(const std::vector<float>&)>& statistics) {
  constexpr std::size_t rows = 4, cols = 515;
  std::vector<float> x(rows * cols), gamma(cols), beta(cols), y, means, rstds;
  generate({.name = "x", .rows = rows, .cols = cols, .distribution = distribution}, 0, x.data());
  generate({.name = "gamma", .rows = 1, .cols = cols}, 1, gamma.data());
  generate({.name = "beta", .rows = 1, .cols = cols}, 2, beta.data());
  for (std::size_t row = 0; row < rows; ++row) {
    const std::vector<float> in(x.begin() + static_cast<std::ptrdiff_t>(row * cols),
                                x.begin() + static_cast<std::ptrdiff_t>((row + 1) * cols));
    const auto [mean, rstd] = statistics(in);
    for (std::size_t c = 0; c < cols; ++c) y.push_back((in[c] - mean) * rstd * gamma[c] + beta[c]);
    means.push_back(mean);
    rstds.push_back(rstd);
  }
  const auto expected = layernorm_of(x, gamma, beta);
  return {accepted(y, expected[0]), accepted(means, expected[1]), accepted(rstds, expected[2])};
}

TEST(Reference, LayernormBoundAcceptsTwoPassesOnEveryDistribution) {
  for (const auto distribution : all_distributions)
    EXPECT_EQ(accepted_of_layernorm(distribution, two_passes), (std::array{true, true, true}))
        << to_string(distribution);
}

TEST(Reference, LayernormBoundRefusesWrongVariances) {
  const auto one_pass = [](const std::vector<float>& row) -> Statistics {
    const auto count = static_cast<float>(row.size());
    const float mean = warp_sum(row, [](float x) { return x; }) / count;
    const float variance = warp_sum(row, [](float x) { return x * x; }) / count - mean * mean;
    return {mean, 1 / std::sqrt(std::fmax(variance, 0.0F) + 1e-5F)};
  };
  EXPECT_EQ(accepted_of_layernorm(Distribution::shifted, one_pass), (std::array{false, true, false}));
  EXPECT_EQ(accepted_of_layernorm(Distribution::normal, one_pass), (std::array{true, true, true}))
      << "only a shift shows it";
  const auto changed = [](float eps, std::size_t less) {
    return [=](const std::vector<float>& row) -> Statistics {
      const float mean = two_passes(row).mean;
      const auto count = static_cast<float>(row.size() - less);
      return {mean, 1 / std::sqrt(warp_sum(row, [&](float x) { return (x - mean) * (x - mean); }) / count + eps)};
    };
  };
  EXPECT_EQ(accepted_of_layernorm(Distribution::normal, changed(1e-5F, 1)), (std::array{false, true, false}))
      << "unbiased";
  EXPECT_FALSE(accepted_of_layernorm(Distribution::normal, changed(1e-6F, 0))[2]) << "another epsilon";
}

// The terms of 1, -1, ... have nothing in common: u times their partial sums, 8u and not 40u of each. Those of 1, 1,
// ... do: what 1024 / 32 + 8 additions may do to a sum. Four terms are added thrice, in any order.
TEST(Reference, LayernormBoundOfTheMeanOnPaper) {
  constexpr double u = 0x1p-24, quantum = 0x1p-149;
  const auto of = [](std::size_t cols, float even, float odd) {
    std::vector<float> row(cols);
    for (std::size_t i = 0; i < cols; ++i) row[i] = i % 2 == 0 ? even : odd;
    return layernorm_of(row, std::vector<float>(cols, 1), std::vector<float>(cols, 0))[1];
  };
  EXPECT_FLOAT_EQ(of(1024, 1, -1).bound[0], static_cast<float>(8 * u + quantum));
  EXPECT_FLOAT_EQ(of(1024, 1, 1).bound[0], static_cast<float>(40 * u / (1 - 40 * u) + 2 * u + quantum));
  EXPECT_FLOAT_EQ(of(4, 1, -1).bound[0], static_cast<float>(3 * u / (1 - 3 * u) + quantum));
  EXPECT_FLOAT_EQ(of(1, 3, 0).bound[0], static_cast<float>(2 * u * 3 + quantum)) << "nothing is added";
  EXPECT_DOUBLE_EQ(of(1024, 1, -1).norm_bound, 4 * u) << "of one mean";
}

/// As the first version adds: 256 threads one element after another, then a tree.
float block_sum(const std::vector<float>& values) {
  std::array<float, 256> threads{};
  for (std::size_t i = 0; i < values.size(); ++i) threads[i % 256] += values[i];
  for (std::size_t half = 128; half > 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) threads[i] += threads[i + half];
  return threads[0];
}

TEST(Reference, LayernormBoundSeesOneColumnOfALongRow) {
  constexpr std::size_t cols = 131072;
  const std::vector<float> gamma(cols, 1), beta(cols, 0);
  for (const auto distribution :
       {Distribution::normal, Distribution::shifted, Distribution::constant, Distribution::spike, Distribution::tail}) {
    SCOPED_TRACE(to_string(distribution));
    std::vector<float> x(cols);
    generate({.name = "x", .rows = 1, .cols = cols, .distribution = distribution, .seed = 4}, 0, x.data());
    const auto expected = layernorm_of(x, gamma, beta)[1];
    EXPECT_TRUE(accepted({block_sum(x) / cols}, expected));
    if (distribution != Distribution::normal && distribution != Distribution::tail) continue;
    *std::find_if(x.begin(), x.end(), [](float value) { return std::fabs(value) > 0.8F; }) = 0;
    EXPECT_FALSE(accepted({block_sum(x) / cols}, expected));
  }
}

TEST(Reference, LayernormWorkCountsWhatMustMove) {
  const auto* family = find_family("layernorm");
  const auto work = family->work(*family->parse("64x1024"));
  EXPECT_EQ(work.bytes_read, 4.0 * 64 * 1024 + 8.0 * 1024);
  EXPECT_EQ(work.bytes_written, 4.0 * 64 * 1024 + 8.0 * 64);
}

}  // namespace
}  // namespace mage
