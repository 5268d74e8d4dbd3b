// SPDX-License-Identifier: Apache-2.0
// The oracles against values that are not theirs, and their bounds against right and wrong FP32 arithmetic.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
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

/// What the oracle of gelu expects of a row of x under a row of bias.
ExpectedTensor gelu_of(std::vector<float> x, std::vector<float> bias) {
  const auto* family = find_family("gelu");
  const auto problem = family->parse("1x" + std::to_string(x.size()));
  Expected expected;
  family->reference(*problem, Pointers{{x.data(), bias.data(), nullptr}}, expected);
  return expected.at(0);
}

// y is t * erfc(-t / sqrt(2)) / 2 by mpmath 1.4 at 50 digits, with t = x + bias exact, rounded to double.
constexpr std::array points{
    Point{0x1p+0F, 0, 0x1.aec4bd120d37dp-1},
    Point{-0x1p+0F, 0, -0x1.44ed0bb7cb20bp-3},
    Point{0x1p-1F, 0x1p-2F, 0x1.28f99fefbe511p-1},
    Point{0x1.8p+1F, 0, 0x1.7f7b4cb426ddcp+1},
    Point{-0x1.8p+1F, 0, -0x1.096697b244861p-8},
    Point{-0x1.6p+2F, 0, -0x1.c093d8972fbbep-24},
    Point{-0x1p+3F, 0, -0x1.669d2c90d55cep-48},
    Point{-0x1.ap+3F, 0, -0x1.b0f71384ef01ep-124},
    Point{-0x1.2cp+5F, 0, -0x1.367682a29e309p-1016},
    Point{0x1p+3F, 0, 0x1.ffffffffffffap+2},
    Point{0x1.9p+6F, 0, 0x1.9p+6},
    Point{0x1.0624dep-10F, 0, 0x1.065a698d284b3p-11},
    Point{-0x1.79ca1p-67F, 0, -0x1.79ca1p-68},
    Point{0x1.99999ap-4F, -0x1.666666p-1F, -0x1.51009215412d2p-3},
    Point{0x1p+1F, -0x1p+1F, 0},
    Point{0x1.93e594p+99F, 0x1p+0F, 0x1.93e594p+99},
    Point{0x1p-149F, 0, 0x1p-150},
    Point{0x1p-126F, 0x1p-149F, 0x1.000002p-127},
    Point{0x1p+24F, 0x1p+0F, 0x1.000001p+24},
};

// A relative error eps of t becomes about t^2 eps of y in the lower tail.
TEST(Reference, GeluAgreesWithFiftyDigits) {
  std::vector<float> x, bias;
  for (const auto& point : points) {
    x.push_back(point.x);
    bias.push_back(point.bias);
  }
  const auto expected = gelu_of(x, bias);
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto& [px, pb, y] = points[i];
    const double t = static_cast<double>(px) + static_cast<double>(pb);
    const double allowed = 0x1p-52 * (4 + (t < 0 ? t * t : 0)) * std::fabs(y);
    EXPECT_LE(std::fabs(expected.value[i] - y), allowed) << px << " + " << pb;
  }
}

TEST(Reference, GeluBoundIsTheContractsWithinAnUlp) {
  std::vector<float> x(20000), bias(x.size());
  const Operand operand{
      .name = "x", .rows = 1, .cols = static_cast<int64>(x.size()), .distribution = Distribution::tail};
  generate(operand, 0, x.data());
  generate(operand, 1, bias.data());
  x.insert(x.end(), {0x1p-149F, 0x1p-130F, 0x1p-126F, 1e-30F, 1e20F, -1e30F});
  bias.insert(bias.end(), 6, 0.0F);
  const auto expected = gelu_of(x, bias);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double t = static_cast<double>(x[i]) + static_cast<double>(bias[i]);
    const double y = expected.value[i];
    const double bound = 8 * 0x1p-24 * std::fabs(t) + 2 * 0x1p-24 * std::fabs(y) + 0x1p-150;
    EXPECT_LE(expected.bound[i], std::nextafter(static_cast<float>(bound), infinity));
    EXPECT_GE(expected.bound[i], std::nextafter(static_cast<float>(bound), 0.0F));
  }
}

TEST(Reference, GeluOfNoNumberIsDecided) {
  const float largest = std::numeric_limits<float>::max();
  const auto expected = gelu_of({infinity, -infinity, nan, 1, infinity, largest, -largest, largest},
                                {0, 0, 0, nan, -infinity, largest, -largest, 0});
  EXPECT_EQ(expected.value[0], infinity);
  for (const std::size_t i : {1U, 2U, 3U, 4U}) EXPECT_TRUE(std::isnan(expected.value[i])) << i;
  EXPECT_EQ(expected.value[5], infinity) << "x + bias overflows FP32";
  EXPECT_TRUE(std::isnan(expected.value[6])) << "x + bias overflows FP32";
  EXPECT_EQ(expected.value[7], static_cast<double>(largest));
  // A bound of infinity or NaN would accept, or refuse, everything.
  for (std::size_t i = 0; i < 7; ++i) EXPECT_EQ(expected.bound[i], 0) << i;

  EXPECT_TRUE(accepted({infinity, nan, nan, nan, nan, infinity, nan, largest}, expected));
  EXPECT_FALSE(accepted({largest, nan, nan, nan, nan, infinity, nan, largest}, expected));
  EXPECT_FALSE(accepted({infinity, 0, nan, nan, nan, infinity, nan, largest}, expected));
  EXPECT_FALSE(accepted({infinity, nan, 0, nan, nan, infinity, nan, largest}, expected));
  EXPECT_FALSE(accepted({infinity, nan, nan, 1, nan, infinity, nan, largest}, expected));
}

// Zero is exact, and every subnormal result may be rounded to either neighbour, as it must.
TEST(Reference, GeluBoundAdmitsSubnormalsAndNothingAtZero) {
  std::vector<float> x, y;
  for (std::uint32_t quanta = 1; quanta < 200000; quanta += 7) {
    x.push_back(std::bit_cast<float>(quanta));
    y.push_back(0.5F * x.back());
  }
  const std::vector<float> bias(x.size(), 0);
  const auto expected = gelu_of(x, bias);
  EXPECT_TRUE(accepted(y, expected));
  y[1000] = 0;  // flushed to zero
  EXPECT_FALSE(accepted(y, expected));
  EXPECT_TRUE(accepted({0.0F, -0.0F}, gelu_of({0, 0}, {0, 0})));
  EXPECT_FALSE(accepted({0x1p-149F, 0}, gelu_of({0, 0}, {0, 0})));
}

using Formula = std::function<float(float x, float bias)>;

/// Whether the bound accepts a formula on every input: all exponents of t, the tails, and sums that cancel.
bool passes(const Formula& formula) {
  std::vector<float> x, bias;
  for (std::uint32_t bits = 0; bits < 0x7F000000U; bits += 200003) {
    x.push_back(std::bit_cast<float>(bits));
    x.push_back(-x.back());
    bias.insert(bias.end(), 2, 0.0F);
  }
  for (const auto distribution : {Distribution::normal, Distribution::tail, Distribution::large}) {
    const Operand operand{.name = "x", .rows = 1, .cols = 30000, .distribution = distribution};
    std::vector<float> more_x(30000), more_bias(30000);
    generate(operand, 0, more_x.data());
    generate(operand, 1, more_bias.data());
    x.insert(x.end(), more_x.begin(), more_x.end());
    bias.insert(bias.end(), more_bias.begin(), more_bias.end());
  }
  std::vector<float> y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = formula(x[i], bias[i]);
  return accepted(y, gelu_of(x, bias));
}

TEST(Reference, GeluBoundAcceptsFp32Formulas) {
  EXPECT_TRUE(passes([](float x, float bias) {
    const float t = x + bias;
    return 0.5F * t * (1 + std::erf(t * sqrt_half));
  }));
  EXPECT_TRUE(passes([](float x, float bias) {
    const float t = x + bias;
    return t * std::fma(0.5F, std::erf(t * sqrt_half), 0.5F);
  }));
  EXPECT_TRUE(passes([](float x, float bias) {
    const float t = x + bias;
    return 0.5F * t * std::erfc(-t * sqrt_half);
  }));
}

TEST(Reference, GeluBoundRefusesWrongFormulas) {
  const auto exact = [](float t) { return 0.5F * t * std::erfc(-t * sqrt_half); };
  EXPECT_FALSE(passes([](float x, float) { return x; })) << "copy";
  EXPECT_FALSE(passes([](float, float) { return 0.0F; })) << "zeros";
  EXPECT_FALSE(passes([&](float x, float) { return exact(x); })) << "no bias";
  EXPECT_FALSE(passes([&](float x, float bias) { return std::fmax(0.0F, x + bias); })) << "ReLU";
  EXPECT_FALSE(passes([](float x, float bias) {
    const float t = x + bias;
    return 0.5F * t * (1 + std::tanh(0.79788456F * (t + 0.044715F * t * t * t)));
  })) << "the tanh approximation";
  EXPECT_FALSE(passes([&](float x, float bias) {  // 10 bits of fraction
    return exact(std::bit_cast<float>(std::bit_cast<std::uint32_t>(x + bias) & 0xFFFFE000U));
  })) << "TF32";
  EXPECT_FALSE(passes([&](float x, float bias) {
    const float y = exact(x + bias);
    return std::fabs(y) < 0x1p-126F ? 0.0F : y;
  })) << "subnormals flushed to zero";
}

TEST(Reference, GeluReusesItsMemory) {
  const auto* family = find_family("gelu");
  const auto problem = family->parse("3x5");
  std::vector<float> x(15, 1), bias(5, 0);
  const Pointers pointers{{x.data(), bias.data(), nullptr}};
  Expected expected;
  family->reference(*problem, pointers, expected);
  const auto* value = expected.at(0).value.data();
  const auto* bound = expected.at(0).bound.data();
  const double before = expected.at(0).value[7];
  x[7] = 2;
  family->reference(*problem, pointers, expected);
  EXPECT_EQ(expected.size(), 1U);
  EXPECT_EQ(expected.at(0).value.data(), value);
  EXPECT_EQ(expected.at(0).bound.data(), bound);
  EXPECT_GT(expected.at(0).value[7], before);
}

TEST(Reference, CopyExpectsTheInputItself) {
  const auto* family = find_family("copy");
  ASSERT_NE(family, nullptr);
  const auto problem = family->parse("2x3");
  std::vector<float> x{1.5F, -0.0F, 0x1p-149F, infinity, -3e38F, 7};
  Expected expected;
  family->reference(*problem, Pointers{{x.data(), nullptr}}, expected);
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(expected.at(0).value[i], static_cast<double>(x[i]));
    EXPECT_EQ(expected.at(0).bound[i], 0);
  }
}

TEST(Reference, WorkCountsWhatMustMove) {
  const auto* gelu = find_family("gelu");
  const auto work = gelu->work(*gelu->parse("64x1024"));
  EXPECT_EQ(work.bytes_read, 4.0 * 64 * 1024 + 4.0 * 1024);
  EXPECT_EQ(work.bytes_written, 4.0 * 64 * 1024);
  EXPECT_EQ(work.flops, 6.0 * 64 * 1024);
  const auto* copy = find_family("copy");
  const auto moved = copy->work(*copy->parse("64x1024"));
  EXPECT_EQ(moved.bytes(), 8.0 * 64 * 1024);
  EXPECT_EQ(moved.flops, 0);
}

TEST(Reference, EveryFamilySaysWhyItsBoundIsThatLarge) {
  ASSERT_FALSE(families().empty());
  for (const auto* family : families()) {
    EXPECT_GE(family->tolerance(family->test_problems().at(0)).size(), 20U) << family->name();
    EXPECT_NE(family->find_variant("reference"), nullptr) << family->name();
  }
}

}  // namespace
}  // namespace mage
