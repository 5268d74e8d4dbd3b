// SPDX-License-Identifier: Apache-2.0
#include "mage_bench/problem_text.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <limits>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>

#include "mage_bench/case.hpp"
#include "mage_bench/registry.hpp"

namespace mage {
namespace {

TEST(ProblemText, TakesALiteralOnlyWhereItIs) {
  std::string_view text = "abc";
  EXPECT_FALSE(take(text, "b"));
  EXPECT_EQ(text, "abc");
  EXPECT_TRUE(take(text, "ab"));
  EXPECT_EQ(text, "c");
}

TEST(ProblemText, TakesNumbersInOneSpellingOnly) {
  constexpr auto most = std::numeric_limits<uint64>::max();
  for (const auto& [text, value] : {std::pair<const char*, uint64>{"0", 0}, {"7", 7}, {"18446744073709551615", most}}) {
    std::string_view view{text};
    uint64 got = 99;
    EXPECT_TRUE(take_number(view, most, got)) << text;
    EXPECT_EQ(got, value);
    EXPECT_TRUE(view.empty());
  }
  for (const std::string_view text :
       {"", "-1", "+1", " 1", "01", "00", "x", "18446744073709551616", "99999999999999999999999"}) {
    auto view = text;
    uint64 got = 99;
    EXPECT_FALSE(take_number(view, most, got)) << text;
    EXPECT_EQ(got, 99U);
    EXPECT_EQ(view, text) << "what is refused is not taken";
  }
  std::string_view ten = "10";
  uint64 got = 0;
  EXPECT_FALSE(take_number(ten, 9, got));
  EXPECT_TRUE(take_number(ten, 10, got));
}

TEST(ProblemText, TakesShapesWhoseBytesCanBeCounted) {
  std::string_view text = "5x32-tail";
  int64 rows = 0, cols = 0;
  ASSERT_TRUE(take_shape(text, rows, cols));
  EXPECT_EQ(rows, 5);
  EXPECT_EQ(cols, 32);
  EXPECT_EQ(text, "-tail");
  EXPECT_EQ(print_shape(5, 32), "5x32");
  for (const std::string_view bad : {"5", "5x", "x5", "0x5", "5x0", "5 x5", "5X5", "-5x5", "5x-5", "05x5", "5x05",
                                     "2147483648x2147483648", "9223372036854775808x1", "1125899906842624x1"}) {
    auto view = bad;
    int64 r = -1, c = -1;
    EXPECT_FALSE(take_shape(view, r, c)) << bad;
    EXPECT_EQ(view, bad);
    EXPECT_EQ(r, -1);
  }
  std::string_view largest = "1125899906842623x1";
  EXPECT_TRUE(take_shape(largest, rows, cols));
}

TEST(ProblemText, NoShapeThatIsTakenWrapsTheBytesOfAFamily) {
  int checked = 0;
  for (const auto* family : families())
    for (int bits = 30; bits < 64; ++bits)
      for (const auto& text :
           {std::to_string((uint64{1} << bits) - 1) + "x1", "1x" + std::to_string((uint64{1} << bits) - 1)}) {
        const auto problem = family->parse(text);
        if (!problem) continue;
        const auto operands = family->operands(*problem);
        double device = 0, host = 0, largest = 0;
        for (const auto& operand : operands) {
          const double elements = static_cast<double>(operand.rows) * static_cast<double>(operand.cols);
          const double bytes = elements * static_cast<double>(size_of(operand.dtype));
          device += bytes;
          // Both sets of inputs and what they lead to, and the largest output for a check.
          host += operand.role == Role::out ? 24 * elements : 2 * bytes;
          largest = std::max(largest, operand.role == Role::out ? bytes : 0);
        }
        host += largest;
        EXPECT_NEAR(static_cast<double>(Case::device_bytes(operands)) / device, 1, 1e-5) << family->name() << text;
        EXPECT_NEAR(static_cast<double>(Case::host_bytes(operands)) / host, 1, 1e-5) << family->name() << text;
        EXPECT_LT(static_cast<double>(Case::measured_bytes(operands)) + host, 0x1p63) << family->name() << text;
        checked += 1;
      }
  EXPECT_GT(checked, 100);
}

TEST(ProblemText, TakesEveryDistributionByItsName) {
  std::set<std::string> names;
  for (const auto distribution :
       {Distribution::normal, Distribution::shifted, Distribution::large, Distribution::constant, Distribution::spike,
        Distribution::subnormal, Distribution::zeros, Distribution::special, Distribution::tail}) {
    const std::string name{to_string(distribution)};
    EXPECT_TRUE(names.insert(name).second) << name;
    const std::string text = "-" + name + "-s3";
    std::string_view view{text};
    Distribution got{};
    ASSERT_TRUE(take_distribution(view, got)) << name;
    EXPECT_EQ(got, distribution);
    EXPECT_EQ(view, "-s3");
  }
  for (const std::string_view bad : {"", "tail", "-", "-s3", "-tails", "-Tail", "-tail1", "--tail"}) {
    auto view = bad;
    Distribution got = Distribution::zeros;
    EXPECT_FALSE(take_distribution(view, got)) << bad;
    EXPECT_EQ(view, bad);
    EXPECT_EQ(got, Distribution::zeros);
  }
}

TEST(ProblemText, EveryProblemOfEveryFamilyIsReadBackAsItself) {
  ASSERT_FALSE(families().empty());
  for (const auto* family : families())
    for (const auto& problems : {family->bench_problems(), family->test_problems()}) {
      ASSERT_FALSE(problems.empty()) << family->name();
      std::set<std::string> names;
      for (const auto& problem : problems) {
        EXPECT_TRUE(names.insert(problem.name).second) << family->name() << " names " << problem.name << " twice";
        EXPECT_EQ(problem.name.find_first_of("/ "), std::string::npos) << problem.name;
        const auto read = family->parse(problem.name);
        ASSERT_TRUE(read) << family->name() << "/" << problem.name;
        EXPECT_EQ(read->name, problem.name);
        const auto written = family->operands(problem), again = family->operands(*read);
        ASSERT_EQ(written.size(), again.size());
        for (std::size_t i = 0; i < written.size(); ++i) {
          EXPECT_EQ(written[i].name, again[i].name);
          EXPECT_EQ(written[i].rows, again[i].rows);
          EXPECT_EQ(written[i].cols, again[i].cols);
          EXPECT_EQ(written[i].distribution, again[i].distribution);
          EXPECT_EQ(written[i].seed, again[i].seed);
          EXPECT_EQ(written[i].offset, again[i].offset);
        }
        // What is not exactly a name is none.
        for (const std::string& wrong : {problem.name + " ", " " + problem.name, problem.name + "-", problem.name + "x",
                                         "0" + problem.name, "-" + problem.name, problem.name + "-o0"})
          EXPECT_FALSE(family->parse(wrong)) << family->name() << " takes '" << wrong << "'";
      }
      EXPECT_FALSE(family->parse(""));
    }
}

TEST(ProblemText, GeluTakesItsSuffixesInOneOrder) {
  const auto* gelu = find_family("gelu");
  ASSERT_NE(gelu, nullptr);
  const auto problem = gelu->parse("5x32-spike-s18446744073709551615-o63");
  ASSERT_TRUE(problem);
  const auto operands = gelu->operands(*problem);
  ASSERT_EQ(operands.size(), 3U);
  EXPECT_EQ(operands[0].name, "x");
  EXPECT_EQ(operands[0].distribution, Distribution::spike);
  EXPECT_EQ(operands[0].seed, std::numeric_limits<uint64>::max());
  EXPECT_EQ(operands[0].offset, 63);
  EXPECT_EQ(operands[1].name, "bias");
  EXPECT_EQ(operands[1].rows, 1);
  EXPECT_EQ(operands[1].cols, 32);
  EXPECT_EQ(operands[1].distribution, Distribution::normal);
  EXPECT_EQ(operands[1].offset, 0);
  EXPECT_EQ(operands[2].name, "y");
  EXPECT_EQ(operands[2].role, Role::out);
  EXPECT_EQ(operands[2].offset, 63);
  for (const char* wrong :
       {"5x32-normal", "5x32-s0", "5x32-o0", "5x32-o1-s1", "5x32-s1-tail", "5x32-s01", "5x32-s-1", "5x32-s", "5x32-o64",
        "5x32-s18446744073709551616", "5x32-s1-s2", "5x32-tail-tail", "5x32-s1x", "5x32-unknown"})
    EXPECT_FALSE(gelu->parse(wrong)) << wrong;
}

TEST(ProblemText, CopyTakesAShapeOnly) {
  const auto* copy = find_family("copy");
  ASSERT_NE(copy, nullptr);
  EXPECT_TRUE(copy->parse("5x32"));
  EXPECT_FALSE(copy->parse("5x32-tail"));
}

TEST(ProblemText, WhatAUserGaveWrongIsNamedBesideWhatIsRight) {
  const auto message = [](const char* family, const char* text) -> std::string {
    try {
      return "taken: " + read_problem(*find_family(family), text).name;
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
  };
  EXPECT_EQ(message("gelu", "5x32-tail-s7-o1"), "taken: 5x32-tail-s7-o1");
  for (const auto& [family, text, why] : std::initializer_list<std::array<const char*, 3>>{
           {"gelu", "5", "it does not begin with ROWSxCOLS"},
           {"gelu", "05x32", "the number 05 begins with a zero"},
           {"gelu", "64x0003-s1", "the number 0003 begins with a zero"},
           {"gelu", "5x32-s01", "the number 01 begins with a zero"},
           {"gelu", "0x32", "it does not begin with ROWSxCOLS"},
           {"gelu", "100x200-s10-", "'-' is none of -DISTRIBUTION"},
           {"gelu", "5x32-s-1", "-s is not followed by a seed from 0 to 18446744073709551615"},
           {"gelu", "5x32-o64", "-o is not followed by an offset from 0 to 63 elements"},
           {"gelu", "5x32-Tail", "'-Tail' is none of -DISTRIBUTION (normal, shifted, "},
           {"gelu", "5x32-o1-s1", "'-s1' is none of -DISTRIBUTION"},
           {"gelu", "5x32-normal-s3", "one problem has one name, and the name of this one is 5x32-s3"},
           {"copy", "5", "it does not begin with ROWSxCOLS"},
           {"copy", "5x32-tail", "the family has problems of another form"},
           {"ceiling", "5x32", "the family has problems of another form"}}) {
    const auto said = message(family, text);
    const auto begin = std::string{family} + "/" + text + " is no problem: ";
    EXPECT_TRUE(said.starts_with(begin + why)) << said;
    const auto known = find_family(family)->bench_problems();
    EXPECT_TRUE(said.ends_with(". Right are " + std::string{family} + "/" + known.front().name + " and " + family +
                               "/" + known.back().name))
        << said;
  }
}

TEST(ProblemText, ALongTextIsCutInAMessage) {
  EXPECT_EQ(shortened(std::string(80, 'x')), std::string(80, 'x'));
  EXPECT_EQ(shortened(std::string(81, 'x')), std::string(80, 'x') + "...");
  for (const auto& text :
       {std::string(100000, '7'), "5x32-" + std::string(100000, 'y'), "5x32-s" + std::string(100000, '0')}) {
    try {
      static_cast<void>(read_problem(*find_family("gelu"), text));
      FAIL() << "must throw";
    } catch (const std::invalid_argument& error) {
      EXPECT_LT(std::string_view{error.what()}.size(), 500U);
      EXPECT_TRUE(std::string_view{error.what()}.starts_with("gelu/" + text.substr(0, 80) + "... is no problem: "));
    }
  }
}

// The families' own promise: one problem that overflows 32-bit offsets.
TEST(ProblemText, EveryFamilyHasALargeTestProblem) {
  for (const auto* family : families()) {
    bool large = false;
    for (const auto& problem : family->test_problems())
      for (const auto& operand : family->operands(problem)) large |= operand.bytes() > (std::size_t{1} << 31);
    EXPECT_TRUE(large) << family->name();
  }
}

}  // namespace
}  // namespace mage
