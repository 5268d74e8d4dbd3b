// SPDX-License-Identifier: Apache-2.0
// The exact order of actions of each timing mode, and what it makes of known spans.
#include "bench/samplers.hpp"

#include <gtest/gtest.h>

#include <algorithm>

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

Hooks poison(FakeDevice& device) {
  return {.speckle = {}, .poison = [&device] { device.actions.emplace_back("poison"); }};
}
Hooks speckle(FakeDevice& device) {
  return {.speckle = [&device] { device.actions.emplace_back("speckle"); }, .poison = {}};
}

TEST(EventSampler, RunsTheOperationUntimedThenBehindADelay) {
  FakeDevice device;
  const OneSample one{TimingMode::event, device};
  EXPECT_EQ(device.actions,
            (Actions{"submit", "delay", "record begin", "submit", "record end", "reached?", "synchronize", "elapsed"}));
  EXPECT_EQ(one.samples.us, std::vector<double>{device.operation_us});
  EXPECT_EQ(one.samples.gate_missed, 0);
}

TEST(EventSampler, PoisonsBetweenTheUntimedAndTheTimedOperation) {
  FakeDevice device;
  const OneSample one{TimingMode::event, device, poison(device)};
  EXPECT_EQ(device.actions, (Actions{"submit", "poison", "delay", "record begin", "submit", "record end", "reached?",
                                     "synchronize", "elapsed"}));
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
            (Actions{"submit", "flush", "record begin", "submit", "record end", "reached?", "synchronize", "elapsed"}));
  EXPECT_EQ(one.samples.us, std::vector<double>{device.operation_us});
}

TEST(EventColdSampler, PoisonsBeforeTheFlush) {
  FakeDevice device;
  const OneSample one{TimingMode::event_cold, device, poison(device)};
  EXPECT_EQ(device.actions[1], "poison");
  EXPECT_EQ(device.actions[2], "flush");
}

TEST(EventColdSampler, CountsAMissedGate) {
  FakeDevice device;
  device.begin_reached = true;
  const OneSample one{TimingMode::event_cold, device};
  EXPECT_EQ(one.samples.gate_missed, 1);
}

TEST(BatchSampler, TakesOneAndTwoBatchesAndReportsTheSlope) {
  FakeDevice device;
  device.operation_us = 130;  // 400 us of them are about 3
  device.stamp_us = 1;
  const OneSample one{TimingMode::batch, device};
  EXPECT_EQ(device.actions, (Actions{"submit",     "delay",    "record begin", "submit",  "submit", "submit",
                                     "record end", "reached?", "synchronize",  "elapsed", "delay",  "record begin",
                                     "submit",     "submit",   "submit",       "submit",  "submit", "submit",
                                     "record end", "reached?", "synchronize",  "elapsed"}));
  EXPECT_DOUBLE_EQ(one.samples.us.at(0), 130);
  EXPECT_DOUBLE_EQ(one.samples.parts.at("span_n_us").at(0), 391);
  EXPECT_DOUBLE_EQ(one.samples.parts.at("span_2n_us").at(0), 781);
  EXPECT_DOUBLE_EQ(one.samples.parts.at("intercept_us").at(0), 1);
  EXPECT_DOUBLE_EQ(one.samples.figures.at("operations_n"), 3);
  EXPECT_EQ(one.samples.launch_bound, 0);
}

TEST(BatchSampler, PoisonsBeforeTheLastOperation) {
  FakeDevice device;
  device.operation_us = 400;
  const OneSample one{TimingMode::batch, device, poison(device)};
  EXPECT_EQ(device.actions, (Actions{"submit", "delay", "record begin", "submit", "record end", "reached?",
                                     "synchronize", "elapsed", "delay", "record begin", "submit", "poison", "submit",
                                     "record end", "reached?", "synchronize", "elapsed"}));
}

TEST(BatchSampler, SpecklesBeforeBothBatchesAndOutsideThem) {
  FakeDevice device;
  device.operation_us = 400;
  const OneSample one{TimingMode::batch, device, speckle(device)};
  EXPECT_EQ(device.actions, (Actions{"submit", "speckle", "delay", "record begin", "submit", "record end", "reached?",
                                     "synchronize", "elapsed", "speckle", "delay", "record begin", "submit", "submit",
                                     "record end", "reached?", "synchronize", "elapsed"}));
}

TEST(BatchSampler, ASecondAuditStopsOneCallEarlier) {
  FakeDevice device;
  device.operation_us = 130;
  Launch launch{[](StreamHandle) {}};
  const auto sampler = make_sampler(TimingMode::batch, device, launch);
  sampler->prepare();
  std::vector<std::ptrdiff_t> submits;
  for (int audit = 0; audit < 2; ++audit) {
    device.actions.clear();
    Samples samples;
    sampler->sample(samples, poison(device));
    submits.push_back(std::count(device.actions.begin(), device.actions.end(), "submit"));
  }
  EXPECT_EQ(submits, (std::vector<std::ptrdiff_t>{1 + 3 + 6, 1 + 3 + 5}));
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

TEST(GraphSampler, EachGroupOfSamplesHasInstancesOfItsOwn) {
  FakeDevice device;
  device.operation_us = 200;
  const OneSample one{TimingMode::graph, device};
  const Actions head{device.actions.begin(), device.actions.begin() + 4};
  EXPECT_EQ(head, (Actions{"renew 1", "replay 1", "renew 5", "replay 5"}));
}

TEST(GraphSampler, ReplaysAGraphOfOneAndAGraphOfMany) {
  FakeDevice device;
  device.operation_us = 200;
  const OneSample one{TimingMode::graph, device};
  const Actions tail{device.actions.begin() + 4, device.actions.end()};
  EXPECT_EQ(tail, (Actions{"replay 1", "delay", "record begin", "replay 1", "record end", "reached?", "synchronize",
                           "elapsed", "delay", "record begin", "replay 5", "record end", "reached?", "synchronize",
                           "elapsed"}));
  EXPECT_DOUBLE_EQ(one.samples.us.at(0), 200);
  EXPECT_DOUBLE_EQ(one.samples.parts.at("replay_latency_us").at(0), 200);
  EXPECT_DOUBLE_EQ(one.samples.parts.at("span_k_us").at(0), 1000);
  EXPECT_DOUBLE_EQ(one.samples.parts.at("launch_us").at(0), device.enqueue_us);
  EXPECT_DOUBLE_EQ(one.samples.figures.at("operations_k"), 5);
  EXPECT_DOUBLE_EQ(one.samples.figures.at("instantiate_us"), 77);
}

TEST(GraphSampler, PoisonsBeforeTheLastReplay) {
  FakeDevice device;
  device.operation_us = 200;
  const OneSample one{TimingMode::graph, device, poison(device)};
  const Actions tail{device.actions.begin() + 12, device.actions.begin() + 16};
  EXPECT_EQ(tail, (Actions{"poison", "delay", "record begin", "replay 5"}));
}

TEST(GraphSampler, ASecondAuditChecksTheGraphOfOne) {
  FakeDevice device;
  device.operation_us = 200;
  Launch launch{[](StreamHandle) {}};
  const auto sampler = make_sampler(TimingMode::graph, device, launch);
  sampler->prepare();
  Samples samples;
  sampler->sample(samples, poison(device));
  device.actions.clear();
  sampler->sample(samples, poison(device));
  const auto poisoned = std::find(device.actions.begin(), device.actions.end(), "poison");
  const Actions tail{poisoned, poisoned + 4};
  EXPECT_EQ(tail, (Actions{"poison", "delay", "record begin", "replay 1"}));
}

TEST(GraphSampler, SpecklesBeforeBothGraphs) {
  FakeDevice device;
  device.operation_us = 200;
  const OneSample one{TimingMode::graph, device, speckle(device)};
  EXPECT_EQ(std::count(device.actions.begin(), device.actions.end(), "speckle"), 2);
  EXPECT_EQ(device.actions[5], "speckle");
  EXPECT_EQ(device.actions[13], "speckle");
}

TEST(GraphSampler, RefusesAnEmptyGraph) {
  FakeDevice device;
  device.kernels_per_operation = 0;
  Launch launch{[](StreamHandle) {}};
  const auto sampler = make_sampler(TimingMode::graph, device, launch);
  EXPECT_THROW(sampler->prepare(), std::runtime_error);
}

TEST(GraphSampler, RefusesAnOperationThatSkipsWork) {
  FakeDevice device;
  device.nodes_missing = 3;
  Launch launch{[](StreamHandle) {}};
  const auto sampler = make_sampler(TimingMode::graph, device, launch);
  EXPECT_THROW(sampler->prepare(), std::runtime_error);
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

TEST(HostSampler, WaitsForThePoisonBeforeTheClockStarts) {
  FakeDevice device;
  const OneSample one{TimingMode::host, device, poison(device)};
  EXPECT_EQ(device.actions, (Actions{"poison", "synchronize", "submit", "synchronize"}));
}

TEST(KernelSampler, MarksTheTimedOperationOnly) {
  FakeDevice device;
  const OneSample one{TimingMode::kernel, device};
  const Actions tail{device.actions.end() - 12, device.actions.end()};
  EXPECT_EQ(tail, (Actions{"trace start", "submit", "delay", "record begin", "mark 1", "submit", "mark 0", "record end",
                           "reached?", "synchronize", "elapsed", "trace stop"}));
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
    EXPECT_GE(default_samples(mode), 20) << to_string(mode);
  }
}

}  // namespace
}  // namespace mage
