// SPDX-License-Identifier: Apache-2.0
// A run on the host: what is recorded, and what happens to variants that are wrong, late, slow, or throw.
#include "bench/runner.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <memory>
#include <new>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "bench/store.hpp"
#include "support/simulated_device.hpp"

namespace mage {
namespace {

using Json = nlohmann::ordered_json;

const Family& family() { return *find_family("gelu"); }
const VariantInfo& reference() { return *family().find_variant("reference"); }

/// The reference's own launch behind something else; calls are counted from the binding on.
template <class Around>
Launch wrapped(const void* problem, const void* args, const Around& around) {
  const auto& erased = reference().erased;
  auto inner = std::make_shared<Launch>(erased.call_prepare(erased.prepare, problem, args));
  auto calls = std::make_shared<int>(0);
  return [inner, calls, around](StreamHandle stream) { around(*inner, stream, ++*calls); };
}

using Prepare = Launch (*)(detail::ErasedFunction, const void* problem, const void* args);

/// gelu where the expected values find no memory from some call of the reference on, or the output finds none.
class Starved final : public Family {
 public:
  explicit Starved(int first, bool huge_output = false) : first_{first}, huge_output_{huge_output} {}
  [[nodiscard]] std::string_view name() const override { return family().name(); }
  [[nodiscard]] std::vector<AnyProblem> bench_problems() const override { return family().bench_problems(); }
  [[nodiscard]] std::vector<AnyProblem> test_problems() const override { return family().test_problems(); }
  [[nodiscard]] std::optional<AnyProblem> parse(const std::string& text) const override { return family().parse(text); }
  [[nodiscard]] Operands operands(const AnyProblem& problem) const override {
    auto all = family().operands(problem);
    if (huge_output_) all.back().rows = int64{1} << 45U;
    return all;
  }
  [[nodiscard]] AnyArgs bind(const AnyProblem& problem, const Pointers& pointers) const override {
    return family().bind(problem, pointers);
  }
  void reference(const AnyProblem& problem, const Pointers& host, Expected& expected) const override {
    if (++calls_ >= first_) throw std::bad_alloc{};
    family().reference(problem, host, expected);
  }
  [[nodiscard]] std::string tolerance(const AnyProblem& problem) const override { return family().tolerance(problem); }
  [[nodiscard]] Work work(const AnyProblem& problem) const override { return family().work(problem); }

 private:
  int first_;
  bool huge_output_;
  mutable int calls_ = 0;
};

/// A variant of family gelu that only this test knows.
VariantInfo variant(const char* name, Prepare prepare) {
  auto info = reference();
  info.name = name;
  info.erased.call_prepare = prepare;
  return info;
}

class RunnerTest : public testing::Test {
 protected:
  RunnerTest() { devices_.host = make_host_device(); }
  ~RunnerTest() override { interrupt_signal = 0; }
  RunnerTest(const RunnerTest&) = delete;
  RunnerTest& operator=(const RunnerTest&) = delete;

  static Fixture fixture(const VariantInfo& info, const Family& of, const char* text,
                         TimingMode mode = TimingMode::host) {
    const auto problem = of.parse(text).value();
    const BenchmarkName name{std::string{of.name()}, info.name, problem.name, mode};
    return {&of, &info, problem, mode, to_string(name), Status::ok, {}, {}};
  }

  void plan(std::vector<Fixture> fixtures, int rounds = 3) {
    options_.rounds = rounds;
    if (options_.samples == 0) options_.samples = 4;
    plan_ = make_plan(std::move(fixtures), options_);
  }
  void plan(const VariantInfo& info, int rounds = 3) { plan({fixture(info, family(), "5x32")}, rounds); }

  /// Runs all steps; the results that have a time.
  std::vector<RoundResult> run() {
    Runner runner{options_, plan_, devices_, 7, {[this](const Json& entry) { entries_.push_back(entry); }, {}, {}}};
    std::vector<RoundResult> results;
    for (std::size_t p = 0; p < plan_.problems.size(); ++p)
      for (const auto& step : plan_.problems[p].steps)
        if (auto result = runner.run(p, step)) results.push_back(std::move(*result));
    runner.finish(interrupt_signal != 0);
    failures_ = runner.failures();
    return results;
  }

  [[nodiscard]] std::vector<Json> entries(const std::string& kind) const {
    std::vector<Json> found;
    for (const auto& entry : entries_)
      if (entry.at("kind") == kind) found.push_back(entry);
    return found;
  }
  void expect_status(const std::string& status, const std::string& fragment) const {
    const auto found = entries("status");
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].at("status"), status);
    EXPECT_NE(found[0].at("reason").get<std::string>().find(fragment), std::string::npos) << found[0].at("reason");
    EXPECT_EQ(failures_, 1);
  }

  Options options_;
  Plan plan_;
  Devices devices_;
  std::vector<Json> entries_;
  int failures_ = 0;
};

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
TEST_F(RunnerTest, WhatAVariantBreaksBeforeItFailsIsMended) {
  const auto vandal = variant("vandal", [](detail::ErasedFunction, const void*, const void* args) -> Launch {
    auto* const* pointers = static_cast<float* const*>(args);
    return [x = pointers[0], y = pointers[2]](StreamHandle) {
      x[0] += 1;
      y[-1] = 0;
      throw std::runtime_error{"no wish to work"};
    };
  });
  plan({fixture(vandal, family(), "5x32"), fixture(reference(), family(), "5x32")});
  EXPECT_EQ(run().size(), 3U);
  expect_status("failed", "no wish to work");
}

TEST_F(RunnerTest, WhatALastCallBreaksIsItsOwnVariantsFault) {
  static int binding = 0, calls = 0, calls_a_round = 0;
  binding = calls = 0;
  const auto vandal = variant("vandal", [](detail::ErasedFunction, const void* problem, const void* args) {
    const bool breaks = ++binding == 4;  // behind the gate and two rounds
    calls_a_round = std::exchange(calls, 0);
    auto* y = static_cast<float* const*>(args)[2];
    return wrapped(problem, args, [y, breaks](Launch& inner, StreamHandle stream, int) {
      inner(stream);
      if (++calls == calls_a_round && breaks) y[-1] = 0;
    });
  });
  plan({fixture(vandal, family(), "5x32"), fixture(reference(), family(), "5x32")}, 4);
  static_cast<void>(run());
  const auto found = entries("status");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].at("name"), "gelu/vandal/5x32/host");
  EXPECT_EQ(found[0].at("status"), "wrong");
}

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

/// On a simulated GPU: family copy by a spin, which can be captured. What touched L2 stands in caches().
class RunnerSimulatedTest : public RunnerTest {
 protected:
  void run_in(TimingMode mode) {
    auto owned = std::make_unique<test::SimulatedDevice>();
    device = owned.get();
    devices_.host = std::move(owned);
    entries_.clear();
    auto info = *copies().find_variant("reference");
    info.name = "by_spin";
    info.erased.call_prepare = [](detail::ErasedFunction, const void*, const void* args) -> Launch {
      const auto* pointers = static_cast<std::uint32_t* const*>(args);
      return [from = pointers[0], to = pointers[1]](StreamHandle stream) {
        device->spin(stream, {.us = 5, .from = from, .to = to, .words = 5 * 32});
      };
    };
    plan({fixture(info, copies(), "5x32", mode)});
    const auto results = run();
    EXPECT_EQ(results.size(), 3U) << to_string(mode) << Json(entries_).dump(1);
    for (const auto& result : results) EXPECT_EQ(result.samples.us.size(), 4U) << "a warm-up does not count";
  }
  static const Family& copies() { return *find_family("copy"); }
  static const std::string& caches() { return device->caches; }

 private:
  static inline test::SimulatedDevice* device = nullptr;  // a prepare function holds nothing
};

TEST_F(RunnerSimulatedTest, WarmSamplesSeeAnL2ThatOnlyTheOperationFilled) {
  for (const auto mode :
       {TimingMode::event, TimingMode::batch, TimingMode::graph, TimingMode::host, TimingMode::kernel}) {
    run_in(mode);
    // Each round begins with a warm-up, and has one more behind the sample that is checked, unless that is the last.
    const auto sweeps = std::count(caches().begin(), caches().end(), 'l');
    EXPECT_TRUE(sweeps >= 3 && sweeps <= 6) << to_string(mode) << ": " << sweeps;
    // An audit spoils and disturbs. What disturbs alone is a sample that counts: between it and the last time that
    // anything was filled lie a sweep and an operation that does not count.
    bool filled = true, idle = true;
    int counted = 0;
    char before = 0;
    for (const char touch : caches()) {
      if (touch == 'd' && before != 'f' && !filled) {
        EXPECT_FALSE(idle) << to_string(mode) << ": " << caches();
        counted += 1;
      }
      filled = touch == 'f' || (filled && touch != 'l');
      idle = touch == 'l' || (idle && touch != 'o');
      before = touch;
    }
    EXPECT_GE(counted, 12) << to_string(mode);
  }
}

TEST_F(RunnerSimulatedTest, ColdSamplesNeedNoWarmUp) {
  run_in(TimingMode::event_cold);
  // A warm-up would sweep without a span behind it that counts, or ahead of another sweep.
  bool swept = false;
  for (const char touch : caches()) {
    EXPECT_FALSE(swept && touch == 'l') << caches();
    swept = touch == 'l' || (swept && touch != '!');
  }
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

TEST_F(RunnerTest, AProblemWithoutMemoryCostsItsOwnRowsOnly) {
  const Starved starved{1};
  plan({fixture(reference(), family(), "1x1"), fixture(reference(), starved, "5x32"),
        fixture(reference(), family(), "1x3")});
  EXPECT_EQ(run().size(), 6U);
  const auto found = entries("status");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].at("name"), "gelu/reference/5x32/host");
  EXPECT_EQ(found[0].at("status"), "unavailable");
  EXPECT_EQ(found[0].at("code"), "memory");
  EXPECT_EQ(found[0].at("reason"), "the host has no memory for the inputs and the reference of gelu/5x32: 6016 bytes");
  EXPECT_EQ(failures_, 0);
}

TEST_F(RunnerTest, OperandsWithoutMemoryCostTheirOwnRowsOnly) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer ends the process where an allocation fails";
#endif
  const Starved starved{100, true};
  plan({fixture(reference(), starved, "5x32"), fixture(reference(), family(), "1x3")});
  EXPECT_EQ(run().size(), 3U);
  const auto found = entries("status");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].at("code"), "memory");
  EXPECT_TRUE(found[0].at("reason").get<std::string>().starts_with("the host has no memory for the operands of gelu"))
      << found[0].at("reason");
}

TEST_F(RunnerTest, FreshInputsWithoutMemoryCostTheirOwnRowsOnly) {
  const Starved starved{3};  // two for the inputs that take turns
  plan({fixture(reference(), starved, "5x32"), fixture(reference(), family(), "1x3")}, 1);
  EXPECT_EQ(run().size(), 2U);
  expect_status("failed", "the inputs could not be renewed for the closing gate: ");
  EXPECT_EQ(entries("gate").size(), 3U) << "one without a closing gate, and two of the problem after it";
}

TEST_F(RunnerTest, InputsThatCannotBeRenewedInMidRunCostTheirOwnRowsOnly) {
  const Starved starved{3};
  plan({fixture(reference(), starved, "5x32"), fixture(reference(), family(), "1x3")}, 2);
  EXPECT_EQ(run().size(), 3U) << "one round before, and two of the other problem";
  expect_status("failed", "the inputs could not be renewed for round 1: ");
}

TEST_F(RunnerTest, NoTimeStandsWithoutAClosingGate) {
  const Starved starved{3};
  auto first = fixture(reference(), starved, "5x32"), second = first;
  second.name += "_again";
  plan({first, second}, 2);
  std::erase_if(plan_.problems.at(0).steps, [](const Step& step) { return step.fixture == 1 && step.round == 1; });
  EXPECT_EQ(run().size(), 2U);
  const auto found = entries("status");
  ASSERT_EQ(found.size(), 2U) << "also the one that was done when the inputs could not be renewed";
  for (const auto& status : found) EXPECT_EQ(status.at("status"), "failed");
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
}  // namespace mage
