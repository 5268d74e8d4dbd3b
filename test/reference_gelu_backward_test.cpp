// SPDX-License-Identifier: Apache-2.0
// The oracle of gelu_backward against values that are not its own, and its bounds against right and wrong FP32
// arithmetic.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
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
using test::Point;
using test::sqrt_half;

/// What the oracle of gelu_backward expects: dx, then dbias.
Expected gelu_backward_of(int64 rows, std::vector<float> x, std::vector<float> bias, std::vector<float> dy) {
  const auto* family = find_family("gelu_backward");
  const auto problem = family->parse(std::to_string(rows) + "x" + std::to_string(bias.size()));
  Expected expected;
  family->reference(*problem, Pointers{{x.data(), bias.data(), dy.data(), nullptr, nullptr}}, expected);
  return expected;
}

// Phi(t) + t phi(t) by mpmath 1.4 at 50 digits, rounded to double.
constexpr std::array slope_points{
    Point{0, 0, 0x1p-1},
    Point{0x1p+0F, 0, 0x1.155429a56cca6p+0},
    Point{-0x1p+0F, 0, -0x1.55429a56cca59p-4},
    Point{0x1p-1F, 0x1p-2F, 0x1.ff9a8388624f4p-1},
    Point{0x1.6a09e6p+0F, 0, 0x1.20ffdcafe39a7p+0},  // the largest
    Point{-0x1.6a09e6p+0F, 0, -0x1.07fee57f1cd37p-3},
    Point{-0x1.8p+1F, 0, -0x1.876f5a0927b12p-7},
    Point{0x1.8p+1F, 0, 0x1.030edeb4124f6p+0},
    Point{-0x1p+3F, 0, -0x1.66737eee512ddp-45},
    Point{0x1.9p+6F, 0, 1},
    Point{-0x1.79ca1p-67F, 0, 0x1p-1},
    Point{0x1.99999ap-4F, -0x1.666666p-1F, 0x1.306873c0dfb14p-4},
    Point{0x1p+1F, -0x1p+1F, 0x1p-1},
    Point{0x1.93e594p+99F, 0x1p+0F, 1},
};

TEST(Reference, GeluBackwardAgreesWithFiftyDigits) {
  for (const float dy : {1.0F, -3.0F}) {
    std::vector<float> x, bias;
    for (const auto& point : slope_points) {
      x.push_back(point.x);
      bias.push_back(point.bias);
    }
    const auto expected = gelu_backward_of(1, x, bias, std::vector<float>(x.size(), dy));
    for (std::size_t i = 0; i < slope_points.size(); ++i) {
      const double t = static_cast<double>(x[i]) + static_cast<double>(bias[i]), g = static_cast<double>(dy);
      EXPECT_NEAR(expected[0].value[i], g * slope_points[i].y, 1e-15 * std::fabs(g)) << t;
      const double bound = 12 * 0x1p-24 * std::fabs(g) * (1 + std::fmin(std::fabs(t), 16.0)) + 0x1p-150;
      EXPECT_FLOAT_EQ(expected[0].bound[i], static_cast<float>(bound)) << t;
      // One row: nothing is added, so dbias may err as dx may and no more.
      EXPECT_EQ(expected[1].value[i], expected[0].value[i]);
      EXPECT_EQ(expected[1].bound[i], expected[0].bound[i]);
    }
  }
}

TEST(Reference, GeluBackwardSumsColumns) {
  // t = 0: dx is dy / 2. t = 40 and t = -40: dx is dy and 0.
  const auto expected =
      gelu_backward_of(3, {0, 40, -40, 0, 40, -40, 0, 40, -40}, {0, 0, 0}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  EXPECT_EQ(expected[0].value, (std::vector<double>{0.5, 2, 0, 2, 5, 0, 3.5, 8, 0}));
  EXPECT_EQ(expected[1].value, (std::vector<double>{6, 15, 0}));
  double errors = 0;
  for (const std::size_t i : {1U, 4U, 7U}) errors += static_cast<double>(expected[0].bound[i]);
  const double gamma = 2 * 0x1p-24 / (1 - 2 * 0x1p-24);
  EXPECT_FLOAT_EQ(expected[1].bound[1], static_cast<float>(errors + gamma * (15 + errors)));
}

// At t = 40 dx is dy, +1 and -1 in turn: partial sums stay about zero, and the sum may err by 8u a row. Where all are
// 1, what they have in common takes part in 512 + 4096 / 256 additions too.
TEST(Reference, GeluBackwardBoundOfATallColumnOnPaper) {
  constexpr int64 rows = 4096;
  constexpr double u = 0x1p-24;
  std::vector<float> dy(rows, 1);
  for (std::size_t r = 1; r < rows; r += 2) dy[r] = -1;
  const auto expected = gelu_backward_of(rows, std::vector<float>(rows, 40), {0}, dy);
  constexpr double term = 12 * u * 17;
  EXPECT_EQ(expected[1].value[0], 0);
  EXPECT_FLOAT_EQ(expected[1].bound[0], static_cast<float>(rows * (term + 8 * u)));
  EXPECT_NEAR(expected[1].norm_bound, 4 * (64 * term + rows * u), 1e-9 * expected[1].norm_bound) << "of one column";
  const auto same = gelu_backward_of(rows, std::vector<float>(rows, 40), {0}, std::vector<float>(rows, 1));
  constexpr double deep = 528 * u / (1 - 528 * u);
  EXPECT_FLOAT_EQ(same[1].bound[0], static_cast<float>(rows * (term + 8 * u) + deep * (4096 - 2 * 64)));
}

TEST(Reference, GeluBackwardOfNoNumberIsDecided) {
  const auto expected =
      gelu_backward_of(2, {infinity, -infinity, nan, 1, 1, 1, 1, 1}, {0, 0, 0, infinity}, {1, 1, 1, 1, 1, 1, 1, 1});
  for (const std::size_t i : {0U, 1U, 2U, 3U}) {
    EXPECT_TRUE(std::isnan(expected[0].value[i])) << i;
    EXPECT_TRUE(std::isnan(expected[1].value[i])) << "one row without a number leaves none to the column: " << i;
    EXPECT_EQ(expected[0].bound[i], 0) << i;
    EXPECT_EQ(expected[1].bound[i], 0) << i;
  }
  EXPECT_TRUE(std::isfinite(expected[0].value[4]));
}

// Row by row is the worst order of all, and a missing row is what a bound for it would let pass.
TEST(Reference, GeluBackwardBoundAcceptsSumsAndRefusesAMissingRow) {
  constexpr int64 rows = 4096, cols = 24;
  const auto* family = find_family("gelu_backward");
  const auto problem = family->parse("4096x24");
  const auto operands = family->operands(*problem);
  std::vector<float> x(rows * cols), bias(cols), dy(rows * cols);
  generate(operands[0], 0, x.data());
  generate(operands[1], 1, bias.data());
  generate(operands[2], 2, dy.data());
  const auto expected = gelu_backward_of(rows, x, bias, dy);
  std::vector<float> sums(cols, 0), fewer(cols, 0), rounded(cols, 0);
  for (int64 r = 0; r < rows; ++r)
    for (int64 c = 0; c < cols; ++c) {
      const auto i = static_cast<std::size_t>(r * cols + c), column = static_cast<std::size_t>(c);
      const float t = x[i] + bias[column];
      const float dx = dy[i] * (0.5F * (1 + std::erf(t * sqrt_half)) + t * 0.39894228F * std::exp(-0.5F * t * t));
      sums[column] += dx;
      if (r != 2048) fewer[column] += dx;
      rounded[column] += std::round(dx * 0x1p13F) * 0x1p-13F;
    }
  EXPECT_TRUE(accepted(sums, expected[1]));
  EXPECT_FALSE(accepted(fewer, expected[1]));
  // Terms to 13 binary places: no column shows it by itself, and all of them do.
  EXPECT_TRUE(accepted(rounded, {expected[1].value, expected[1].bound}));
  EXPECT_FALSE(accepted(rounded, expected[1]));
}

}  // namespace
}  // namespace mage
