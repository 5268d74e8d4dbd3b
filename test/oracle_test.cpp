// SPDX-License-Identifier: Apache-2.0
// Two sets of inputs that take turns: what set 1 changes, what it leads to, and the places where that shows.
#include "mage_bench/oracle.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace mage {
namespace {

class OracleTest : public testing::TestWithParam<std::string> {
 protected:
  static AnyProblem problem(const Family& family, const char* text) { return family.parse(text).value(); }
  [[nodiscard]] const Family& family() const { return *find_family(GetParam()); }

  /// The inputs of set 1, from those of set 0 and the changes.
  static std::vector<std::vector<std::byte>> changed_inputs(const Oracle& oracle) {
    std::vector<std::vector<std::byte>> all;
    for (std::size_t i = 0; i < oracle.operands().size(); ++i) {
      all.push_back(oracle.input(i));
      const auto size = size_of(oracle.operands()[i].dtype);
      for (const auto& change : oracle.variation().inputs.at(i)) {
        EXPECT_EQ(std::memcmp(all[i].data() + change.element * size, &change.bits[0], size), 0)
            << "what set 0 has there";
        std::memcpy(all[i].data() + change.element * size, &change.bits[1], size);
      }
    }
    return all;
  }
  static std::vector<std::vector<double>> values(const Oracle& oracle, int set) {
    std::vector<std::vector<double>> all;
    all.reserve(oracle.expected(set).size());
    for (std::size_t k = 0; k < oracle.expected(set).size(); ++k) all.push_back(oracle.expected(set).at(k).value);
    return all;
  }
};

TEST_P(OracleTest, SetOneIsWhatTheReferenceMakesOfTheChangedInputs) {
  Oracle oracle{family(), problem(family(), "64x1024")};
  oracle.vary(5);
  auto inputs = changed_inputs(oracle);
  std::vector<void*> pointers;
  pointers.reserve(inputs.size());
  for (auto& bytes : inputs) pointers.push_back(bytes.empty() ? nullptr : bytes.data());
  Expected expected;
  family().reference(oracle.problem(), Pointers{pointers}, expected);
  for (const int set : {1, 0, 1}) {  // it goes back and forth, too
    static_cast<void>(oracle.expected(set));
  }
  for (std::size_t k = 0; k < expected.size(); ++k) {
    EXPECT_EQ(oracle.expected(1).at(k).value, expected.at(k).value) << k;
    EXPECT_EQ(oracle.expected(1).at(k).bound, expected.at(k).bound) << k;
    EXPECT_EQ(oracle.expected(1).at(k).norm_bound, expected.at(k).norm_bound) << k;
  }
}

TEST_P(OracleTest, AskingForSetOneLeavesSetZeroAsItWas) {
  Oracle oracle{family(), problem(family(), "37x515")};
  const auto before = values(oracle, 0);
  oracle.vary(9);
  EXPECT_NE(values(oracle, 1), before);
  EXPECT_EQ(values(oracle, 0), before);
}

TEST_P(OracleTest, ChangesFollowFromTheSecretAndFromNothingElse) {
  const auto elements = [this](std::uint64_t secret) {
    Oracle oracle{family(), problem(family(), "64x1024")};
    oracle.vary(secret);
    std::vector<std::uint64_t> all;
    for (const auto& change : oracle.variation().inputs.at(0)) all.push_back(change.element);
    return all;
  };
  EXPECT_EQ(elements(1), elements(1));
  EXPECT_NE(elements(1), elements(2));
}

TEST_P(OracleTest, PlacesHoldTheirRightValuesAndSomeTellTheSetsApart) {
  Oracle oracle{family(), problem(family(), "64x1024")};
  oracle.vary(3);
  for (std::size_t k = 0; k < oracle.variation().outputs.size(); ++k) {
    int telling = 0;
    for (const auto& place : oracle.variation().places.at(k)) {
      for (const int set : {0, 1}) {
        const auto& tensor = oracle.expected(set).at(k);
        EXPECT_LE(place.low[set], tensor.value.at(place.element));
        EXPECT_GE(place.high[set], tensor.value.at(place.element));
      }
      telling += place.high[0] < place.low[1] || place.high[1] < place.low[0] ? 1 : 0;
    }
    EXPECT_EQ(telling, oracle.variation().telling.at(k));
    EXPECT_GT(telling, 0) << "output " << k << ": an answer that was kept would not show";
  }
}

TEST_P(OracleTest, NewInputsHaveNoVariationUntilTheyAreVaried) {
  Oracle oracle{family(), problem(family(), "37x515")};
  EXPECT_THROW(static_cast<void>(oracle.expected(1)), std::logic_error);
  oracle.vary(1);
  EXPECT_TRUE(oracle.varied());
  oracle.refresh(4);
  EXPECT_FALSE(oracle.varied());
  EXPECT_THROW(static_cast<void>(oracle.expected(1)), std::logic_error);
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto* family : families())
    if (family->parse("64x1024")) all.emplace_back(family->name());  // the problems of `ceiling` have other names
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, OracleTest, testing::ValuesIn(names()), [](const auto& with) { return with.param; });

}  // namespace
}  // namespace mage
