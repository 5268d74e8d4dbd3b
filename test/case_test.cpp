// SPDX-License-Identifier: Apache-2.0
// The gate itself: what it must catch, and where exactly it draws the line.
#include "mage_bench/case.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "device/checksum.hpp"

namespace mage {
namespace {

constexpr std::uint32_t poison_word = 0x7FC12345U;
constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

Operand output(int64 rows, int64 cols) {
  Operand operand;
  operand.name = "y";
  operand.role = Role::out;
  operand.rows = rows;
  operand.cols = cols;
  return operand;
}

Verdict judge(float got, double value, float bound) {
  const ExpectedTensor expected{{value}, {bound}};
  return compare(output(1, 1), &got, expected, poison_word);
}

TEST(Compare, AcceptsInsideTheBoundAndRefusesOutside) {
  EXPECT_TRUE(judge(1.0F + 0.9F * 0.125F, 1.0, 0.125F).ok) << "0.9 of the bound";
  EXPECT_FALSE(judge(1.0F + 1.1F * 0.125F, 1.0, 0.125F).ok) << "1.1 of the bound";
  EXPECT_TRUE(judge(1.0F - 0.9F * 0.125F, 1.0, 0.125F).ok);
  EXPECT_FALSE(judge(1.0F - 1.1F * 0.125F, 1.0, 0.125F).ok);
  EXPECT_TRUE(judge(1.125F, 1.0, 0.125F).ok) << "the bound itself is inside";
}

TEST(Compare, ReportsTheErrorInUnitsOfTheBound) {
  EXPECT_NEAR(judge(1.0625F, 1.0, 0.125F).worst, 0.5, 1e-12);
  EXPECT_NEAR(judge(1.25F, 1.0, 0.125F).worst, 2, 1e-12);
}

/// Of two elements that may err by 1 each: 1 + first, 2 + second.
Verdict judge_norm(float first, float second, double norm_bound, double value = 2) {
  const std::array got{1 + first, 2 + second};
  return compare(output(1, 2), got.data(), {{1, value}, {1, 1}, norm_bound}, poison_word);
}

// 0.375, 0.5 and 0.625 are a right-angled triangle, and exact.
TEST(Compare, TheNormOfTheErrorsHasABoundOfItsOwn) {
  EXPECT_TRUE(judge_norm(0.375F, -0.5F, 0.625).ok) << "the bound itself is inside";
  EXPECT_TRUE(judge_norm(0.375F, -0.5F, 0.63).ok);
  const auto verdict = judge_norm(0.375F, -0.5F, 0.62);
  EXPECT_FALSE(verdict.ok) << "each is inside its bound, and both are not";
  EXPECT_EQ(verdict.wrong_elements, 0);
  EXPECT_EQ(verdict.worst, 0.5);
  EXPECT_NE(verdict.reason.find("2-norm of their errors, 0.625, is outside its bound 0.62"), std::string::npos)
      << verdict.reason;
  EXPECT_TRUE(judge_norm(0.375F, -0.5F, 0).ok) << "no such check";
}

TEST(Compare, TheNormExcusesNoElementAndIsNotAskedOfWhatIsNotFinite) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(judge_norm(1.5F, 0, 2).ok) << "an element outside its bound";
  EXPECT_FALSE(judge_norm(nan, 0, 2).ok);
  EXPECT_FALSE(judge_norm(nan, 0, inf).ok);
  EXPECT_FALSE(judge_norm(0.5F, 0, std::nan("")).ok) << "a NaN bound accepts nothing";
  EXPECT_TRUE(judge_norm(0.5F, nan, 0.25, std::nan("")).ok) << "NaN was expected, and the other is inside its bound";
  EXPECT_TRUE(judge_norm(0.5F, infinity, 0.25, inf).ok);
  EXPECT_FALSE(judge_norm(0.5F, 0, 0.25, inf).ok);
}

TEST(Compare, NaNPassesOnlyWhereNaNIsExpected) {
  EXPECT_FALSE(judge(nan, 1.0, 0.5F).ok);
  EXPECT_FALSE(judge(nan, 1.0, infinity).ok) << "no bound is wide enough for a NaN";
  EXPECT_TRUE(judge(nan, std::nan(""), 0).ok);
  EXPECT_FALSE(judge(1.0F, std::nan(""), 1e30F).ok) << "a number where NaN must be";
  EXPECT_FALSE(judge(1.0F, 1.0 + 1e-3, nan).ok) << "a NaN bound accepts nothing but the value itself";
}

TEST(Compare, InfinitiesMatchTheirOwnSignOnly) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(judge(infinity, inf, 0).ok);
  EXPECT_FALSE(judge(-infinity, inf, 0).ok);
  EXPECT_FALSE(judge(std::numeric_limits<float>::max(), inf, 0).ok);
  EXPECT_FALSE(judge(infinity, 1e38, 1.0F).ok);
}

TEST(Compare, AZeroBoundAsksForTheValueItself) {
  EXPECT_TRUE(judge(0.5F, 0.5, 0).ok);
  EXPECT_FALSE(judge(std::nextafter(0.5F, 1.0F), 0.5, 0).ok);
}

TEST(Compare, CountsWordsThatWereNeverWritten) {
  std::vector<float> got(100, 1.0F);
  std::memcpy(&got[97], &poison_word, sizeof poison_word);
  const ExpectedTensor expected{std::vector<double>(100, 1.0), std::vector<float>(100, 0.1F)};
  const auto verdict = compare(output(10, 10), got.data(), expected, poison_word);
  EXPECT_FALSE(verdict.ok);
  EXPECT_EQ(verdict.untouched_words, 1);
  EXPECT_NE(verdict.reason.find("never written"), std::string::npos) << verdict.reason;
  EXPECT_NE(verdict.reason.find("y[9,7]"), std::string::npos) << verdict.reason;
}

TEST(Compare, ThePoisonFailsEvenWhereNaNIsExpected) {
  float got = 0;
  std::memcpy(&got, &poison_word, sizeof got);
  EXPECT_FALSE(judge(got, std::nan(""), 0).ok) << "untouched is not NaN";
}

TEST(Compare, NamesTheFirstWrongElementAcrossThreads) {
  const int64 count = 1 << 20;
  std::vector<float> got(static_cast<std::size_t>(count), 2.0F);
  ExpectedTensor expected{std::vector<double>(got.size(), 2.0), std::vector<float>(got.size(), 0.5F)};
  got[700001] = 9.0F;
  got[900000] = 9.0F;
  const auto verdict = compare(output(1024, 1024), got.data(), expected, poison_word);
  EXPECT_EQ(verdict.wrong_elements, 2);
  EXPECT_NE(verdict.reason.find("y[683,609]"), std::string::npos) << verdict.reason;
  EXPECT_NE(verdict.reason.find("outside its bound"), std::string::npos) << verdict.reason;
}

TEST(Compare, RefusesAReferenceOfTheWrongSize) {
  const float got = 1;
  EXPECT_THROW(static_cast<void>(compare(output(1, 1), &got, {{1.0, 2.0}, {0, 0}}, poison_word)), std::logic_error);
}

TEST(Checksum, SeesEveryBitAndEveryPlace) {
  const auto device = make_host_device();
  std::vector<std::uint32_t> words(1000);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = static_cast<std::uint32_t>(i * 2654435761U);
  const auto sum = device->checksum(words.data(), 4 * words.size());
  for (const std::size_t at : {std::size_t{0}, std::size_t{499}, words.size() - 1})
    for (unsigned bit = 0; bit < 32; bit += 31) {
      auto flipped = words;
      flipped[at] ^= 1U << bit;
      EXPECT_NE(device->checksum(flipped.data(), 4 * flipped.size()), sum) << "word " << at << " bit " << bit;
    }
  auto swapped = words;
  std::swap(swapped[3], swapped[4]);
  EXPECT_NE(device->checksum(swapped.data(), 4 * swapped.size()), sum);
  EXPECT_NE(device->checksum(words.data(), 4 * words.size() - 1), sum);
}

TEST(Checksum, CountsBytesAndPadsTheLastWordWithZeros) {
  const auto device = make_host_device();
  const std::uint32_t words[]{0x04030201U, 0x08070605U, 0};
  for (const std::size_t bytes : {4U, 5U, 6U, 7U, 8U}) {
    std::uint32_t padded[2]{};
    std::memcpy(padded, words, bytes);
    const auto terms = (bytes + 3) / 4;
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < terms; ++i) sum += checksum_term(i, padded[i]);
    EXPECT_EQ(device->checksum(words, bytes), sum) << bytes;
  }
}

TEST(Fill, CountsBytesAndKeepsItsPlaceInThePattern) {
  const auto device = make_host_device();
  alignas(4) std::array<unsigned char, 16> memory{};
  device->fill(memory.data() + 3, 0x44332211U, 10);
  const std::array<unsigned char, 16> wanted{0,    0,    0,    0x44, 0x11, 0x22, 0x33, 0x44,
                                             0x11, 0x22, 0x33, 0x44, 0x11, 0,    0,    0};
  EXPECT_EQ(memory, wanted);
  device->inspect_fill(memory.data() + 3, 0x44332211U, 10, 7);
  EXPECT_EQ(device->findings().wrong, 0U);
  memory[12] ^= 1U;
  memory[5] ^= 1U;
  device->inspect_fill(memory.data() + 3, 0x44332211U, 10, 7);
  const auto found = device->findings();
  EXPECT_EQ(found.wrong, 2U);
  EXPECT_EQ(found.output, Findings::outside);
  EXPECT_EQ(found.tag, 7U);
  EXPECT_EQ(found.element, 2U);
  EXPECT_EQ(device->findings().wrong, 0U) << "what was found is told once";
}

TEST(Checksum, IsTheSumOfItsTermsWhateverTheThreads) {
  const auto device = make_host_device();
  std::vector<std::uint32_t> words(3'000'000, 7);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < words.size(); ++i) sum += checksum_term(i, words[i]);
  EXPECT_EQ(device->checksum(words.data(), 4 * words.size()), sum);
}

/// A case of the first family's smallest bench problem on the host, with its correct host variant.
class CaseTest : public testing::Test {
 protected:
  CaseTest()
      : family_{*families().front()},
        oracle_{family_, family_.bench_problems().front()},
        device_{make_host_device()},
        case_{*device_, oracle_},
        launch_{case_.bind(*family_.find_variant("reference"))} {}

  Verdict run(Launch& launch) {
    case_.poison();
    device_->submit(launch);
    return case_.check();
  }
  [[nodiscard]] std::size_t output_index() const {
    for (std::size_t i = 0; i < oracle_.operands().size(); ++i)
      if (oracle_.operands()[i].role == Role::out) return i;
    throw std::logic_error{"no output"};
  }
  [[nodiscard]] std::uint32_t* word(std::size_t operand, std::ptrdiff_t index) {
    return case_.pointers().at<std::uint32_t>(operand) + index;
  }

  const Family& family_;
  Oracle oracle_;
  std::unique_ptr<Device> device_;
  Case case_;
  Launch launch_;
};

TEST_F(CaseTest, TheReferencePasses) {
  const auto verdict = run(launch_);
  EXPECT_TRUE(verdict.ok) << verdict.reason;
  EXPECT_LE(verdict.worst, 1);
  EXPECT_NE(verdict.output_checksum, 0U);
}

TEST_F(CaseTest, KnownGoodBitsPassByTheirChecksumAlone) {
  const auto first = run(launch_);
  ASSERT_TRUE(first.ok);
  const auto again = run(launch_);
  EXPECT_TRUE(again.ok);
  EXPECT_EQ(again.worst, first.worst);
  EXPECT_EQ(again.output_checksum, first.output_checksum);
}

TEST_F(CaseTest, NothingWrittenFails) {
  Launch nothing{[](StreamHandle) {}};
  const auto verdict = run(nothing);
  EXPECT_FALSE(verdict.ok);
  EXPECT_EQ(verdict.untouched_words, oracle_.operands()[output_index()].elements());
}

TEST_F(CaseTest, AStaleResultOfAnEarlierCallFails) {
  ASSERT_TRUE(run(launch_).ok);
  Launch nothing{[](StreamHandle) {}};
  EXPECT_FALSE(run(nothing).ok) << "the poison must hide what the call before wrote";
}

TEST_F(CaseTest, EveryPoisonIsANaNAndAnotherOne) {
  std::set<std::uint32_t> seen;
  for (int i = 0; i < 100; ++i) {
    case_.poison();
    const auto pattern = *word(output_index(), 0);
    EXPECT_TRUE(seen.insert(pattern).second) << "a pattern came twice";
    float value = 0;
    std::memcpy(&value, &pattern, sizeof value);
    EXPECT_TRUE(std::isnan(value));
  }
}

TEST_F(CaseTest, AWriteOnEitherSideOfAnyBufferBreaksAFence) {
  for (std::size_t operand = 0; operand < oracle_.operands().size(); ++operand) {
    const auto count = oracle_.operands()[operand].elements();
    for (const std::ptrdiff_t at : {std::ptrdiff_t{-1}, std::ptrdiff_t{count}, std::ptrdiff_t{count} + 100}) {
      case_.poison();
      device_->submit(launch_);
      *word(operand, at) ^= 1U;
      const auto verdict = case_.check();
      EXPECT_FALSE(verdict.ok) << oracle_.operands()[operand].name << " " << at;
      EXPECT_NE(verdict.reason.find("fence"), std::string::npos) << verdict.reason;
    }
  }
  EXPECT_TRUE(run(launch_).ok) << "broken fences are mended for the next variant";
}

TEST_F(CaseTest, AChangedInputFailsAndIsRestored) {
  case_.poison();
  device_->submit(launch_);
  *word(0, 5) ^= 1U;
  const auto verdict = case_.check();
  EXPECT_FALSE(verdict.ok);
  EXPECT_NE(verdict.reason.find("input changed"), std::string::npos) << verdict.reason;
  EXPECT_TRUE(run(launch_).ok) << "the next variant gets the true inputs";
}

TEST_F(CaseTest, RestoringMendsInputsAndFencesAndForgetsWhatWasFound) {
  *word(0, 5) ^= 1U;
  *word(output_index(), -1) ^= 1U;
  device_->inspect_fill(word(output_index(), 0), 1, 4, 0);
  case_.restore();
  EXPECT_EQ(case_.found(), "");
  EXPECT_EQ(case_.damage(), "");
  EXPECT_TRUE(run(launch_).ok);
}

/// Memory that ends where nobody may read.
class BorderedCaseTest : public testing::TestWithParam<const char*> {};

TEST_P(BorderedCaseTest, EndsLessThanAVectorInFrontOfIt) {
  const auto& family = *find_family("gelu");
  const Oracle oracle{family, family.parse(GetParam()).value()};
  const auto device = make_host_device();
  const Case bound{*device, oracle, {.slack_bytes = 0, .border = Trials::Border::rear}};
  for (std::size_t i = 0; i < oracle.operands().size(); ++i) {
    const auto& operand = oracle.operands()[i];
    const auto begin = reinterpret_cast<std::uintptr_t>(bound.pointers().at<void>(i));
    EXPECT_EQ(begin % Trials::vector_bytes, operand.offset_bytes()) << operand.name;
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const auto end = begin + operand.bytes();
    EXPECT_LT((end + page - 1) / page * page - end, Trials::vector_bytes) << operand.name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, BorderedCaseTest, testing::Values("1x1", "5x32", "37x515-o1", "1x4-o1"),
                         [](const auto& name) {
                           std::string text = name.param;
                           std::replace(text.begin(), text.end(), '-', '_');
                           return text;
                         });

TEST_F(CaseTest, OneWrongElementFails) {
  case_.poison();
  device_->submit(launch_);
  const float wrong = 1e9F;
  std::memcpy(word(output_index(), 17), &wrong, sizeof wrong);
  EXPECT_FALSE(case_.check().ok);
}

TEST_F(CaseTest, ARefreshedOracleHasOtherValuesAndStillPasses) {
  const auto before = oracle_.input(0);
  ASSERT_TRUE(run(launch_).ok);
  const void* const address = case_.pointers().at<void>(0);
  oracle_.refresh(77);
  case_.reload();
  EXPECT_NE(oracle_.input(0), before);
  EXPECT_EQ(case_.pointers().at<void>(0), address) << "fresh values come at the same addresses";
  const auto verdict = run(launch_);
  EXPECT_TRUE(verdict.ok) << verdict.reason;
  oracle_.refresh(0);
  EXPECT_EQ(oracle_.input(0), before) << "epoch 0 is the problem's own";
}

TEST_F(CaseTest, BitsCheckedForOtherInputsDoNotPass) {
  ASSERT_TRUE(run(launch_).ok);
  const auto old_output = case_.read(output_index());
  oracle_.refresh(3);
  case_.reload();
  case_.poison();
  std::memcpy(case_.pointers().at<void>(output_index()), old_output.data(), old_output.size());
  EXPECT_FALSE(case_.check().ok) << "a cached result of the inputs before";
}

}  // namespace
}  // namespace mage
