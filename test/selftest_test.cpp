// SPDX-License-Identifier: Apache-2.0
// The self-test's own parts: choosing proofs, outcomes, exit codes, and the operation of known duration.
#include "bench/selftest/selftest.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/selftest/binomial.hpp"
#include "bench/selftest/experiment.hpp"
#include "bench/selftest/spin.hpp"
#include "bench/statistics.hpp"
#include "support/gpu.hpp"
#include "support/simulated_device.hpp"

namespace mage::selftest {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

ProofResult passes(Context&) {
  ProofResult result;
  add_check(result, "one", "1", "1", true);
  add_figure(result, "two", "2");
  result.data = {{"samples", {1.5, 2.5}}};
  return result;
}
ProofResult fails(Context& context) {
  auto result = passes(context);
  add_check(result, "three", "3", "4", false);
  return result;
}
ProofResult throws(Context&) { throw std::runtime_error{"it broke"}; }
ProofResult lacks(Context&) { throw UnavailableError{Unavailable::no_cuda_device, "no device at all"}; }
ProofResult checks_nothing(Context&) { return {}; }
ProofResult loses_the_record(Context&) { throw RecordError{"disk full"}; }
ProofResult is_interrupted(Context& context) {
  interrupt_signal = 2;
  return fails(context);
}

class SelfTestTest : public testing::Test {
 protected:
  ~SelfTestTest() override { interrupt_signal = 0; }
  ProofResult outcome(ProofResult (*run)(Context&)) { return run_proof({"fake", "a claim", run}, context_); }
  Options options_;
  Devices devices_{make_host_device(), nullptr};
  Context context_{options_, devices_, "no CUDA device", 0, [](double) {}};
};

TEST_F(SelfTestTest, OutcomesFollowFromChecksAndExceptions) {
  EXPECT_EQ(outcome(passes).outcome, Outcome::passed);
  EXPECT_EQ(outcome(fails).outcome, Outcome::failed);
  const auto broken = outcome(throws);
  EXPECT_EQ(broken.outcome, Outcome::failed);
  EXPECT_EQ(broken.reason, "it broke");
  const auto missing = outcome(lacks);
  EXPECT_EQ(missing.outcome, Outcome::unavailable);
  EXPECT_EQ(missing.reason, "no device at all");
  EXPECT_EQ(outcome(checks_nothing).outcome, Outcome::failed) << "a proof without a check proves nothing";
  EXPECT_THROW(static_cast<void>(outcome(loses_the_record)), RecordError);
}

TEST_F(SelfTestTest, AnInterruptedProofIsNoFailure) {
  const auto cut = outcome(is_interrupted);
  EXPECT_EQ(cut.outcome, Outcome::skipped);
  EXPECT_EQ(cut.checks.size(), 3U) << "what it has seen is kept";
}

TEST_F(SelfTestTest, WhatDidNotRunDoesNotCount) {
  ProofResult result;
  result.checks.push_back({"a", "b", "c", Outcome::unavailable});
  add_figure(result, "d", "e");
  conclude(result);
  EXPECT_EQ(result.outcome, Outcome::unavailable);
  add_check(result, "f", "g", "g", true);
  conclude(result);
  EXPECT_EQ(result.outcome, Outcome::passed);
}

TEST(SelfTestChoice, NamesAndBeginningsOfNames) {
  const auto all = proofs();
  EXPECT_EQ(choose({}, all).size(), all.size());
  const auto two = choose({"order", "known"}, all);
  ASSERT_EQ(two.size(), 2U);
  EXPECT_STREQ(two[0].name, "known_duration") << "in the order in which they run";
  EXPECT_STREQ(two[1].name, "order");
  EXPECT_EQ(choose({"order", "order"}, all).size(), 1U);
  for (const char* wrong : {"nothing", "s"}) try {
      static_cast<void>(choose({wrong}, all));
      ADD_FAILURE() << wrong;
    } catch (const std::invalid_argument& error) {
      for (const auto& proof : all) EXPECT_NE(std::string{error.what()}.find(proof.name), std::string::npos) << wrong;
    }
}

TEST(SelfTestChoice, ANameThatBeginsAnotherIsMeantItself) {
  const std::vector<Proof> all{{"order_by_time", "", passes}, {"order", "", passes}};
  const auto chosen = choose({"order"}, all);
  ASSERT_EQ(chosen.size(), 1U);
  EXPECT_STREQ(chosen[0].name, "order");
}

TEST(SelfTestTable, ShowsEachCheckOnALineOfItsOwn) {
  EXPECT_EQ(table({{"a longer thing", "1 +- 0.1", "1.05", Outcome::passed}, {"b", "2", "9", Outcome::failed}}),
            "  what           | expected | measured | verdict\n"
            "  a longer thing | 1 +- 0.1 | 1.05     | passed\n"
            "  b              | 2        | 9        | failed\n");
}

// The one call of run() in this process: Google Benchmark allows one.
TEST_F(SelfTestTest, AFailedProofIsExitCodeOneAndStored) {
  std::string pattern = (fs::temp_directory_path() / "mage_selftest_XXXXXX").string();
  const fs::path folder = ::mkdtemp(pattern.data());
  options_.out = (folder / "store.json").string();
  options_.argv = {"mage_bench"};
  const std::vector<Proof> list{{"good", "it is so", passes}, {"bad", "it is not", fails}, {"absent", "who", lacks}};
  Console console{Color::no};
  EXPECT_EQ(run(list, options_, devices_, "no CUDA device", console), exit_code::row_failed);
  const auto store = Json::parse(std::ifstream{options_.out});
  const auto& stored = store.at("mage").at("selftest");
  ASSERT_EQ(stored.size(), 3U);
  EXPECT_EQ(stored[0].at("outcome"), "passed");
  EXPECT_EQ(stored[0].at("data").at("samples"), Json({1.5, 2.5}));
  EXPECT_EQ(stored[1].at("outcome"), "failed");
  EXPECT_EQ(stored[1].at("checks").size(), 3U);
  EXPECT_EQ(stored[1].at("checks")[2],
            Json({{"what", "three"}, {"expected", "3"}, {"measured", "4"}, {"outcome", "failed"}}));
  EXPECT_EQ(stored[2].at("outcome"), "unavailable");
  EXPECT_EQ(stored[2].at("reason"), "no device at all");
  EXPECT_TRUE(store.at("benchmarks").empty());
  EXPECT_EQ(store.at("mage").at("complete"), true);
  fs::remove_all(folder);
}

TEST(Binomial, QuantilesAgreeWithTables) {
  EXPECT_EQ(binomial_quantile(20, 0.5, 0.5), 10);
  EXPECT_EQ(binomial_quantile(20, 0.05, 0.95), 3);  // P(X <= 2) = 0.9245, P(X <= 3) = 0.9841
  EXPECT_EQ(binomial_quantile(1, 0.05, 0.9995), 1);
  EXPECT_EQ(binomial_quantile(0, 0.05, 0.9995), 0);
  // Normal approximation: 5000 + 3.29 x 68.9.
  EXPECT_NEAR(binomial_quantile(100000, 0.05, 0.9995), 5227, 3);
}

double seconds_of(const std::function<void()>& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

TEST_F(SelfTestTest, ASpinOnTheHostTakesItsTime) {
  BoundSpin spin{*devices_.host, 2000};
  EXPECT_NO_THROW(spin.verify());
  const double s = seconds_of([&] { devices_.host->submit(spin.launch()); });
  EXPECT_GE(spin.stamped_us(), 2000);
  EXPECT_GE(s * 1e6, spin.stamped_us()) << "its stamps lie inside the call";
}

TEST_F(SelfTestTest, ASpinPassesTheGateAndAnyOtherOutputDoesNot) {
  SpinFamily spins{*devices_.host, {{"plain"}}};
  Oracle oracle{spins, SpinFamily::problem(1)};
  Case bound{*devices_.host, oracle};
  auto launch = bound.bind(spins.spins()[0]);
  bound.poison();
  EXPECT_FALSE(bound.check().ok) << "nothing was written yet";
  bound.poison();
  devices_.host->submit(launch);
  EXPECT_TRUE(bound.check().ok);
  bound.poison();
  devices_.host->submit(launch);
  bound.pointers().at<float>(1)[3] += 1;
  EXPECT_FALSE(bound.check().ok);
}

TEST_F(SelfTestTest, TooManyVariantsOfTheSpinAreRefused) {
  EXPECT_THROW((SpinFamily{*devices_.host, std::vector<SpinVariant>(SpinFamily::most_variants + 1, {"x"})}),
               std::invalid_argument);
  EXPECT_THROW((SpinFamily{*devices_.host, {}}), std::invalid_argument);
}

TEST_F(SelfTestTest, APlantedSlowdownIsSeenThroughTheWholePath) {
  SpinFamily spins{*devices_.host, {{"base"}, {"half_more", 1.5}}};
  options_.rounds = 10;
  options_.samples = 3;
  const auto plan = make_plan(fixtures_of(spins, spins.spins(), SpinFamily::problem(200), TimingMode::host), options_);
  int steps = 0;
  double share = 0;
  context_.progress = [&](double done) { share = done; };
  const auto experiment = carry_out(context_, options_, plan, {{}, [&](const Step&) { ++steps; }}, 0, 1);
  EXPECT_EQ(steps, 20);
  EXPECT_EQ(share, 1);
  EXPECT_TRUE(experiment.without_time.empty());
  const auto a = benchmark_of(experiment.rows[0], 0, 10);
  const auto b = benchmark_of(experiment.rows[1], 0, 10);
  ASSERT_EQ(a.rounds.size(), 10U);
  EXPECT_EQ(a.name, "spin/base/200us/host");
  EXPECT_EQ(a.inputs_sha256, b.inputs_sha256);
  const auto comparison = compare_paired(a, b, {});
  EXPECT_GT(comparison.ratio, 1.2) << "half as long again, on a machine that may be busy";
  EXPECT_LT(comparison.ratio, 2.0);
  EXPECT_EQ(benchmark_of(experiment.rows[0], 4, 3).rounds.front().round, 4);
  EXPECT_EQ(benchmark_of(experiment.rows[0], 4, 3).rounds.size(), 3U);
  EXPECT_TRUE(benchmark_of(experiment.rows[0], 10, 3).rounds.empty());
}

TEST_F(SelfTestTest, WhatACheckFoundWrongHasNoRows) {
  SpinFamily spins{*devices_.host, {{"plain"}}};
  std::vector<VariantInfo> lazy(spins.spins().begin(), spins.spins().end());
  lazy[0].erased.call_prepare = [](detail::ErasedFunction, const void*, const void*) -> Launch {
    return [](StreamHandle) {};
  };
  options_.rounds = 2;
  const auto plan = make_plan(fixtures_of(spins, lazy, SpinFamily::problem(10), TimingMode::host), options_);
  const auto experiment = carry_out(context_, options_, plan, {}, 0, 1);
  EXPECT_TRUE(experiment.rows[0].empty());
  ASSERT_EQ(experiment.without_time.size(), 1U);
  ProofResult result;
  add_dropouts(result, experiment);
  conclude(result);
  EXPECT_EQ(result.outcome, Outcome::failed);
}

TEST(SelfTestDropouts, OneThatFailedMakesTheCheckFail) {
  const auto entry = [](const char* status, const Json& reason) {
    return Json{{"status", status}, {"reason", reason}};
  };
  const auto outcome_of = [](const std::vector<Json>& entries) {
    Experiment experiment;
    experiment.without_time = entries;
    ProofResult result;
    add_dropouts(result, experiment);
    return result.checks.size() == 1 ? result.checks[0].outcome : Outcome::skipped;
  };
  EXPECT_EQ(outcome_of({entry("failed", "why"), entry("unavailable", "why")}), Outcome::failed);
  EXPECT_EQ(outcome_of({entry("unavailable", "why"), entry("wrong", "why")}), Outcome::failed);
  EXPECT_EQ(outcome_of({entry("unavailable", "why"), entry("unavailable", "why")}), Outcome::unavailable);
  EXPECT_EQ(outcome_of({entry("failed", nullptr)}), Outcome::failed) << "a reason may be missing";
}

TEST(SelfTestClones, DifferByTheirNamesOnly) {
  VariantInfo original;
  original.family = "f";
  original.name = "v";
  original.note = "n";
  const auto list = clones(original, 3);
  ASSERT_EQ(list.size(), 3U);
  EXPECT_EQ(list[2].name, "v_2");
  EXPECT_EQ(list[2].note, "n");
}

/// The proofs on a simulated GPU, where they must hold, and on one with a fault, where they must not.
class SelfTestSimulated : public SelfTestTest {
 protected:
  SelfTestSimulated() {
    auto device = std::make_unique<test::SimulatedDevice>();
    simulated_ = device.get();
    devices_.cuda = std::move(device);
    context_.repeats = 2;
  }
  void expect(Outcome wanted, ProofResult (*proof)(Context&), int at_least_checks) {
    const auto result = outcome(proof);
    EXPECT_EQ(result.outcome, wanted) << result.reason << '\n' << table(result.checks);
    EXPECT_GE(static_cast<int>(result.checks.size()), at_least_checks);
  }
  test::SimulatedDevice* simulated_ = nullptr;
};

// Of the runner, which no other device without hardware goes through: what a stream or an instance of a graph costs
// must not be the same for a whole run.
TEST_F(SelfTestSimulated, EachRoundHasAStreamAndGraphsOfItsOwn) {
  static_cast<void>(outcome(sensitivity));
  const std::set<int> used(simulated_->streams.begin(), simulated_->streams.end());
  EXPECT_EQ(used, (std::set<int>{0, 1, 2}));
  // Two durations, six variants, two trials of twelve rounds, two graphs, and the audit and gates beside.
  EXPECT_GE(simulated_->captures, 2 * 6 * 2 * 12 * 2);
}
TEST_F(SelfTestSimulated, KnownDurationHolds) { expect(Outcome::passed, known_duration, 13); }
TEST_F(SelfTestSimulated, KnownDurationNoticesAClockThatIsFast) {
  simulated_->event_scale = 1.001;
  expect(Outcome::failed, known_duration, 13);
}
TEST_F(SelfTestSimulated, TriangulationHolds) { expect(Outcome::passed, triangulation, 28); }
TEST_F(SelfTestSimulated, TriangulationNoticesATraceThatCountsMore) {
  // In the empty kernel too, so that only the operation's own stamps and the slopes tell.
  simulated_->trace_extra_us = 2;
  expect(Outcome::failed, triangulation, 28);
}
TEST_F(SelfTestSimulated, TriangulationGoesWithoutATrace) {
  simulated_->refuse_trace = Unavailable::cupti_busy;
  expect(Outcome::passed, triangulation, 16);
}
TEST_F(SelfTestSimulated, NullComparisonsHold) { expect(Outcome::passed, null_comparisons, 14); }
TEST_F(SelfTestSimulated, NullComparisonsNoticeThatEqualsDiffer) {
  simulated_->uneven_us = 0.2;
  expect(Outcome::failed, null_comparisons, 14);
}
TEST_F(SelfTestSimulated, SensitivityHolds) { expect(Outcome::passed, sensitivity, 100); }
TEST_F(SelfTestSimulated, SensitivityNoticesADifferenceThatIsLost) {
  simulated_->longest_us = 101;
  expect(Outcome::failed, sensitivity, 100);
}
// Spans of single spins of 20 us and 2 or 5 % more; those of batches and graphs are far longer.
TEST_F(SelfTestSimulated, SensitivityAllowsWhatTheClockOfASpanIsOff) {
  simulated_->span_off_us = [](double us) { return us > 22.9 && us < 30 ? 0.06 : 0; };
  expect(Outcome::passed, sensitivity, 100);
}
TEST_F(SelfTestSimulated, SensitivityNoticesWhatIsMoreThanThat) {
  simulated_->span_off_us = [](double us) { return us > 22.9 && us < 30 ? 0.2 : 0; };
  expect(Outcome::failed, sensitivity, 100);
}
TEST_F(SelfTestSimulated, OrderHolds) { expect(Outcome::passed, order, 6); }
// Behind the first of five experiments, of the longer of two spins.
TEST_F(SelfTestSimulated, OrderAllowsWhatTheClockOfASpanIsOff) {
  context_.progress = [&](double share) {
    if (share > 0.19) simulated_->span_off_us = [](double us) { return us > 103.2 && us < 105 ? 0.08 : 0; };
  };
  expect(Outcome::passed, order, 6);
}
TEST_F(SelfTestSimulated, OrderNoticesThatOrdersAreFurtherApart) {
  context_.progress = [&](double share) {
    if (share > 0.19) simulated_->span_off_us = [](double us) { return us > 103.2 && us < 105 ? 0.4 : 0; };
  };
  expect(Outcome::failed, order, 6);
}
TEST_F(SelfTestSimulated, OrderNoticesADriftThatIsLost) {
  simulated_->longest_us = 101;
  expect(Outcome::failed, order, 6);
}
TEST_F(SelfTestSimulated, OrderStoresWordsThatWereDecided) {
  const auto result = outcome(order);
  ASSERT_EQ(result.data.at("orders").size(), 4U);
  EXPECT_EQ(result.data.at("drift").at("word"), "equivalent");
  for (const auto& entry : result.data.at("orders"))
    EXPECT_NE(entry.at("word") == "inconclusive", entry.at("why") == "") << entry.at("order");
}
TEST_F(SelfTestSimulated, OrderDoesNotTakeAnotherOrderForTheBalancedOne) {
  simulated_->lose_output = true;
  context_.progress = [&](double share) { simulated_->lose_output = share < 0.19; };  // the first of five experiments
  const auto result = outcome(order);
  EXPECT_EQ(result.outcome, Outcome::failed);
  ASSERT_EQ(result.data.at("orders").size(), 3U) << table(result.checks);
  const auto balanced = std::find_if(result.checks.begin(), result.checks.end(),
                                     [](const Check& check) { return check.what == "ratio of +1 %, order balanced"; });
  ASSERT_NE(balanced, result.checks.end());
  EXPECT_EQ(balanced->outcome, Outcome::failed) << balanced->measured;
}
TEST_F(SelfTestSimulated, DetectorsHold) { expect(Outcome::passed, detectors, 5); }
TEST_F(SelfTestSimulated, DetectorsNoticeAFlagThatIsNotRaised) {
  simulated_->enqueue_us = 0.1;  // so that no batch is bound by its launches
  expect(Outcome::failed, detectors, 5);
}

TEST(GpuSelfTest, ASpinOnTheDeviceTakesItsTime) {
  MAGE_NEED_GPU();
  const auto device = make_cuda_device(0);
  BoundSpin spin{*device, 500};
  EXPECT_NO_THROW(spin.verify());
  device->submit(spin.launch());
  EXPECT_GE(spin.stamped_us(), 500);
  EXPECT_LT(spin.stamped_us(), 502);
}

}  // namespace
}  // namespace mage::selftest
