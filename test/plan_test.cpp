// SPDX-License-Identifier: Apache-2.0
// Which fixtures are selected, why some cannot run, and that the executed order is balanced.
#include "bench/plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "bench/console.hpp"

namespace mage {
namespace {

const Machine no_gpu{{0, Unavailable::no_cuda_device, "no CUDA device"}, 0, 0, std::size_t{64} << 30U};
const Machine hopper{{1, std::nullopt, {}}, 90, std::size_t{140} << 30U, std::size_t{64} << 30U};

Options options_for(const std::string& filter) {
  Options options;
  options.filter = filter;
  return options;
}

TEST(Filter, SearchesAndNegatesAsGoogleBenchmarkDoes) {
  EXPECT_TRUE(matches("gelu", "gelu/v00/1x1/event"));
  EXPECT_TRUE(matches("1x1/event$", "gelu/v00/1x1/event"));
  EXPECT_FALSE(matches("^v00", "gelu/v00/1x1/event"));
  EXPECT_FALSE(matches("-gelu", "gelu/v00/1x1/event"));
  EXPECT_TRUE(matches("-copy", "gelu/v00/1x1/event"));
}

TEST(Select, WithoutAGpuHostRowsRunAndCudaRowsSayWhy) {
  int host = 0;
  int cuda = 0;
  for (const auto& fixture : select_fixtures(options_for("."), no_gpu)) {
    if (fixture.variant->on_host()) {
      host += 1;
      const bool accepted = accepts(*fixture.variant, fixture.problem);
      EXPECT_EQ(fixture.status, accepted ? Status::ok : Status::unsupported) << fixture.name;
      EXPECT_EQ(fixture.mode, TimingMode::host) << fixture.name << ": a host variant has no device span";
    } else {
      cuda += 1;
      EXPECT_EQ(fixture.status, Status::unavailable) << fixture.name;
      EXPECT_TRUE(fixture.reason == Unavailable::no_cuda_device || fixture.reason == Unavailable::cuda_toolkit_missing);
      EXPECT_TRUE(fixture.detail.starts_with("no CUDA device")) << fixture.detail;
    }
  }
  EXPECT_GT(host, 0);
  EXPECT_GT(cuda, host) << "six modes against one";
}

TEST(Select, EveryNameIsUniqueAndParses) {
  std::set<std::string> names;
  for (const auto& fixture : select_fixtures(options_for("."), hopper)) {
    EXPECT_TRUE(names.insert(fixture.name).second) << fixture.name;
    EXPECT_TRUE(parse_name(fixture.name)) << fixture.name;
  }
}

TEST(List, TextMarksWhatAReaderShouldNotOverlook) {
  VariantInfo plain, wrong, racy;
  wrong.counter_example = "reads too little";
  racy.counter_example = "atomics";
  racy.deterministic = false;
  std::vector<Fixture> fixtures;
  for (const auto* variant : {&plain, &wrong, &racy}) {
    fixtures.emplace_back().variant = variant;
    fixtures.back().name = "a/v0" + std::to_string(fixtures.size()) + "/1x1/event";
  }
  EXPECT_EQ(list_fixtures(fixtures, ListFormat::names), "a/v01/1x1/event\na/v02/1x1/event\na/v03/1x1/event\n");
  EXPECT_EQ(list_fixtures(fixtures, ListFormat::text),
            "a/v01/1x1/event\na/v02/1x1/event  (counter-example)\n"
            "a/v03/1x1/event  (counter-example)  (not deterministic)\n");
}

TEST(Select, AnOldDeviceIsUnavailableForWantOfArchitecture) {
  Machine old = hopper;
  old.compute_capability = 60;
  for (const auto& fixture : select_fixtures(options_for("."), old))
    if (!fixture.variant->on_host() && !fixture.variant->skipped) {
      EXPECT_EQ(fixture.reason, Unavailable::arch) << fixture.name;
    }
}

TEST(Select, TooLittleMemoryIsUnavailable) {
  auto options = options_for("/host$");
  options.max_bytes = 1U << 20U;
  int refused = 0;
  for (const auto& fixture : select_fixtures(options, no_gpu)) refused += fixture.reason == Unavailable::memory ? 1 : 0;
  EXPECT_GT(refused, 0);
  Machine small = no_gpu;
  small.host_bytes = 1U << 20U;
  refused = 0;
  for (const auto& fixture : select_fixtures(options_for("/host$"), small))
    refused += fixture.reason == Unavailable::memory ? 1 : 0;
  EXPECT_GT(refused, 0);
}

TEST(Select, AdditionalProblemsJoinTheirFamily) {
  const auto* family = families().front();
  const auto extra = family->test_problems().front().name;
  auto options = options_for("/" + extra + "/host$");
  EXPECT_TRUE(select_fixtures(options, no_gpu).empty());
  options.problems = {std::string{family->name()} + "/" + extra};
  EXPECT_FALSE(select_fixtures(options, no_gpu).empty());
  for (const auto* wrong : {"nofamily/1x1", "1x1", "/1x1"}) {
    options.problems = {wrong};
    EXPECT_THROW(static_cast<void>(select_fixtures(options, no_gpu)), std::invalid_argument) << wrong;
  }
  options.problems = {std::string{family->name()} + "/nonsense"};
  EXPECT_THROW(static_cast<void>(select_fixtures(options, no_gpu)), std::invalid_argument);
}

using Order = std::vector<std::pair<int, int>>;
Order order_of(const Plan& plan) {
  Order order;
  for (const auto& problem : plan.problems)
    for (const auto& step : problem.steps) order.emplace_back(step.fixture, step.round);
  return order;
}

TEST(Plan, EveryFixtureRunsOnceInEveryRound) {
  const auto plan = make_plan(select_fixtures(options_for("."), hopper), {});
  std::map<std::pair<int, int>, int> count;
  for (const auto& step : order_of(plan)) count[step] += 1;
  int expected = 0;
  for (std::size_t i = 0; i < plan.fixtures.size(); ++i) {
    expected += plan.rounds[i];
    if (plan.fixtures[i].status != Status::ok) continue;
    EXPECT_GE(plan.rounds[i], 10) << plan.fixtures[i].name;
    for (int round = 0; round < plan.rounds[i]; ++round)
      EXPECT_EQ((count[{static_cast<int>(i), round}]), 1) << plan.fixtures[i].name << " round " << round;
  }
  EXPECT_EQ(plan.steps(), expected);
  EXPECT_TRUE(plan.balanced);
}

TEST(Plan, EveryVariantFollowsEveryOtherEquallyOften) {
  const auto plan = make_plan(select_fixtures(options_for("."), hopper), {});
  for (const auto& problem : plan.problems) {
    std::map<std::string, std::map<std::pair<int, int>, int>> follows;  // by comparison
    for (const auto& step : problem.steps) {
      const auto& fixture = plan.fixtures[static_cast<std::size_t>(step.fixture)];
      const auto comparison = std::string{to_string(fixture.mode)} + (fixture.variant->on_host() ? " host" : " cuda");
      if (step.predecessor >= 0) follows[comparison][{step.predecessor, step.fixture}] += 1;
    }
    for (const auto& [comparison, pairs] : follows) {
      std::set<int> counts;
      std::set<int> members;
      for (const auto& [pair, count] : pairs) {
        counts.insert(count);
        members.insert(pair.first);
        members.insert(pair.second);
      }
      EXPECT_EQ(counts.size(), 1U) << problem.problem.name << " " << comparison;
      EXPECT_EQ(pairs.size(), members.size() * (members.size() - 1)) << "some pair never met";
    }
  }
}

TEST(Plan, TheKernelModeIsAPassOfItsOwnAtTheEnd) {
  const auto plan = make_plan(select_fixtures(options_for("."), hopper), {});
  bool traced = false;
  for (const auto& problem : plan.problems) {
    EXPECT_TRUE(problem.traced || !traced) << "an untraced mode after a trace: " << problem.problem.name;
    traced = problem.traced;
    for (const int fixture : problem.fixtures)
      EXPECT_EQ(plan.fixtures[static_cast<std::size_t>(fixture)].mode == TimingMode::kernel, traced);
  }
}

TEST(Plan, TheSeedDecidesTheOrder) {
  Options one;
  Options other;
  other.seed = 2;
  const auto fixtures = select_fixtures(options_for("."), no_gpu);
  EXPECT_EQ(order_of(make_plan(fixtures, one)), order_of(make_plan(fixtures, one)));
  EXPECT_NE(order_of(make_plan(fixtures, one)), order_of(make_plan(fixtures, other)));
}

TEST(Plan, RoundsThatAreNoMultipleOfTheDesignAreCalledUnbalanced) {
  Options options;
  options.rounds = 1;
  const auto plan = make_plan(select_fixtures(options_for("."), no_gpu), options);
  EXPECT_FALSE(plan.balanced);
}

TEST(Plan, ProblemsComeOneAtATime) {
  const auto plan = make_plan(select_fixtures(options_for("."), no_gpu), {});
  std::set<std::string> seen;
  for (const auto& problem : plan.problems)
    EXPECT_TRUE(
        seen.insert(std::string{problem.family->name()} + problem.problem.name + (problem.traced ? " traced" : ""))
            .second)
        << "the memory of a problem is taken once a pass";
}

}  // namespace
}  // namespace mage
