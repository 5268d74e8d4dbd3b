// SPDX-License-Identifier: Apache-2.0
// The oracle of layernorm_backward against values that are not its own, and its bounds against right and wrong FP32
// arithmetic.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
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

/// Inputs and outputs of layernorm_backward; mean and rstd may be derived.
struct LayernormBackward {
  std::vector<float> x, dy, mean, rstd, gamma, dx{}, dgamma{}, dbeta{};

  [[nodiscard]] Pointers pointers() {
    return Pointers{{x.data(), dy.data(), mean.data(), rstd.data(), gamma.data(), nullptr, nullptr, nullptr}};
  }
  [[nodiscard]] AnyProblem problem() const {
    return *find_family("layernorm_backward")->parse(std::to_string(mean.size()) + "x" + std::to_string(gamma.size()));
  }
  [[nodiscard]] Expected expected() {
    Expected expected;
    find_family("layernorm_backward")->reference(problem(), pointers(), expected);
    return expected;
  }
};

TEST(Reference, LayernormBackwardOfTwoRowsOnPaper) {
  LayernormBackward p{.x = {1, -1, 1, -1, 3, 1, 3, 1},
                      .dy = {1, 1, 3, 1, 2, 1, 0, -1},
                      .mean = {0, 2},
                      .rstd = {1, 0.5F},
                      .gamma = {1, 2, 1, 2}};
  const auto expected = p.expected();
  // w = gamma dy: {1, 2, 3, 2}, c1 = 2, c2 = 0; {2, 2, 0, -2}, c1 = 1/2, c2 = 1/4, xhat = {1/2, -1/2, 1/2, -1/2}.
  EXPECT_EQ(expected.at(0).value, (std::vector<double>{-1, 0, 1, 0, 0.6875, 0.8125, -0.3125, -1.1875}));
  EXPECT_EQ(expected.at(1).value, (std::vector<double>{2, -1.5, 3, -0.5}));
  EXPECT_EQ(expected.at(2).value, (std::vector<double>{3, 2, 3, 0}));
}

TEST(Reference, LayernormBackwardBoundsOnPaper) {
  constexpr double u = 0x1p-24, gamma_3 = 3 * u / (1 - 3 * u), quantum = 0x1p-150;
  LayernormBackward row{.x = {1, -1, 1, -1}, .dy = {1, 1, 3, 1}, .mean = {0}, .rstd = {1}, .gamma = {1, 2, 1, 2}};
  const auto dx = row.expected().at(0);
  // w = {1, 2, 3, 2}, w xhat = {1, -2, 3, -2}: magnitudes of 8 both, three additions, 1 and 4 roundings a term. The
  // first element: |w| + |c1| + |xhat c2| = 1 + 2 + 0.
  EXPECT_FLOAT_EQ(dx.bound[0], static_cast<float>(2 * (gamma_3 + u) + 2 * (gamma_3 + 4 * u) + 8 * u * 3 + quantum));

  // Columns of 1024 rows: 1, -1, ... in the first, 1, 1, ... in the second; xhat is 1.
  constexpr std::size_t rows = 1024;
  LayernormBackward columns{.x = std::vector<float>(2 * rows, 1),
                            .dy = std::vector<float>(2 * rows, 1),
                            .mean = std::vector<float>(rows, 0),
                            .rstd = std::vector<float>(rows, 1),
                            .gamma = {1, 1}};
  for (std::size_t r = 1; r < rows; r += 2) columns.dy[2 * r] = -1;
  const auto expected = columns.expected();
  const double deep = 516 * u / (1 - 516 * u);  // 512 + 1024 / 256 additions
  const auto& dbeta = expected.at(2);
  EXPECT_FLOAT_EQ(dbeta.bound[0], static_cast<float>(8 * u * rows));
  constexpr double drift = 1024 - 2 * 32;
  EXPECT_FLOAT_EQ(dbeta.bound[1], static_cast<float>(deep * drift + 8 * u * rows));
  EXPECT_NEAR(dbeta.norm_bound, std::hypot(u * rows, deep * drift + u * rows) * (1 + 3 / std::sqrt(2.0)),
              1e-9 * dbeta.norm_bound);
  EXPECT_FLOAT_EQ(expected.at(1).bound[0], static_cast<float>((8 * u + gamma_3) * rows));
}

TEST(Reference, LayernormBackwardDerivesMeanAndRstd) {
  LayernormBackward p{.x = {10001, 9999, -3, -3, infinity, 1, 0, 0x1p-149F},
                      .dy = std::vector<float>(8, 1),
                      .mean = std::vector<float>(4),
                      .rstd = std::vector<float>(4),
                      .gamma = {1, 1}};
  find_family("layernorm_backward")->derive(p.problem(), p.pointers());
  EXPECT_EQ(p.mean[0], 10000.0F);
  EXPECT_EQ(p.rstd[0], static_cast<float>(1 / std::sqrt(1.00001)));
  EXPECT_EQ(p.mean[1], -3.0F);
  EXPECT_EQ(p.rstd[1], static_cast<float>(1 / std::sqrt(1e-5))) << "a constant row";
  EXPECT_EQ(p.mean[2], infinity);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(p.rstd[2]), 0x7FC00000U) << "the same NaN on every machine";
  EXPECT_EQ(p.mean[3], 0.0F) << "half a subnormal, to even";

  const auto expected = p.expected();
  for (const std::size_t i : {4U, 5U}) {
    EXPECT_TRUE(std::isnan(expected.at(0).value[i]));
    EXPECT_EQ(expected.at(0).bound[i], 0);
  }
  EXPECT_TRUE(std::isnan(expected.at(1).value[0]));
  EXPECT_EQ(expected.at(2).value[0], 4) << "dbeta does not see x";
}

/// How FP32 code might compute xhat, and what it might leave out.
struct LayernormBackwardFormula {
  std::function<float(float x, float mean, float rstd)> xhat = [](float x, float mean, float rstd) {
    return (x - mean) * rstd;
  };
  float c1 = 1, c2 = 1, gamma = 1;  // 0: left out
  std::size_t rows_left_out = 0;    // of the columns' sums
};

bool passes(const LayernormBackwardFormula& formula, Distribution distribution) {
  constexpr std::size_t rows = 61, cols = 300;
  LayernormBackward p{.x = std::vector<float>(rows * cols),
                      .dy = std::vector<float>(rows * cols),
                      .mean = std::vector<float>(rows),
                      .rstd = std::vector<float>(rows),
                      .gamma = std::vector<float>(cols),
                      .dx = std::vector<float>(rows * cols),
                      .dgamma = std::vector<float>(cols),
                      .dbeta = std::vector<float>(cols)};
  const Operand matrix{.name = "x", .rows = rows, .cols = cols, .distribution = distribution};
  generate(matrix, 0, p.x.data());
  generate({.name = "dy", .rows = rows, .cols = cols}, 1, p.dy.data());
  generate({.name = "gamma", .rows = 1, .cols = cols}, 4, p.gamma.data());
  find_family("layernorm_backward")->derive(p.problem(), p.pointers());
  for (std::size_t r = 0; r < rows; ++r) {
    std::array<float, cols> w{}, xhat{};
    float c1 = 0, c2 = 0;
    for (std::size_t c = 0; c < cols; ++c) {
      const float dy = p.dy[r * cols + c];
      w[c] = (formula.gamma == 0 ? 1 : p.gamma[c]) * dy;
      xhat[c] = formula.xhat(p.x[r * cols + c], p.mean[r], p.rstd[r]);
      c1 += w[c];
      c2 += w[c] * xhat[c];
      if (r + formula.rows_left_out >= rows) continue;
      p.dgamma[c] += dy * xhat[c];
      p.dbeta[c] += dy;
    }
    c1 *= formula.c1 / cols;
    c2 *= formula.c2 / cols;
    for (std::size_t c = 0; c < cols; ++c) p.dx[r * cols + c] = p.rstd[r] * (w[c] - c1 - xhat[c] * c2);
  }
  const auto expected = p.expected();
  return accepted(p.dx, expected.at(0)) && accepted(p.dgamma, expected.at(1)) && accepted(p.dbeta, expected.at(2));
}

TEST(Reference, LayernormBackwardBoundAcceptsFp32AndRefusesWrongFormulas) {
  for (const auto distribution : all_distributions) {
    SCOPED_TRACE(to_string(distribution));
    EXPECT_TRUE(passes(LayernormBackwardFormula{}, distribution));
    EXPECT_FALSE(passes({.c1 = 0}, distribution));
    EXPECT_FALSE(passes({.gamma = 0}, distribution));
    EXPECT_FALSE(passes({.rows_left_out = 1}, distribution)) << "dbeta tells, whatever x";
  }
  EXPECT_FALSE(passes({.c2 = 0}, Distribution::normal));
  EXPECT_FALSE(
      passes({.xhat = [](float x, float mean, float rstd) { return x * rstd - mean * rstd; }}, Distribution::shifted))
      << "x rstd and mean rstd cancel where the mean is large";
  EXPECT_FALSE(passes({.xhat = [](float x, float mean, float rstd) { return std::fma(x, rstd, -(mean * rstd)); }},
                      Distribution::shifted))
      << "so they do with a fused multiply-add";
  EXPECT_FALSE(passes({.xhat =
                           [](float x, float mean, float rstd) {
                             const float xhat = (x - mean) * rstd;
                             return std::bit_cast<float>(std::bit_cast<std::uint32_t>(xhat) & 0xFFFFE000U);
                           }},
                      Distribution::normal))
      << "TF32";
}

}  // namespace
}  // namespace mage
