// SPDX-License-Identifier: Apache-2.0
#include "bench/plan_order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>

namespace mage {
namespace {

using Order = std::vector<std::vector<int>>;

/// Every row is a permutation, and every ordered pair of distinct neighbours is met equally often; says how often.
int neighbour_count(const Order& rows, int treatments) {
  std::map<std::pair<int, int>, int> met;
  for (const auto& row : rows) {
    EXPECT_EQ(std::set<int>(row.begin(), row.end()).size(), static_cast<std::size_t>(treatments));
    EXPECT_EQ(row.size(), static_cast<std::size_t>(treatments));
    EXPECT_EQ(*std::min_element(row.begin(), row.end()), 0);
    EXPECT_EQ(*std::max_element(row.begin(), row.end()), treatments - 1);
    for (std::size_t i = 1; i < row.size(); ++i) ++met[{row[i - 1], row[i]}];
  }
  EXPECT_EQ(met.size(), static_cast<std::size_t>(treatments * (treatments - 1)));
  if (met.empty()) return 0;
  const int count = met.begin()->second;
  for (const auto& [pair, times] : met) EXPECT_EQ(times, count) << pair.first << " before " << pair.second;
  return count;
}

/// Every treatment stands at every position equally often.
void expect_positions_balanced(const Order& rows, int treatments) {
  const auto expected = static_cast<int>(rows.size()) / treatments;
  for (std::size_t position = 0; position < static_cast<std::size_t>(treatments); ++position) {
    std::map<int, int> met;
    for (const auto& row : rows) ++met[row[position]];
    for (const auto& [treatment, times] : met) EXPECT_EQ(times, expected) << treatment << " at " << position;
  }
}

TEST(PlanOrder, WilliamsDesignIsBalanced) {
  for (int m = 1; m <= 12; ++m) {
    SCOPED_TRACE(m);
    const auto design = williams(m);
    EXPECT_EQ(design.size(), static_cast<std::size_t>(m == 1 ? 1 : m % 2 == 0 ? m : 2 * m));
    EXPECT_EQ(neighbour_count(design, m), m == 1 ? 0 : m % 2 == 0 ? 1 : 2);
    expect_positions_balanced(design, m);
  }
}

TEST(PlanOrder, WilliamsDesignOfFourIsThePublishedOne) {
  EXPECT_EQ(williams(4), (Order{{0, 1, 3, 2}, {1, 2, 0, 3}, {2, 3, 1, 0}, {3, 0, 2, 1}}));
}

TEST(PlanOrder, OrdersOfWholeDesignsAreBalanced) {
  for (int m = 1; m <= 12; ++m) {
    SCOPED_TRACE(m);
    const int rows = static_cast<int>(williams(m).size());
    const auto order = balanced_order(m, 3 * rows, 17);
    EXPECT_EQ(order.size(), static_cast<std::size_t>(3 * rows));
    EXPECT_EQ(neighbour_count(order, m), m == 1 ? 0 : m % 2 == 0 ? 3 : 6);
    expect_positions_balanced(order, m);
  }
}

TEST(PlanOrder, DefaultRoundsRepeatWholeDesigns) {
  EXPECT_EQ(default_rounds(1), 10);
  EXPECT_EQ(default_rounds(2), 10);
  EXPECT_EQ(default_rounds(3), 12);
  EXPECT_EQ(default_rounds(4), 12);
  EXPECT_EQ(default_rounds(5), 10);
  EXPECT_EQ(default_rounds(6), 12);
  EXPECT_EQ(default_rounds(7), 14);
  EXPECT_EQ(default_rounds(12), 12);
  EXPECT_EQ(default_rounds(4, 13), 16);
  EXPECT_EQ(default_rounds(4, 0), 4);
  EXPECT_EQ(default_rounds(1, 0), 1);
}

TEST(PlanOrder, RoundsBeyondADesignAreCutOff) {
  const auto order = balanced_order(4, 6, 2);
  EXPECT_EQ(order.size(), 6U);
  const auto longer = balanced_order(4, 8, 2);
  EXPECT_TRUE(std::equal(order.begin(), order.end(), longer.begin()));
  EXPECT_TRUE(balanced_order(4, 0, 2).empty());
}

TEST(PlanOrder, SeedsGiveOtherOrders) {
  std::set<Order> orders;
  for (std::uint64_t seed = 0; seed < 50; ++seed) orders.insert(balanced_order(6, 12, seed));
  orders.insert(balanced_order(6, 12, std::uint64_t{1} << 32));  // the upper half of a seed counts too
  EXPECT_EQ(orders.size(), 51U);
}

// The draws come from Philox and not from <random>, whose distributions differ between libraries. Recorded once.
TEST(PlanOrder, TheSameSeedGivesTheSameOrderOnAnyPlatform) {
  EXPECT_EQ(balanced_order(4, 5, 1), (Order{{0, 2, 1, 3}, {2, 3, 0, 1}, {1, 0, 3, 2}, {3, 1, 2, 0}, {3, 1, 2, 0}}));
  EXPECT_EQ(balanced_order(3, 6, 0x123456789ABCDEF0U),
            (Order{{1, 2, 0}, {0, 1, 2}, {2, 1, 0}, {2, 0, 1}, {1, 0, 2}, {0, 2, 1}}));
}

TEST(PlanOrder, NothingToOrderThrows) {
  EXPECT_THROW(static_cast<void>(williams(0)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(default_rounds(-1)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(balanced_order(0, 1, 0)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(balanced_order(2, -1, 0)), std::invalid_argument);
}

}  // namespace
}  // namespace mage
