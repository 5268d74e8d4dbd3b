// SPDX-License-Identifier: Apache-2.0
// The exact order of actions of each timing mode, and what it makes of known spans.
#include "bench/samplers.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "test/support/fake_device.hpp"

namespace mage {
namespace {

using test::FakeDevice;
using Actions = std::vector<std::string>;

/// Takes one sample after prepare(), and keeps the sample's own actions only.
struct OneSample {
  OneSample(TimingMode mode, FakeDevice& device, const Hooks& hooks = {})
      : launch{[](StreamHandle) {}}, sampler{make_sampler(mode, device, launch)} {
    sampler->prepare();
    device.actions.clear();
    sampler->open();
    sampler->sample(samples, hooks);
    sampler->close();
  }
  Launch launch;
  std::unique_ptr<Sampler> sampler;
  Samples samples;
};

/// All three, by name.
Hooks hooks(FakeDevice& device, std::uint64_t secret = 0) {
  const auto note = [&device](const char* name) { return [&device, name] { device.actions.emplace_back(name); }; };
  return {.spoil = note("spoil"), .before = note("before"), .after = note("after"), .secret = secret};
}

/// What an audit does after prepare(), with the hooks.
Actions audited(Sampler& sampler, FakeDevice& device, std::uint64_t secret) {
  device.actions.clear();
  sampler.audit(hooks(device, secret));
  return device.actions;
}

TEST(EventSampler, RunsTheOperationUntimedThenBehindADelay) {
  FakeDevice device;
  const OneSample one{TimingMode::event, device};
  EXPECT_EQ(device.actions,
            (Actions{"submit", "delay", "record begin", "submit", "record end", "reached?", "synchronize", "elapsed"}));
  EXPECT_EQ(one.samples.us, std::vector<double>{device.operation_us});
  EXPECT_EQ(one.samples.gate_missed, 0);
}

// Behind the delay: what another stream did meanwhile is undone. Right behind the end: what is not done then is not
// done.
TEST(EventSampler, DisturbsBehindTheDelayAndInspectsBehindTheEnd) {
  FakeDevice device;
  const OneSample one{TimingMode::event, device, hooks(device)};
  EXPECT_EQ(device.actions, (Actions{"spoil", "submit", "delay", "before", "record begin", "submit", "record end",
                                     "reached?", "after", "synchronize", "elapsed"}));
}

TEST(EventSampler, CountsAMissedGateAndKeepsTheSample) {
  FakeDevice device;
  device.begin_reached = true;
  const OneSample one{TimingMode::event, device};
  EXPECT_EQ(one.samples.gate_missed, 1);
  EXPECT_EQ(one.samples.us.size(), 1U);
}

TEST(EventSampler, TheDelayGrowsWithSlowEnqueueing) {
  FakeDevice device;
  device.enqueue_us = 50;
  const OneSample one{TimingMode::event, device};
  EXPECT_DOUBLE_EQ(one.samples.figures.at("delay_us"), 600) << "four times stamp, operation, stamp";
  // Host time hidden: the span is the operation's, not the enqueueing's.
  EXPECT_DOUBLE_EQ(one.samples.us.at(0), device.operation_us);
}

TEST(EventSampler, TheDelayIsAtLeastSixtyMicroseconds) {
  FakeDevice device;
  const OneSample one{TimingMode::event, device};
  EXPECT_DOUBLE_EQ(one.samples.figures.at("delay_us"), 60);
}

TEST(EventColdSampler, TheFlushIsTheGate) {
  FakeDevice device;
  const OneSample one{TimingMode::event_cold, device};
  EXPECT_EQ(device.actions,
            (Actions{"flush", "record begin", "submit", "record end", "reached?", "synchronize", "elapsed"}));
  EXPECT_EQ(one.samples.us, std::vector<double>{device.operation_us});
}

TEST(EventColdSampler, SpoilsBeforeTheFlushAndDisturbsBehindIt) {
  FakeDevice device;
  const OneSample one{TimingMode::event_cold, device, hooks(device)};
  EXPECT_EQ(device.actions, (Actions{"spoil", "flush", "before", "record begin", "submit", "record end", "reached?",
                                     "after", "synchronize", "elapsed"}));
}

TEST(EventColdSampler, CountsAMissedGate) {
  FakeDevice device;
  device.begin_reached = true;
  const OneSample one{TimingMode::event_cold, device};
  EXPECT_EQ(one.samples.gate_missed, 1);
}

TEST(BatchSampler, TakesOneAndTwoBatchesAndReportsTheSlope) {
  FakeDevice device;
  device.operation_us = 65;  // 200 us of them are about 3
  device.stamp_us = 1;
  const OneSample one{TimingMode::batch, device};
  const Actions begin{"delay", "record begin"}, end{"record end", "reached?", "synchronize", "elapsed"};
  Actions wanted{"submit"};
  for (const int operations : {1, 3, 6}) {
    wanted.insert(wanted.end(), begin.begin(), begin.end());
    wanted.insert(wanted.end(), static_cast<std::size_t>(operations), "submit");
    wanted.insert(wanted.end(), end.begin(), end.end());
  }
  EXPECT_EQ(device.actions, wanted);
  EXPECT_DOUBLE_EQ(one.samples.us.at(0), 65);
  EXPECT_DOUBLE_EQ(one.samples.parts.at("span_1_us").at(0), 66);
  EXPECT_DOUBLE_EQ(one.samples.parts.at("span_n_us").at(0), 196);
  EXPECT_DOUBLE_EQ(one.samples.parts.at("span_2n_us").at(0), 391);
  EXPECT_DOUBLE_EQ(one.samples.parts.at("intercept_us").at(0), 1);
  EXPECT_DOUBLE_EQ(one.samples.figures.at("operations_n"), 3);
  EXPECT_EQ(one.samples.launch_bound, 0);
}

TEST(BatchSampler, DisturbsAndInspectsAroundEachBatch) {
  FakeDevice device;
  device.operation_us = 200;
  const OneSample one{TimingMode::batch, device, hooks(device)};
  Actions wanted{"spoil", "submit"};
  for (const int operations : {1, 1, 2}) {
    for (const char* action : {"delay", "before", "record begin"}) wanted.emplace_back(action);
    wanted.insert(wanted.end(), static_cast<std::size_t>(operations), "submit");
    for (const char* action : {"record end", "reached?", "after", "synchronize", "elapsed"})
      wanted.emplace_back(action);
  }
  EXPECT_EQ(device.actions, wanted);
}

TEST(Watched, AreInARowSomewhereInTheBurst) {
  std::set<int> seen;
  for (std::uint64_t secret = 0; secret < 100; ++secret) {
    const Watched watched{20, secret};
    EXPECT_EQ(watched.operations, 20);
    std::vector<int> row;
    for (int i = 0; i < watched.operations; ++i)
      if (watched(i)) row.push_back(i);
    ASSERT_EQ(row.size(), 8U);
    EXPECT_EQ(row.back() - row.front(), 7);
    seen.insert(row.begin(), row.end());
  }
  EXPECT_EQ(seen.size(), 20U) << "none is never looked at";
  const Watched all{1, 12345};
  EXPECT_EQ(all.operations, 4) << "an operation that works on every second call needs some";
  EXPECT_TRUE(all(0) && all(3));
}

TEST(BatchSampler, AnAuditHasTheHooksAroundSomeOperationsOfABurstLikeTheLongerOne) {
  FakeDevice device;
  device.operation_us = 40;
  Launch launch{[](StreamHandle) {}};
  const auto sampler = make_sampler(TimingMode::batch, device, launch);
  sampler->prepare();
  for (const std::uint64_t secret : {0U, 2U}) {
    Actions wanted{"delay"};
    for (std::uint64_t i = 0; i < 10; ++i) {
      const bool watched = i >= secret && i < secret + 8;
      for (const char* action : {"spoil", "before", "submit", "after"})
        if (watched || action == std::string_view{"submit"}) wanted.emplace_back(action);
    }
    wanted.emplace_back("synchronize");
    EXPECT_EQ(audited(*sampler, device, secret), wanted);
  }
}

TEST(BatchSampler, ABatchOfEmptiesIsLaunchBound) {
  FakeDevice device;
  device.operation_us = 0.5;
  device.enqueue_us = 4;
  const OneSample one{TimingMode::batch, device};
  EXPECT_EQ(one.samples.launch_bound, 1);
  EXPECT_DOUBLE_EQ(one.samples.figures.at("operations_n"), 256);
  EXPECT_NEAR(one.samples.us.at(0), 4, 1e-9) << "the slope of a starved stream is the host's launch rate";
}

TEST(BatchSampler, ABatchOfOneThatBeganBeforeItWasEnqueuedIsCountedApart) {
  FakeDevice held, missed;
  missed.begin_reached = true;
  const OneSample right{TimingMode::batch, held}, wrong{TimingMode::batch, missed};
  EXPECT_EQ(right.samples.alone_missed, 0);
  EXPECT_EQ(wrong.samples.alone_missed, 1);
  EXPECT_EQ(wrong.samples.gate_missed, 0) << "it is no figure of the mode";
}

TEST(GraphSampler, EachGroupOfSamplesHasGraphsOfItsOwn) {
  FakeDevice device;
  device.operation_us = 80;
  const OneSample one{TimingMode::graph, device};
  const Actions head{device.actions.begin(), device.actions.begin() + 4};
  EXPECT_EQ(head, (Actions{"capture 1", "capture 5", "replay 1", "replay 5"}));
}

TEST(GraphSampler, ReplaysAGraphOfOneAndAGraphOfMany) {
  FakeDevice device;
  device.operation_us = 80;
  const OneSample one{TimingMode::graph, device};
  const Actions tail{device.actions.begin() + 4, device.actions.end()};
  EXPECT_EQ(tail, (Actions{"replay 1", "delay", "record begin", "replay 1", "record end", "reached?", "synchronize",
                           "elapsed", "delay", "record begin", "replay 5", "record end", "reached?", "synchronize",
                           "elapsed"}));
  EXPECT_DOUBLE_EQ(one.samples.us.at(0), 80);
  EXPECT_DOUBLE_EQ(one.samples.parts.at("replay_latency_us").at(0), 80);
  EXPECT_DOUBLE_EQ(one.samples.parts.at("span_k_us").at(0), 400);
  EXPECT_DOUBLE_EQ(one.samples.parts.at("launch_us").at(0), device.enqueue_us);
  EXPECT_DOUBLE_EQ(one.samples.figures.at("operations_k"), 5);
  EXPECT_DOUBLE_EQ(one.samples.figures.at("instantiate_us"), 77);
}

TEST(GraphSampler, DisturbsAndInspectsAroundBothGraphs) {
  FakeDevice device;
  device.operation_us = 80;
  const OneSample one{TimingMode::graph, device, hooks(device)};
  const Actions tail{device.actions.begin() + 4, device.actions.end()};
  Actions wanted{"spoil", "replay 1"};
  for (const char* replay : {"replay 1", "replay 5"})
    for (const char* action :
         {"delay", "before", "record begin", replay, "record end", "reached?", "after", "synchronize", "elapsed"})
      wanted.emplace_back(action);
  EXPECT_EQ(tail, wanted);
}

TEST(GraphSampler, AnAuditIsALongGraphWithTheHooksAroundSomeOperations) {
  FakeDevice device;
  device.operation_us = 80;
  Launch launch{[&device](StreamHandle) { device.actions.emplace_back("operation"); }};
  const auto sampler = make_sampler(TimingMode::graph, device, launch);
  sampler->prepare();
  // What this device is given to capture is called once, to see what is in it.
  device.on_capture = [](Launch& captured) { captured(StreamHandle{}); };
  const Actions audit{"capture 5", "spoil", "before", "operation", "after", "replay 5", "synchronize"};
  sampler->open();
  EXPECT_EQ(audited(*sampler, device, 0), audit) << "before the graphs that are timed";
  sampler->open();
  Actions behind{"capture 1", "operation", "capture 5", "operation", "replay 1", "replay 5"};
  behind.insert(behind.end(), audit.begin(), audit.end());
  EXPECT_EQ(audited(*sampler, device, std::uint64_t{1} << 63U), behind) << "and behind them";
}

TEST(GraphSampler, RefusesOtherKernelsInALongerGraph) {
  FakeDevice device;
  device.odd_node = "another kernel";
  Launch launch{[](StreamHandle) {}};
  const auto sampler = make_sampler(TimingMode::graph, device, launch);
  EXPECT_THROW(sampler->prepare(), WrongError);
}

TEST(GraphSampler, RefusesAnEmptyGraph) {
  FakeDevice device;
  device.kernels_per_operation = 0;
  Launch launch{[](StreamHandle) {}};
  const auto sampler = make_sampler(TimingMode::graph, device, launch);
  EXPECT_THROW(sampler->prepare(), WrongError);
}

TEST(GraphSampler, RefusesAnOperationThatSkipsWork) {
  FakeDevice device;
  device.nodes_missing = 3;
  Launch launch{[](StreamHandle) {}};
  const auto sampler = make_sampler(TimingMode::graph, device, launch);
  EXPECT_THROW(sampler->prepare(), WrongError);
}

TEST(GraphSampler, SaysThatACaptureIsIllegal) {
  FakeDevice device;
  device.refuse_capture = Unavailable::capture_illegal;
  Launch launch{[](StreamHandle) {}};
  const auto sampler = make_sampler(TimingMode::graph, device, launch);
  try {
    sampler->prepare();
    FAIL() << "prepare() must throw";
  } catch (const UnavailableError& error) {
    EXPECT_EQ(error.reason(), Unavailable::capture_illegal);
  }
}

TEST(HostSampler, NoGateNoStamps) {
  FakeDevice device;
  const OneSample one{TimingMode::host, device};
  EXPECT_EQ(device.actions, (Actions{"synchronize", "submit", "synchronize"}));
  EXPECT_DOUBLE_EQ(one.samples.us.at(0), device.enqueue_us + device.operation_us);
  EXPECT_DOUBLE_EQ(one.samples.parts.at("submit_us").at(0), device.enqueue_us);
}

TEST(HostSampler, WaitsForWhatIsBeforeTheClockStarts) {
  FakeDevice device;
  const OneSample one{TimingMode::host, device, hooks(device)};
  EXPECT_EQ(device.actions, (Actions{"spoil", "before", "synchronize", "submit", "synchronize", "after"}));
}

// The untimed operation has a mark of its own: a kernel without any is nobody's.
TEST(KernelSampler, MarksTheTimedOperation) {
  FakeDevice device;
  const OneSample one{TimingMode::kernel, device};
  const Actions tail{device.actions.end() - 14, device.actions.end()};
  EXPECT_EQ(tail,
            (Actions{"trace start", "mark 4611686018427387904", "submit", "mark 0", "delay", "record begin", "mark 1",
                     "submit", "mark 0", "record end", "reached?", "synchronize", "elapsed", "trace stop"}));
  EXPECT_EQ(one.samples.us, std::vector<double>{device.operation_us});
  EXPECT_EQ(one.samples.kernels, std::vector<std::string>{"kernel_0"});
  EXPECT_FALSE(one.samples.perturbed);
}

TEST(KernelSampler, AKernelThatOutlastsItsUntracedSpanIsPerturbed) {
  FakeDevice device;
  device.record_extra_us = 0.1;
  const OneSample one{TimingMode::kernel, device};
  EXPECT_TRUE(one.samples.perturbed);
}

TEST(KernelSampler, SumsTheKernelsOfAnOperationAndKeepsEach) {
  FakeDevice device;
  device.kernels_per_operation = 2;
  device.stamp_us = 0.5;
  const OneSample one{TimingMode::kernel, device};
  EXPECT_DOUBLE_EQ(one.samples.us.at(0), 10);
  EXPECT_DOUBLE_EQ(one.samples.parts.at("kernel_0_us").at(0), 5);
  EXPECT_DOUBLE_EQ(one.samples.parts.at("kernel_1_us").at(0), 5);
  EXPECT_DOUBLE_EQ(one.samples.parts.at("gap_us").at(0), 0.5);
  EXPECT_EQ(one.samples.kernels, (std::vector<std::string>{"kernel_0", "kernel_1"}));
}

TEST(KernelSampler, SaysWhenTheTracerSlowsTheSpan) {
  FakeDevice device;
  device.traced_extra_us = 1;
  const OneSample one{TimingMode::kernel, device};
  EXPECT_TRUE(one.samples.perturbed);
}

TEST(KernelSampler, NoRecordIsAnErrorNotAZero) {
  FakeDevice device;
  device.drop_records = true;
  Launch launch{[](StreamHandle) {}};
  const auto sampler = make_sampler(TimingMode::kernel, device, launch);
  sampler->prepare();
  sampler->open();
  Samples samples;
  sampler->sample(samples);
  EXPECT_THROW(sampler->close(), std::runtime_error);
  EXPECT_TRUE(samples.us.empty());
}

TEST(KernelSampler, ABusyTracerIsUnavailable) {
  FakeDevice device;
  device.refuse_trace = Unavailable::cupti_busy;
  Launch launch{[](StreamHandle) {}};
  const auto sampler = make_sampler(TimingMode::kernel, device, launch);
  try {
    sampler->prepare();
    FAIL() << "prepare() must throw";
  } catch (const UnavailableError& error) {
    EXPECT_EQ(error.reason(), Unavailable::cupti_busy);
  }
}

TEST(KernelSampler, DiscardedSamplesDoNotReachTheKeptOnes) {
  FakeDevice device;
  Launch launch{[](StreamHandle) {}};
  const auto sampler = make_sampler(TimingMode::kernel, device, launch);
  sampler->prepare();
  sampler->open();
  Samples kept;
  Samples discarded;
  sampler->sample(kept);
  device.operation_us = 99;
  sampler->sample(discarded);
  device.operation_us = 10;
  sampler->sample(kept);
  sampler->close();
  EXPECT_EQ(kept.us, (std::vector<double>{10, 10}));
  EXPECT_EQ(discarded.us, std::vector<double>{99});
}

TEST(Samplers, EveryModeHasOneAndItsOwnNumberOfSamples) {
  FakeDevice device;
  Launch launch{[](StreamHandle) {}};
  for (const auto mode : all_modes) {
    EXPECT_NE(make_sampler(mode, device, launch), nullptr) << to_string(mode);
    EXPECT_GE(default_samples(mode), 16) << to_string(mode);
  }
}

}  // namespace
}  // namespace mage
