// SPDX-License-Identifier: Apache-2.0
// A run on the host: what is recorded, and what happens to variants that are wrong, late, slow, or throw.
#include "bench/runner.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <memory>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "bench/store.hpp"
#include "test/support/runner_fixture.hpp"

namespace mage::test {
namespace {

TEST_F(RunnerTest, ARightVariantHasEveryRoundAndBothGates) {
  plan(reference());
  const auto results = run();
  ASSERT_EQ(results.size(), 3U);
  for (std::size_t round = 0; round < results.size(); ++round) {
    const auto& block = results[round].block;
    EXPECT_EQ(results[round].samples.us.size(), 4U);
    EXPECT_GT(results[round].median_us, 0);
    EXPECT_EQ(block.at("round"), round);
    EXPECT_EQ(block.at("rounds"), 3);
    EXPECT_EQ(block.at("inputs_sha256").get<std::string>().size(), 64U);
    EXPECT_LT(block.at("checked_sample").get<int>(), 4);
    EXPECT_EQ(block.at("parts_us").at("submit_us").size(), 4U);
  }
  const auto gates = entries("gate");
  ASSERT_EQ(gates.size(), 2U);
  EXPECT_EQ(gates[0].at("when"), "before");
  EXPECT_EQ(gates[1].at("when"), "after");
  EXPECT_NE(gates[0].at("output_checksum"), gates[1].at("output_checksum")) << "the closing gate has other inputs";
  EXPECT_EQ(entries("problem").size(), 1U);
  EXPECT_EQ(entries("floor").size(), 3U) << "one floor a round";
  EXPECT_TRUE(entries("status").empty());
  EXPECT_EQ(failures_, 0);
}

TEST_F(RunnerTest, AWrongVariantNeverGetsATime) {
  const auto wrong =
      variant("wrong", [](detail::ErasedFunction, const void*, const void*) -> Launch { return [](StreamHandle) {}; });
  plan(wrong);
  EXPECT_TRUE(run().empty());
  expect_status("wrong", "never written");
}

TEST_F(RunnerTest, AVariantThatStopsWorkingIsCaught) {
  static int calls = 0;  // it is bound anew in every round
  calls = 0;
  const auto late = variant("late", [](detail::ErasedFunction, const void* problem, const void* args) {
    return wrapped(problem, args, [](Launch& inner, StreamHandle stream, int) {
      if (++calls <= 30) inner(stream);  // through the gate and into the first rounds
    });
  });
  plan(late, 10);
  const auto rounds = run().size();
  EXPECT_GT(rounds, 0U);
  EXPECT_LT(rounds, 10U);
  expect_status("wrong", "checked inside round");
}

TEST_F(RunnerTest, AVariantThatSkipsWhileItsOutputLooksRightIsCaught) {
  const auto lazy = variant("lazy", [](detail::ErasedFunction, const void* problem, const void* args) {
    auto* y = static_cast<float* const*>(args)[2];
    return wrapped(problem, args, [y](Launch& inner, StreamHandle stream, int) {
      if (std::isnan(y[0])) inner(stream);
    });
  });
  plan(lazy, 10);
  EXPECT_TRUE(run().empty());
  expect_status("wrong", "seen right behind a call");
}

TEST_F(RunnerTest, AVariantThatWorksOnEverySecondCallIsCaught) {
  const auto second = variant("second", [](detail::ErasedFunction, const void* problem, const void* args) {
    return wrapped(problem, args, [](Launch& inner, StreamHandle stream, int call) {
      if (call % 2 == 0) inner(stream);
    });
  });
  plan(second, 10);
  EXPECT_TRUE(run().empty());
  expect_status("wrong", "");
}

TEST_F(RunnerTest, AJournalThatCannotBeWrittenIsNoVariantsFault) {
  plan(reference());
  Runner runner{options_,
                plan_,
                devices_,
                7,
                {[](const Json& entry) {
                   if (entry.at("kind") == "gate") throw RecordError{"disk full"};
                 },
                 {},
                 {}}};
  EXPECT_THROW(static_cast<void>(runner.run(0, plan_.problems.at(0).steps.at(0))), RecordError);
  EXPECT_EQ(runner.failures(), 0);
}

// Inputs take turns before each call, so that an answer that was kept is no answer.
TEST_F(RunnerTest, AVariantThatCachesItsOutputIsCaughtAtOnce) {
  const auto caching = variant("caching", [](detail::ErasedFunction, const void* problem, const void* args) {
    const auto cache = std::make_shared<std::vector<float>>();
    // The arguments' layout is the family's; its output pointer is the last of three.
    auto* y = static_cast<float* const*>(args)[2];
    return wrapped(problem, args, [cache, y](Launch& inner, StreamHandle stream, int) {
      constexpr std::size_t count = 160;  // 5 x 32
      if (cache->empty()) {
        inner(stream);
        cache->assign(y, y + count);
      }
      std::copy(cache->begin(), cache->end(), y);
    });
  });
  plan(caching);
  EXPECT_TRUE(run().empty());
  expect_status("wrong", "right for the inputs of an earlier call");
}

TEST_F(RunnerTest, OperandsLieElsewhereInEachRoundAndInputsChangeInTheMiddle) {
  plan(reference(), 6);
  const auto results = run();
  ASSERT_EQ(results.size(), 6U);
  std::set<Json> places;
  for (const auto& result : results) places.insert(result.block.at("offsets"));
  EXPECT_EQ(places.size(), 6U);
  EXPECT_EQ(results[0].block.at("offsets").size(), 3U) << "one an operand";
  EXPECT_EQ(results[0].block.at("input_epoch"), 0);
  EXPECT_GE(results[3].block.at("input_epoch"), 1);
  EXPECT_EQ(results[5].block.at("inputs_sha256"), results[0].block.at("inputs_sha256")) << "by which runs are compared";
  const auto first = results.front().block.at("offsets");
  plan(reference(), 6);
  EXPECT_EQ(run().front().block.at("offsets"), first) << "the seed gives the places";
  options_.seed = 2;
  plan(reference(), 6);
  EXPECT_NE(run().front().block.at("offsets"), first);
}

// Wrong in one mode is wrong: the others have no time either, nor has what was measured before.
TEST_F(RunnerTest, AWrongVariantLosesAllItsModesOfTheProblem) {
  static int binding = 0;
  binding = 0;
  const auto sometimes = variant("sometimes", [](detail::ErasedFunction, const void* problem, const void* args) {
    const bool wrong = ++binding == 4;  // of one fixture, in the second round
    return wrapped(problem, args, [wrong](Launch& inner, StreamHandle stream, int) {
      if (!wrong) inner(stream);
    });
  });
  auto first = fixture(sometimes, family(), "5x32"), second = first;
  second.name += "_again";
  plan({first, second});
  static_cast<void>(run());
  const auto found = entries("status");
  ASSERT_EQ(found.size(), 2U);
  EXPECT_NE(found[0].at("name"), found[1].at("name"));
  EXPECT_EQ(found[1].at("status"), "wrong");
  EXPECT_TRUE(found[1].at("reason").get<std::string>().starts_with("found wrong in mode host: ")) << found[1];
  EXPECT_EQ(failures_, 2);
}

TEST_F(RunnerTest, ACounterExampleThatIsFoundWrongIsNoFailure) {
  auto wrong =
      variant("wrong", [](detail::ErasedFunction, const void*, const void*) -> Launch { return [](StreamHandle) {}; });
  wrong.counter_example = "it writes nothing";
  plan(wrong);
  EXPECT_TRUE(run().empty());
  ASSERT_EQ(entries("status").size(), 1U);
  EXPECT_EQ(entries("status")[0].at("status"), "wrong");
  EXPECT_EQ(failures_, 0);
}

TEST_F(RunnerTest, BitsThatChangeAreNotDeterministic) {
  const auto flaky = variant("flaky", [](detail::ErasedFunction, const void* problem, const void* args) {
    auto* y = static_cast<float* const*>(args)[2];
    return wrapped(problem, args, [y](Launch& inner, StreamHandle stream, int call) {
      inner(stream);
      if (call % 3 == 0) y[0] = std::nextafter(y[0], 1.0F);  // still inside the bound
    });
  });
  plan(flaky, 10);
  EXPECT_LT(run().size(), 10U);
  expect_status("wrong", "different bits");
}

TEST_F(RunnerTest, AVariantThatThrowsIsFailedWithItsWords) {
  const auto broken = variant("broken", [](detail::ErasedFunction, const void*, const void*) -> Launch {
    return [](StreamHandle) { throw std::runtime_error{"no such luck"}; };
  });
  plan(broken);
  EXPECT_TRUE(run().empty());
  expect_status("failed", "no such luck");
}

TEST_F(RunnerTest, ASlowVariantTakesFewerSamplesAndSaysSo) {
  const auto slow = variant("slow", [](detail::ErasedFunction, const void* problem, const void* args) {
    return wrapped(problem, args, [](Launch& inner, StreamHandle stream, int) {
      inner(stream);
      std::this_thread::sleep_for(std::chrono::milliseconds{5});
    });
  });
  options_.samples = 1000;
  options_.round_budget_s = 0.024;
  plan(slow);
  const auto results = run();
  ASSERT_EQ(results.size(), 3U);
  EXPECT_LE(results[0].samples.us.size(), 3U) << "four fit, and one is checked instead of counted";
  EXPECT_GE(results[0].samples.us.size(), 1U);
  EXPECT_EQ(results[0].block.at("samples_asked"), 1000);
  const auto& flags = results[0].block.at("flags");
  EXPECT_NE(std::find(flags.begin(), flags.end(), flag::fewer_samples), flags.end());
}

TEST_F(RunnerTest, AnInterruptEndsTheRunWithoutTheClosingGate) {
  plan(reference());
  Runner runner{options_, plan_, devices_, 7, {[this](const Json& entry) { entries_.push_back(entry); }, {}, {}}};
  const auto& steps = plan_.problems.at(0).steps;
  EXPECT_TRUE(runner.run(0, steps[0]));
  interrupt_signal = SIGINT;
  EXPECT_FALSE(runner.run(0, steps[1]));
  runner.finish(true);
  const auto gates = entries("gate");
  ASSERT_EQ(gates.size(), 1U);
  EXPECT_EQ(gates[0].at("when"), "before");
}

TEST_F(RunnerTest, AnInterruptInsideARoundEndsItSoonAndLeavesNoHalf) {
  static int at = 0, behind = 0, call = 0;  // a prepare function holds nothing
  const auto interrupting = variant("interrupting", [](detail::ErasedFunction, const void* problem, const void* args) {
    return wrapped(problem, args, [](Launch& inner, StreamHandle stream, int) {
      ++call;
      inner(stream);
      if (call == at) interrupt_signal = SIGINT;
      behind += call > at ? 1 : 0;
    });
  });
  std::size_t most_rounds = 0;
  for (at = 1; at <= 40; ++at) {
    interrupt_signal = 0;
    behind = call = 0;
    plan(interrupting);
    const auto results = run();
    for (const auto& result : results) EXPECT_EQ(result.samples.us.size(), 4U) << "interrupted in call " << at;
    EXPECT_TRUE(interrupt_signal == 0 || results.empty() || behind <= 2) << "interrupted in call " << at;
    most_rounds = std::max(most_rounds, results.size());
  }
  EXPECT_EQ(most_rounds, 3U) << "no call was in the last sample of a round";
}

TEST_F(RunnerTest, VerifyingTakesNoTime) {
  plan(reference());
  Runner runner{options_, plan_, devices_, 7, {[this](const Json& entry) { entries_.push_back(entry); }, {}, {}}};
  runner.verify(0);
  EXPECT_EQ(entries("gate").size(), 2U);
  EXPECT_TRUE(entries("floor").empty());
  EXPECT_EQ(runner.inside_samples_s(), 0);
}

}  // namespace
}  // namespace mage::test
