// SPDX-License-Identifier: Apache-2.0
#include "mage_bench/random.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/sha256.hpp"
#include "test/support/data.hpp"

namespace mage {
namespace {

using Words = std::array<std::uint32_t, 4>;

// The lines "philox4x32 10" of Random123's tests/kat_vectors.
TEST(Random, PhiloxGivesTheKnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, NormalQuantileAgreesWithSciPy) {
  const auto grid = test::read_json(test::data_path("statistics_scipy.json"))["normal_quantile"];
  ASSERT_GE(grid.size(), 30U);
  for (const auto& point : grid) {
    const double expected = point["value"];
    EXPECT_LE(std::fabs(normal_quantile(point["p"]) - expected), 1e-14 * std::fabs(expected)) << point;
  }
}

TEST(Random, NormalQuantileIsOddAboutOneHalf) {
  for (const double p : {0.25, 0.125, 0.0625, 0x1p-10, 0x1p-20, 0x1p-33, 0x1p-50})
    EXPECT_EQ(normal_quantile(p), -normal_quantile(1 - p)) << p;
}

TEST(Random, NormalQuantileOutsideItsDomainThrows) {
  for (const double p : {0.0, 1.0, -0.5, 2.0, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_THROW(static_cast<void>(normal_quantile(p)), std::invalid_argument) << p;
}

template <class T = float>
std::vector<T> values_of(Operand operand, std::uint32_t stream = 0) {
  operand.name = "x";
  operand.dtype = std::is_same_v<T, float> ? DType::f32 : DType::f64;
  std::vector<T> values(static_cast<std::size_t>(operand.elements()));
  generate(operand, stream, values.data());
  return values;
}

std::string hash_of(const std::vector<float>& values) { return sha256(std::as_bytes(std::span{values})); }

// tools/make_goldens.py computed the hashes: Philox in Python's integers, quantiles by mpmath.
TEST(Random, EveryDistributionHasTheBitsOfTheIndependentImplementation) {
  const auto golden = test::read_json(test::data_path("generate.json"));
  ASSERT_EQ(golden["sha256"].size(), 9U);
  for (const auto& [name, hash] : golden["sha256"].items()) {
    Operand operand{.name = "x", .rows = golden["rows"], .cols = golden["cols"], .seed = golden["seed"]};
    ASSERT_TRUE(parse_distribution(name, operand.distribution)) << name;
    EXPECT_EQ(hash_of(values_of(operand, golden["stream"])), hash.get<std::string>()) << name;
  }
}

struct Moments {
  double mean = 0, variance = 0, skewness = 0, kurtosis = 0;
};
template <class T>
Moments moments(const std::vector<T>& values) {
  const auto n = static_cast<double>(values.size());
  Moments m;
  for (const T x : values) m.mean += static_cast<double>(x) / n;
  double third = 0, fourth = 0;
  for (const T x : values) {
    const double d = static_cast<double>(x) - m.mean;
    m.variance += d * d / n;
    third += d * d * d / n;
    fourth += d * d * d * d / n;
  }
  m.skewness = third / std::pow(m.variance, 1.5);
  m.kurtosis = fourth / (m.variance * m.variance);
  return m;
}

constexpr int64 many = 1 << 20;

// Each limit is five standard errors of a normal sample of this size.
TEST(Random, NormalHasTheMomentsOfANormal) {
  const auto m = moments(values_of({.name = "x", .rows = 1024, .cols = many / 1024, .seed = 11}));
  const double n = static_cast<double>(many);
  EXPECT_NEAR(m.mean, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(m.variance, 1, 5 * std::sqrt(2 / n));
  EXPECT_NEAR(m.skewness, 0, 5 * std::sqrt(6 / n));
  EXPECT_NEAR(m.kurtosis, 3, 5 * std::sqrt(24 / n));
}

// Kolmogorov-Smirnov against the C library's erfc; 2.0 / sqrt(n) is exceeded with probability 7e-4.
TEST(Random, NormalHasTheShapeOfANormal) {
  auto values = values_of({.name = "x", .rows = 1, .cols = many, .seed = 12});
  std::sort(values.begin(), values.end());
  double distance = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double cdf = 0.5 * std::erfc(-static_cast<double>(values[i]) / std::sqrt(2.0));
    distance = std::max(distance, std::fabs(cdf - (static_cast<double>(i) + 0.5) / static_cast<double>(many)));
  }
  EXPECT_LT(distance, 2.0 / std::sqrt(static_cast<double>(many)));
}

TEST(Random, StreamsAndSeedsAreUncorrelated) {
  const Operand operand{.name = "x", .rows = 1, .cols = many, .seed = 13};
  const auto base = values_of(operand, 0);
  auto other_seed = operand, other_high_word = operand;
  other_seed.seed = 14;
  other_high_word.seed += uint64{1} << 32;
  for (const auto& other : {values_of(operand, 1), values_of(other_seed), values_of(other_high_word)}) {
    double product = 0;
    for (std::size_t i = 0; i < base.size(); ++i)
      product += static_cast<double>(base[i]) * static_cast<double>(other[i]);
    EXPECT_LT(std::fabs(product / static_cast<double>(many)), 5 / std::sqrt(static_cast<double>(many)));
  }
}

TEST(Random, ShiftedAndLargeAreNormalsMovedAndScaled) {
  const auto shifted =
      moments(values_of({.name = "x", .rows = 64, .cols = 1024, .distribution = Distribution::shifted}));
  EXPECT_NEAR(shifted.mean, 1e4, 0.02);
  EXPECT_NEAR(shifted.variance, 1, 0.03);
  const auto large = moments(values_of({.name = "x", .rows = 64, .cols = 1024, .distribution = Distribution::large}));
  EXPECT_NEAR(large.mean, 0, 200);
  EXPECT_NEAR(large.variance, 1e8, 3e6);
}

TEST(Random, ConstantHasOneValueARow) {
  constexpr int64 rows = 500, cols = 131;
  const auto values = values_of({.name = "x", .rows = rows, .cols = cols, .distribution = Distribution::constant});
  std::vector<float> of_rows;
  for (int64 row = 0; row < rows; ++row) {
    const auto* first = values.data() + row * cols;
    EXPECT_TRUE(std::all_of(first, first + cols, [&](float x) { return x == *first; })) << row;
    of_rows.push_back(*first);
  }
  EXPECT_EQ(std::set<float>(of_rows.begin(), of_rows.end()).size(), static_cast<std::size_t>(rows));
  EXPECT_NEAR(moments(of_rows).variance, 1, 0.35);
}

TEST(Random, SpikeHasOneSpikeARowAndIsNormalElsewhere) {
  constexpr int64 rows = 2000, cols = 67;
  const auto spiked =
      values_of({.name = "x", .rows = rows, .cols = cols, .distribution = Distribution::spike, .seed = 5});
  const auto normal = values_of({.name = "x", .rows = rows, .cols = cols, .seed = 5});
  std::set<int64> columns;
  for (int64 row = 0; row < rows; ++row) {
    int spikes = 0;
    for (int64 col = 0; col < cols; ++col) {
      const auto i = static_cast<std::size_t>(row * cols + col);
      if (spiked[i] == 1e6F) {
        ++spikes;
        columns.insert(col);
      } else {
        EXPECT_EQ(spiked[i], normal[i]);
      }
    }
    EXPECT_EQ(spikes, 1) << row;
  }
  EXPECT_EQ(columns.size(), static_cast<std::size_t>(cols)) << "every column is hit in 2000 rows";
}

TEST(Random, SubnormalIsSubnormalAndReachesBothEnds) {
  const auto values = values_of({.name = "x", .rows = 1024, .cols = 1024, .distribution = Distribution::subnormal});
  int negative = 0;
  float smallest = 1, largest = 0;
  for (const float x : values) {
    ASSERT_EQ(std::fpclassify(x), FP_SUBNORMAL) << x;
    negative += std::signbit(x) ? 1 : 0;
    smallest = std::min(smallest, std::fabs(x));
    largest = std::max(largest, std::fabs(x));
  }
  EXPECT_NEAR(negative, 0.5 * many, 5 * std::sqrt(static_cast<double>(many)) / 2);
  EXPECT_LT(smallest, 0x1p-126F / 10000);
  EXPECT_GT(largest, 0x1p-126F * 0.9999F);
}

TEST(Random, ZerosAreZerosOfBothSigns) {
  const auto values = values_of({.name = "x", .rows = 1024, .cols = 1024, .distribution = Distribution::zeros});
  EXPECT_TRUE(std::all_of(values.begin(), values.end(), [](float x) { return x == 0; }));
  const auto negative = std::count_if(values.begin(), values.end(), [](float x) { return std::signbit(x); });
  EXPECT_NEAR(static_cast<double>(negative), 0.5 * many, 5 * std::sqrt(static_cast<double>(many)) / 2);
}

TEST(Random, SpecialHasRowsOfInfinitiesAndNaN) {
  constexpr int64 rows = 30, cols = 50;
  const auto special = values_of({.name = "x", .rows = rows, .cols = cols, .distribution = Distribution::special});
  const auto normal = values_of({.name = "x", .rows = rows, .cols = cols});
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (int64 i = 0; i < rows * cols; ++i) {
    const float x = special[static_cast<std::size_t>(i)];
    switch (i / cols % 7) {
      case 1: EXPECT_EQ(x, infinity); break;
      case 2: EXPECT_EQ(x, -infinity); break;
      case 3: EXPECT_TRUE(std::isnan(x)); break;
      default: EXPECT_EQ(x, normal[static_cast<std::size_t>(i)]);
    }
  }
}

TEST(Random, TailIsUniformFromMinusEightToEight) {
  const auto values = values_of({.name = "x", .rows = 1024, .cols = 1024, .distribution = Distribution::tail});
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  EXPECT_GE(*low, -8);
  EXPECT_LT(*high, 8);
  EXPECT_LT(*low, -7.999F);
  EXPECT_GT(*high, 7.999F);
  const auto m = moments(values);
  EXPECT_NEAR(m.mean, 0, 5 * 16 / std::sqrt(12.0 * static_cast<double>(many)));
  EXPECT_NEAR(m.variance, 256.0 / 12, 0.1);
}

/// Sets OMP_NUM_THREADS, and gives back what it was.
class ThreadCap {
 public:
  explicit ThreadCap(const char* value) {
    if (const char* old = std::getenv("OMP_NUM_THREADS")) old_ = old;
    setenv("OMP_NUM_THREADS", value, 1);
  }
  ~ThreadCap() {
    if (old_)
      setenv("OMP_NUM_THREADS", old_->c_str(), 1);
    else
      unsetenv("OMP_NUM_THREADS");
  }
  ThreadCap(const ThreadCap&) = delete;
  ThreadCap& operator=(const ThreadCap&) = delete;

 private:
  std::optional<std::string> old_;
};

TEST(Random, ValuesDoNotDependOnTheThreads) {
  for (const auto distribution : {Distribution::normal, Distribution::spike, Distribution::constant,
                                  Distribution::special, Distribution::subnormal}) {
    const Operand operand{.name = "x", .rows = 211, .cols = 1009, .distribution = distribution, .seed = 21};
    std::set<std::string> hashes;
    for (const char* threads : {"1", "2", "64"}) {
      const ThreadCap cap{threads};
      hashes.insert(hash_of(values_of(operand)));
    }
    EXPECT_EQ(hashes.size(), 1U) << to_string(distribution);
  }
}

TEST(Random, AValueDependsOnItsIndexAndNotOnTheSize) {
  const auto all = values_of({.name = "x", .rows = 1, .cols = 100000, .seed = 9});
  for (const int64 cols : {1, 2, 3, 5, 16383, 16384, 16385, 99999}) {
    const auto some = values_of({.name = "x", .rows = 1, .cols = cols, .seed = 9});
    EXPECT_EQ(std::memcmp(some.data(), all.data(), some.size() * sizeof(float)), 0) << cols;
  }
}

TEST(Random, DoublesAreTheSameDrawsBeforeRounding) {
  const Operand operand{.name = "x", .rows = 3, .cols = 1001, .seed = 4};
  const auto wide = values_of<double>(operand);
  const auto narrow = values_of<float>(operand);
  for (std::size_t i = 0; i < wide.size(); ++i) EXPECT_EQ(static_cast<float>(wide[i]), narrow[i]);
}

TEST(Random, IntegersHaveNoSuchDistribution) {
  std::int32_t value = 7;
  for (const auto dtype : {DType::i32, DType::i64})
    EXPECT_THROW(generate({.name = "col", .dtype = dtype, .rows = 1, .cols = 1}, 0, &value), std::invalid_argument);
  EXPECT_EQ(value, 7);
}

}  // namespace
}  // namespace mage
