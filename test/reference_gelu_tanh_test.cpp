// SPDX-License-Identifier: Apache-2.0
// The oracle of gelu_tanh against values that are not its own, and its bounds against right and wrong FP32 arithmetic.
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

/// What the oracle of gelu_tanh expects of a row of x under a row of bias.
ExpectedTensor gelu_tanh_of(std::vector<float> x, std::vector<float> bias) {
  const auto* family = find_family("gelu_tanh");
  const auto problem = family->parse("1x" + std::to_string(x.size()));
  Expected expected;
  family->reference(*problem, Pointers{{x.data(), bias.data(), nullptr}}, expected);
  return expected.at(0);
}

// y is t (1 + tanh(sqrt(2/pi) (t + 0.044715 t^3))) / 2 by mpmath 1.4 at 50 digits, rounded to double.
constexpr std::array tanh_points{
    Point{0x1p+0F, 0, 0x1.aeb0b772a3ae1p-1},
    Point{-0x1p+0F, 0, -0x1.453d22357147ap-3},
    Point{0x1p-1F, 0x1p-2F, 0x1.28f09702d00c3p-1},
    Point{-0x1.8p+1F, 0, -0x1.dcc2a011612b9p-9},
    Point{0x1.8p+1F, 0, 0x1.7f88cf57fba7bp+1},
    Point{-0x1p+3F, 0, -0x1.d5a2877434651p-69},
    Point{-0x1.2p+3F, 0, -0x1.52d52fdb61dbap-93},
    Point{0x1.9p+6F, 0, 0x1.9p+6},
    Point{0x1.0624dep-10F, 0, 0x1.065a698d278d7p-11},
    Point{-0x1.79ca1p-67F, 0, -0x1.79ca1p-68},
    Point{0x1.99999ap-4F, -0x1.666666p-1F, -0x1.5111d5e371f29p-3},
    Point{0x1p+1F, -0x1p+1F, 0},
    Point{0x1p-149F, 0, 0x1p-150},
    Point{-0x1.93e594p+99F, 0x1p+0F, 0},
    Point{0x1p+24F, 0x1p+0F, 0x1.000001p+24},
};

// A relative error eps of tanh's argument z becomes 2 |z| eps of y in the lower tail, and |z| is below 4 + t^2 / 4
// there.
TEST(Reference, GeluTanhAgreesWithFiftyDigits) {
  std::vector<float> x, bias;
  for (const auto& point : tanh_points) {
    x.push_back(point.x);
    bias.push_back(point.bias);
  }
  const auto expected = gelu_tanh_of(x, bias);
  for (std::size_t i = 0; i < tanh_points.size(); ++i) {
    const auto& [px, pb, y] = tanh_points[i];
    const double t = static_cast<double>(px) + static_cast<double>(pb);
    const double allowed = 0x1p-52 * (4 + (t < 0 ? std::fabs(t * t * t) : 0)) * std::fabs(y);
    EXPECT_LE(std::fabs(expected.value[i] - y), allowed) << px << " + " << pb;
    const double bound = 8 * 0x1p-24 * std::fabs(t) + 4 * 0x1p-24 * std::fabs(y) + 0x1p-150;
    EXPECT_FLOAT_EQ(expected.bound[i], static_cast<float>(bound)) << px << " + " << pb;
  }
}

TEST(Reference, GeluTanhOfNoNumberIsDecided) {
  const float largest = std::numeric_limits<float>::max();
  const auto expected =
      gelu_tanh_of({infinity, -infinity, nan, 1, largest, -largest, -largest}, {0, 0, 0, nan, largest, -largest, 0});
  EXPECT_EQ(expected.value[0], infinity);
  for (const std::size_t i : {1U, 2U, 3U, 5U}) EXPECT_TRUE(std::isnan(expected.value[i])) << i;
  EXPECT_EQ(expected.value[4], infinity) << "x + bias overflows FP32";
  EXPECT_EQ(expected.value[6], 0);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(expected.bound[i], 0) << i;
}

TEST(Reference, GeluTanhBoundKnowsItsFormula) {
  std::vector<float> x(20000), y(x.size()), erf_form(x.size()), coarse(x.size());
  const std::vector<float> bias(x.size(), 0);
  const Operand operand{
      .name = "x", .rows = 1, .cols = static_cast<int64>(x.size()), .distribution = Distribution::tail};
  generate(operand, 0, x.data());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float t = x[i];
    const float z = 0.79788456F * (t + 0.044715F * t * t * t);
    y[i] = 0.5F * t * (1 + std::tanh(z));
    erf_form[i] = 0.5F * t * std::erfc(-t * sqrt_half);
    coarse[i] = 0.5F * t * (1 + std::tanh(z) * (1 + 0x1p-11F));  // an error of the size of tanh.approx
  }
  const auto expected = gelu_tanh_of(x, bias);
  EXPECT_TRUE(accepted(y, expected));
  EXPECT_FALSE(accepted(erf_form, expected)) << "exact GELU is another family";
  EXPECT_FALSE(accepted(coarse, expected)) << "tanh.approx is another contract";
}

}  // namespace
}  // namespace mage
