// SPDX-License-Identifier: Apache-2.0
// Proofs of the self-test, each shown to fail where what it looks at is broken.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/child_process.hpp"
#include "bench/selftest/failures.hpp"
#include "bench/selftest/proof.hpp"
#include "bench/selftest/selftest.hpp"
#include "bench/selftest/subject.hpp"
#include "bench/store.hpp"
#include "test/support/fake_device.hpp"
#include "test/support/gpu.hpp"

namespace mage::selftest {
namespace {

std::string in_words(const ProofResult& result) {
  std::string text = std::string{to_string(result.outcome)} + " " + result.reason + "\n";
  for (const auto& check : result.checks)
    text += std::string{to_string(check.outcome)} + ": " + check.what + " | " + check.expected + " | " +
            check.measured + "\n";
  return text;
}

/// Everything a proof works with, and no GPU.
class ProofTest : public testing::Test {
 protected:
  ProofTest() {
    options_.argv = {"mage_bench"};
    devices_.host = make_host_device();
  }
  ~ProofTest() override { interrupt_signal = 0; }
  ProofTest(const ProofTest&) = delete;
  ProofTest& operator=(const ProofTest&) = delete;

  Context& context() { return context_; }
  static ProofResult run(ProofResult (*proof)(Context&), Context& context) {
    return run_proof({"tested", "a claim", proof}, context);
  }
  ProofResult run(ProofResult (*proof)(Context&)) { return run(proof, context_); }
  [[nodiscard]] static const Check* find(const ProofResult& result, const std::string& what) {
    const auto found = std::find_if(result.checks.begin(), result.checks.end(),
                                    [&](const Check& check) { return check.what.find(what) != std::string::npos; });
    return found == result.checks.end() ? nullptr : &*found;
  }
  static void expect(const ProofResult& result, const std::string& what, Outcome outcome) {
    const auto* check = find(result, what);
    ASSERT_NE(check, nullptr) << what << "\n" << in_words(result);
    EXPECT_EQ(to_string(check->outcome), to_string(outcome)) << what << "\n" << in_words(result);
  }

  Options options_;
  Devices devices_;
  Context context_{options_, devices_, "no GPU in this test", 0, [](double) {}};
};

// ---- cache_policy, against a made-up cache

/// L2 as the proof knows it: one buffer in it, dirty bytes, a carve-out, lines to keep. Faults on request.
class CachedDevice final : public test::FakeDevice, private CacheExperiments {
 public:
  bool sweep_leaves_dirty = false, sweep_leaves_cached = false, reset_does_nothing = false;
  bool persist_refuses = false, persist_breaks = false;
  bool carve_out_survives = true, marks_count = true;
  std::size_t carve_out_bytes = 40U << 20U;
  double write_gbytes_per_s = 9000;

  CachedDevice() {
    info_.l2_bytes = 60U << 20U;
    info_.peak_gbytes_per_s = 4800;
  }

  [[nodiscard]] void* allocate(std::size_t) override { return &blocks_.at(allocated_++); }
  void fill(void* to, std::uint32_t, std::size_t) override {
    operate("fill", 1);
    kept_ = to;
  }
  [[nodiscard]] std::unique_ptr<Graph> capture(Launch& launch, int operations) override {
    captured_ = &launch;
    return FakeDevice::capture(launch, operations);
  }
  void replay(Graph& graph) override {
    for (int i = 0; i < static_cast<FakeGraph&>(graph).operations; ++i) (*captured_)(StreamHandle{});
  }
  void flush_l2() override {
    operate("flush", 90);
    if (!sweep_leaves_cached) cached_ = kept_ = nullptr;
    if (!carve_out_survives) persisting_ = nullptr;
    dirty_ = sweep_leaves_dirty ? info_.l2_bytes : 0;
  }
  void reset_persisting_l2() override {
    if (reset_does_nothing) return;
    window_ = persisting_ = nullptr;
  }
  [[nodiscard]] CacheExperiments* cache_experiments() override { return this; }
  [[nodiscard]] bool has_carve_out() const { return window_ != nullptr; }

 private:
  void dirty_flush(DirtyFlush) override {
    operate("dirty flush", 30);
    cached_ = nullptr;
    dirty_ = info_.l2_bytes;
  }
  void copy(void* to, const void*, std::size_t bytes) override {
    const auto written_back = std::min(dirty_, bytes);
    operate("copy", microseconds(2 * bytes, 4000) + microseconds(written_back, 12000));
    cached_ = to;
    dirty_ = std::min(info_.l2_bytes, bytes);
  }
  void read(const void* from, std::size_t bytes) override {
    operate("read", microseconds(bytes, from == cached_ || from == persisting_ ? 7500 : 4000));
    cached_ = from;
    if (from == window_) persisting_ = from;
  }
  void marked_copy(void* to, const void*, std::size_t bytes) override {
    operate("marked copy", microseconds(2 * bytes, to == kept_ && marks_count ? 6000 : 4000));
  }
  void write(void*, std::size_t bytes) override { operate("write", microseconds(bytes, write_gbytes_per_s)); }
  [[nodiscard]] std::size_t persist(void* pointer, std::size_t) override {
    if (persist_refuses) throw UnavailableError{Unavailable::arch, "not here"};
    if (persist_breaks) throw std::runtime_error{"it broke"};
    if (carve_out_bytes > 0) window_ = pointer;
    return carve_out_bytes;
  }

  static double microseconds(std::size_t bytes, double gbytes_per_s) {
    return 2 + static_cast<double>(bytes) / gbytes_per_s / 1e3;
  }
  void operate(const char* name, double us) { enqueue(name, us); }

  std::array<int, 16> blocks_{};  // their addresses are all that counts
  std::size_t allocated_ = 0;
  const void* cached_ = nullptr;
  const void* kept_ = nullptr;
  Launch* captured_ = nullptr;
  const void* persisting_ = nullptr;
  const void* window_ = nullptr;
  std::size_t dirty_ = 0;
};

class SelftestCachePolicy : public ProofTest {
 protected:
  SelftestCachePolicy() {
    auto device = std::make_unique<CachedDevice>();
    device_ = device.get();
    device_->enqueue_us = 1;
    devices_.cuda = std::move(device);
  }
  CachedDevice* device_;
};

constexpr const char* reads = "a read of half of L2";
constexpr const char* survives = "with a persisting carve-out left on";
constexpr const char* given_back = "once it was given back";
constexpr const char* kept = "by marked accesses after a fill";
constexpr const char* warmed_up = "after a fill and a round's warm-up";

TEST_F(SelftestCachePolicy, HoldsOnACacheThatBehaves) {
  const auto result = run(cache_policy);
  EXPECT_EQ(result.outcome, Outcome::passed) << in_words(result);
  expect(result, "a copy of 1 MiB behind a memset", Outcome::skipped);
  for (const char* what :
       {"a copy of 8 MiB behind a memset", "a copy of 64 MiB behind a write sweep", reads, survives, given_back, kept,
        warmed_up, "a write smaller than L2 beats", "made up: 1 % above", "made up: 1 % below"})
    expect(result, what, Outcome::passed);
  EXPECT_NE(find(result, "hit rates")->measured.find("tools/ncu_check.py"), std::string::npos);
  ASSERT_EQ(result.data.at("dirty_lines").size(), 4U);
  for (const auto& size : result.data.at("dirty_lines"))
    for (const char* way : {"memset_us", "write_sweep_us", "write_read_sweep_us"}) EXPECT_GE(size.at(way).size(), 15U);
  EXPECT_FALSE(device_->has_carve_out()) << "the proof must leave L2 as it found it";
  const auto samples = result.data.at("marked_accesses").at("alone_us").size();
  EXPECT_EQ(std::count(device_->actions.begin(), device_->actions.end(), "fill"), 3 + 4 * samples)
      << "one for each other part; both buffers, with and without a warm-up behind";
}

TEST_F(SelftestCachePolicy, ASweepThatLeavesDirtyLinesFails) {
  device_->sweep_leaves_dirty = true;
  const auto result = run(cache_policy);
  EXPECT_EQ(result.outcome, Outcome::failed);
  expect(result, "a copy of 16 MiB behind a write sweep", Outcome::failed);
}

TEST_F(SelftestCachePolicy, ASweepThatLeavesTheInputInCacheFails) {
  device_->sweep_leaves_cached = true;
  const auto result = run(cache_policy);
  EXPECT_EQ(result.outcome, Outcome::failed);
  expect(result, reads, Outcome::failed);
  expect(result, kept, Outcome::passed);
  expect(result, warmed_up, Outcome::failed);
}

TEST_F(SelftestCachePolicy, ADeviceOnWhichMarksDoNothingSaysSo) {
  device_->marks_count = false;
  const auto result = run(cache_policy);
  EXPECT_EQ(result.outcome, Outcome::passed) << in_words(result);
  expect(result, kept, Outcome::skipped);
  EXPECT_NE(find(result, kept)->measured.find("no effect"), std::string::npos);
  expect(result, warmed_up, Outcome::skipped);
}

TEST_F(SelftestCachePolicy, ACarveOutThatIsNotGivenBackFails) {
  device_->reset_does_nothing = true;
  const auto result = run(cache_policy);
  EXPECT_EQ(result.outcome, Outcome::failed);
  expect(result, survives, Outcome::passed);
  expect(result, given_back, Outcome::failed);
}

TEST_F(SelftestCachePolicy, ADeviceOnWhichACarveOutDoesNothingSaysSo) {
  device_->carve_out_survives = false;
  auto result = run(cache_policy);
  EXPECT_EQ(result.outcome, Outcome::passed) << in_words(result);
  expect(result, survives, Outcome::skipped);
  EXPECT_NE(find(result, survives)->measured.find("no effect"), std::string::npos);
  expect(result, given_back, Outcome::passed);

  device_->carve_out_bytes = 0;
  result = run(cache_policy);
  EXPECT_EQ(result.outcome, Outcome::passed) << in_words(result);
  expect(result, "a persisting carve-out of L2", Outcome::unavailable);
}

TEST_F(SelftestCachePolicy, ACarveOutThatIsRefusedIsUnavailableAndOneThatBreaksIsNot) {
  device_->persist_refuses = true;
  auto result = run(cache_policy);
  EXPECT_EQ(result.outcome, Outcome::passed) << in_words(result);
  expect(result, "a persisting carve-out of L2", Outcome::unavailable);

  device_->persist_refuses = false;
  device_->persist_breaks = true;
  result = run(cache_policy);
  EXPECT_EQ(result.outcome, Outcome::failed) << in_words(result);
  EXPECT_EQ(result.reason, "it broke");
}

TEST_F(SelftestCachePolicy, AWriteThatIsSlowerThanMemoryHasNoFlag) {
  device_->write_gbytes_per_s = 3000;
  const auto result = run(cache_policy);
  EXPECT_EQ(result.outcome, Outcome::passed) << in_words(result);
  expect(result, "a write smaller than L2 beats", Outcome::skipped);
  EXPECT_EQ(find(result, "a write of 30 MiB")->measured, "no flag");
}

TEST_F(SelftestCachePolicy, GatesThatDoNotHoldFail) {
  device_->begin_reached = true;
  const auto result = run(cache_policy);
  EXPECT_EQ(result.outcome, Outcome::failed);
  expect(result, "before it was wholly enqueued", Outcome::failed);
}

TEST_F(SelftestCachePolicy, IsUnavailableWithoutAGpuOrACache) {
  devices_.cuda = std::make_unique<test::FakeDevice>();
  EXPECT_EQ(run(cache_policy).outcome, Outcome::unavailable);
  devices_.cuda = nullptr;
  const auto result = run(cache_policy);
  EXPECT_EQ(result.outcome, Outcome::unavailable);
  EXPECT_EQ(result.reason, "no GPU in this test");
}

TEST_F(SelftestCachePolicy, AnInterruptEndsItSoon) {
  interrupt_signal = SIGINT;
  EXPECT_LE(run(cache_policy).checks.size(), 1U);
}

// ---- failures

using SelftestFailures = ProofTest;

ProofResult failures_of_program(Context& context) { return failures_of(context, MAGE_BENCH_EXECUTABLE); }

TEST_F(SelftestFailures, EveryFaultEndsAsItShould) {
  const auto result = run(failures_of_program);
  EXPECT_EQ(result.outcome, Outcome::passed) << in_words(result);
  for (const char* what : {"writes nothing", "that throws", "every second call", "stops working", "matches nothing",
                           "does not exist", "its store", "a second run to the same store", "a run that is killed",
                           "recovering its journal", "the recovered store"})
    expect(result, what, Outcome::passed);
  expect(result, "cannot be captured", Outcome::unavailable);
  expect(result, "an address that is not the operation's", Outcome::skipped);
  EXPECT_EQ(result.data.at("planted").size(), 4U);
}

TEST_F(SelftestFailures, AProgramThatAlwaysSucceedsFails) {
  const auto result = run([](Context& context) { return failures_of(context, "/bin/true"); });
  EXPECT_EQ(result.outcome, Outcome::failed);
  for (const char* what : {"matches nothing", "does not exist", "its store", "a run that is killed"})
    expect(result, what, Outcome::failed);
}

// The program itself, but its journal is gone as soon as it is: a link through /proc, to a folder of its own.
TEST_F(SelftestFailures, AJournalThatIsLostWithTheProgramFails) {
  static const TemporaryFolder folder;  // a proof is a plain function
  static const auto program = folder.path() / "program";
  std::ofstream{program} << fmt::format(
      R"(#!/bin/sh
case "$*" in *--mage_rounds=500*)
  for flag; do
    shift
    case $flag in --benchmark_out=*) out=${{flag#*=}}; flag=--benchmark_out=own.json;; esac
    set -- "$@" "$flag"
  done
  cd '{0}' && ln -s /proc/$$/cwd/own.json{1} "$out{1}"
esac
exec '{2}' "$@"
)",
      folder.path().string(), journal_path(""), MAGE_BENCH_EXECUTABLE);
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  const auto result = run([](Context& context) { return failures_of(context, program); });
  EXPECT_EQ(result.outcome, Outcome::failed) << in_words(result);
  for (const char* what : {"a run of one benchmark", "a second run to the same store"})
    expect(result, what, Outcome::passed);
  for (const char* what : {"a run that is killed", "recovering its journal"}) expect(result, what, Outcome::failed);
  EXPECT_EQ(find(result, "a run that is killed")->measured, "0 rows, signal 9");
}

TEST_F(SelftestFailures, AProgramThatIsNotThereIsNamed) {
  try {
    static_cast<void>(failures_of(context(), "/nowhere/mage_bench"));
    FAIL() << "must throw";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string{error.what()}.find("/nowhere/mage_bench"), std::string::npos) << error.what();
  }
}

// ---- provenance and statistics_coverage

using SelftestProvenance = ProofTest;

TEST_F(SelftestProvenance, EveryByteCounts) {
  std::filesystem::current_path(MAGE_SOURCE_DIR);  // wherever the build folder is
  const auto result = run(provenance);
  EXPECT_EQ(result.outcome, Outcome::passed) << in_words(result);
  for (const char* what : {"an input of which one bit was changed", "that a run records", "that its rows carry",
                           "differ in a byte, paired", "differ in a byte, unpaired", "had the same inputs, unpaired",
                           "whose bytes have the hash of the build", "a source of which one bit was changed",
                           "a copy of the program", "that copy with one bit changed"})
    expect(result, what, Outcome::passed);
}

using SelftestStatistics = ProofTest;

TEST_F(SelftestStatistics, IntervalsAndWordsAreRightAsOftenAsTheySay) {
  const auto result = run(statistics_coverage);
  EXPECT_EQ(result.outcome, Outcome::passed) << in_words(result);
  EXPECT_GE(result.checks.size(), 20U);
  EXPECT_EQ(result.data.at("experiments"), 2000);
}

TEST_F(SelftestStatistics, TheSameSeedsGiveTheSameFigures) {
  Context few{options_, devices_, "", 100, [](double) {}};
  const auto first = run(statistics_coverage, few);
  EXPECT_EQ(first.outcome, Outcome::passed) << in_words(first);
  EXPECT_EQ(first.data, run(statistics_coverage, few).data);
  EXPECT_EQ(first.data.at("experiments"), 100);
}

// ---- helpers

TEST(SelftestSubject, AFilterMatchesItsNameAlone) {
  const std::string name = "a/v0.1/x+y(1)/host";
  EXPECT_TRUE(matches(filter_of(name), name));
  EXPECT_FALSE(matches(filter_of(name), "a/v0.1/x+y(1)/host2"));
  EXPECT_FALSE(matches(filter_of(name), "a/v0x1/x+y(1)/host"));
}

TEST(SelftestChild, IsKilledWithItsOwner) {
  const TemporaryFolder folder;
  const auto log = folder.path() / "log";
  ChildProcess sleeps{"/bin/sleep", {"60"}, log};
  sleeps.kill();
  EXPECT_EQ(sleeps.wait(), -SIGKILL);
  EXPECT_EQ((ChildProcess{"/bin/sleep", {"60"}, log}.wait(0.05)), -SIGKILL);
  EXPECT_EQ((ChildProcess{"/bin/sh", {"-c", "exit $MAGE_SELFTEST_CODE"}, log, {{"MAGE_SELFTEST_CODE", "7"}}}.wait()),
            7);
}

// ---- on a GPU

class GpuSelftestProofs : public ProofTest {
 protected:
  void SetUp() override {
    MAGE_NEED_GPU();
    devices_.cuda = make_cuda_device(0);
  }
};

TEST_F(GpuSelftestProofs, CachePolicyHolds) {
  const auto result = run(cache_policy);
  EXPECT_EQ(result.outcome, Outcome::passed) << in_words(result);
  for (const char* what : {reads, "before it was wholly enqueued", "made up: 1 % above"})
    expect(result, what, Outcome::passed);
}

TEST_F(GpuSelftestProofs, FailuresHold) {
  const auto result = run(failures_of_program);
  EXPECT_EQ(result.outcome, Outcome::passed) << in_words(result);
  for (const char* what : {"cannot be captured", "mode kernel without CUPTI", "the GPU's state without NVML"})
    expect(result, what, Outcome::passed);
}

}  // namespace
}  // namespace mage::selftest
