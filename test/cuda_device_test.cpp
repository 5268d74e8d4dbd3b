// SPDX-License-Identifier: Apache-2.0
// The CUDA device against what is known of it: its own delays, its checksums, its refusals.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "bench/samplers.hpp"
#include "bench/statistics.hpp"
#include "mage_bench/device.hpp"
#include "test/support/gpu.hpp"

#if MAGE_HAVE_CUDA
#include "mage_bench/cuda.hpp"

namespace mage {
namespace {

class GpuDevice : public testing::Test {
 protected:
  void SetUp() override {
    MAGE_NEED_GPU();
    device_ = make_cuda_device(0);
  }
  std::unique_ptr<Device> device_;
};

TEST_F(GpuDevice, DescribesItself) {
  const auto& info = device_->info();
  EXPECT_FALSE(info.is_host);
  EXPECT_GE(info.compute_capability, 50);
  EXPECT_GT(info.l2_bytes, 0U);
  std::vector<std::string> keys;
  for (const auto& [key, value] : info.facts) {
    keys.push_back(key);
    EXPECT_FALSE(value.empty()) << key;
  }
  for (const auto* key : {"uuid", "pci_bus_id", "sm_count", "cuda_driver_api", "cuda_runtime", "ecc_enabled"})
    EXPECT_NE(std::find(keys.begin(), keys.end(), key), keys.end()) << key;
}

TEST_F(GpuDevice, AnIndexThatIsNotThereIsRefusedWithTheRange) {
  try {
    static_cast<void>(make_cuda_device(1000));
    FAIL() << "must throw";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string{error.what()}.find("0 to"), std::string::npos) << error.what();
  }
}

TEST_F(GpuDevice, ChecksumsAreThoseOfTheHost) {
  const auto host = make_host_device();
  for (const std::size_t words : {1U, 31U, 33U, 1000003U}) {
    std::vector<std::uint32_t> data(words);
    for (std::size_t i = 0; i < words; ++i) data[i] = static_cast<std::uint32_t>(i * 2654435761U);
    void* buffer = device_->allocate(words * 4);
    device_->upload(buffer, data.data(), words * 4);
    EXPECT_EQ(device_->checksum(buffer, words), host->checksum(data.data(), words)) << words;
    device_->deallocate(buffer);
  }
}

TEST_F(GpuDevice, FillsWordsAndNoMore) {
  std::vector<std::uint32_t> data(1000, 7);
  auto* buffer = static_cast<std::uint32_t*>(device_->allocate(4000));
  device_->upload(buffer, data.data(), 4000);
  device_->fill(buffer + 1, 0xABCDU, 997);
  device_->download(data.data(), buffer, 4000);
  EXPECT_EQ(data[0], 7U);
  EXPECT_EQ(data[1], 0xABCDU);
  EXPECT_EQ(data[997], 0xABCDU);
  EXPECT_EQ(data[998], 7U);
  device_->deallocate(buffer);
}

/// Median span of a delay of `us` inside a gated span.
double delay_span_us(Device& device, double us) {
  constexpr std::size_t count = 21;
  std::vector<double> spans;
  spans.reserve(count);
  while (spans.size() < count) spans.push_back(gated_span(device, 100, [&] { device.delay(us); }).us);
  return statistics::median(spans);
}

TEST_F(GpuDevice, AMarkedCopyCopiesAndNoMore) {
  auto* cache = device_->cache_experiments();
  ASSERT_NE(cache, nullptr);
  constexpr std::size_t words = 1200004, beyond = 4;
  std::vector<std::uint32_t> data(words + beyond);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::uint32_t>(i * 2654435761U);
  void* from = device_->allocate(data.size() * 4);
  void* to = device_->allocate(data.size() * 4);
  device_->upload(from, data.data(), data.size() * 4);
  device_->fill(to, 7, data.size());
  cache->marked_copy(to, from, words * 4);
  std::vector<std::uint32_t> copied(data.size());
  device_->download(copied.data(), to, copied.size() * 4);
  EXPECT_TRUE(std::equal(data.begin(), data.begin() + words, copied.begin()));
  EXPECT_TRUE(std::all_of(copied.begin() + words, copied.end(), [](std::uint32_t word) { return word == 7; }));
  device_->deallocate(from);
  device_->deallocate(to);
}

TEST_F(GpuDevice, AKnownDelayHasAKnownSpan) {
  const double floor_us = delay_span_us(*device_, 0);
  EXPECT_LT(floor_us, 10);
  for (const double us : {20.0, 100.0, 1000.0})
    EXPECT_NEAR(delay_span_us(*device_, us) - floor_us, us, 0.5 + 0.002 * us) << us;
}

TEST_F(GpuDevice, TheGateHoldsAndIsSeenToFail) {
  auto empty = device_->empty_launch();
  int held = 0;
  for (int i = 0; i < 20; ++i) held += gated_span(*device_, 500, [&] { device_->submit(empty); }).held ? 1 : 0;
  EXPECT_GE(held, 19);
  const auto slept = gated_span(*device_, 30, [&] {
    const double begin_us = device_->now_us();
    while (device_->now_us() - begin_us < 2000) {
    }
    device_->submit(empty);
  });
  EXPECT_FALSE(slept.held) << "the host took 2 ms inside a gate of 30 us";
}

TEST_F(GpuDevice, TheClockProbeReadsAPlausibleClock) {
  const auto probe = device_->probe_clock();
  ASSERT_TRUE(probe);
  EXPECT_GT(probe->sm_mhz, 100);
  EXPECT_LT(probe->sm_mhz, 4000);
}

TEST_F(GpuDevice, AnOperationThatSynchronisesCannotBeCaptured) {
  Launch synchronises{[](StreamHandle stream) { static_cast<void>(cudaStreamSynchronize(cuda_stream(stream))); }};
  try {
    static_cast<void>(device_->capture(synchronises, 1));
    FAIL() << "must throw";
  } catch (const UnavailableError& error) {
    EXPECT_EQ(error.reason(), Unavailable::needs_sync) << error.what();
  }
  auto empty = device_->empty_launch();
  device_->submit(empty);
  EXPECT_NO_THROW(device_->synchronize()) << "a refused capture leaves the stream usable";
}

TEST_F(GpuDevice, AnOperationThatThrowsInsideACaptureEndsIt) {
  Launch throws{
      [](StreamHandle stream) { check(cudaStreamSynchronize(cuda_stream(stream)), "cudaStreamSynchronize"); }};
  EXPECT_THROW(static_cast<void>(device_->capture(throws, 1)), UnavailableError);
  auto empty = device_->empty_launch();
  device_->submit(empty);
  EXPECT_NO_THROW(device_->synchronize()) << "the stream must not stay in the capture";
}

TEST_F(GpuDevice, AnOperationOnAnotherStreamLeavesAnEmptyGraph) {
  CudaStream other;
  check(cudaStreamCreateWithFlags(other.put(), cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  auto inner = device_->empty_launch();
  const StreamHandle elsewhere{other.get()};
  Launch strays{[&inner, elsewhere](StreamHandle) { inner(elsewhere); }};
  const auto graph = device_->capture(strays, 1);
  EXPECT_EQ(graph->kernel_nodes() + graph->other_nodes(), 0);
  const auto sampler = make_sampler(TimingMode::graph, *device_, strays);
  EXPECT_THROW(sampler->prepare(), std::runtime_error);
}

TEST_F(GpuDevice, SpecklesLieWhereTheHostSaysAndAreCounted) {
  constexpr std::size_t words = 10007;
  const auto host = make_host_device();
  std::vector<std::uint32_t> here(words, 7);
  std::vector<std::uint32_t> there(words, 7);
  void* buffer = device_->allocate(words * 4);
  device_->upload(buffer, there.data(), words * 4);
  host->speckle(here.data(), words, 99, 0xABCDU);
  device_->speckle(buffer, words, 99, 0xABCDU);
  EXPECT_GT(device_->count_speckles(buffer, words, 99, 0xABCDU), 60);
  device_->download(there.data(), buffer, words * 4);
  EXPECT_EQ(there, here);
  device_->fill(buffer, 1, words);
  EXPECT_EQ(device_->count_speckles(buffer, words, 99, 0xABCDU), 0);
  device_->deallocate(buffer);
}

TEST_F(GpuDevice, StreamsChangeAndComeBack) {
  std::vector<void*> seen;
  Launch where{[&seen](StreamHandle stream) { seen.push_back(cuda_stream(stream)); }};
  int index = 0;
  do {
    EXPECT_EQ(device_->change_stream(index), index);
    device_->submit(where);
  } while (device_->change_stream(++index) != 0);
  device_->submit(where);
  ASSERT_GT(seen.size(), 2U);
  EXPECT_EQ(seen.front(), seen.back());
  seen.pop_back();
  EXPECT_EQ(std::set<void*>(seen.begin(), seen.end()).size(), seen.size());
  auto empty = device_->empty_launch();
  const auto graph = device_->capture(empty, 3);
  static_cast<void>(device_->change_stream(1));
  device_->replay(*graph);  // captured on one stream, replayed on another
  EXPECT_NO_THROW(device_->synchronize());
}

TEST_F(GpuDevice, AGraphHoldsEveryOperation) {
  auto empty = device_->empty_launch();
  const auto graph = device_->capture(empty, 7);
  EXPECT_EQ(graph->kernel_nodes(), 7);
  EXPECT_EQ(graph->other_nodes(), 0);
  EXPECT_GT(graph->instantiate_us(), 0);
  device_->replay(*graph);
  device_->renew(*graph);
  device_->replay(*graph);
  EXPECT_NO_THROW(device_->synchronize());
}

TEST_F(GpuDevice, MoreMemoryThanThereIsIsUnavailableAndNotFatal) {
  try {
    static_cast<void>(device_->allocate(std::size_t{1} << 50U));
    FAIL() << "must throw";
  } catch (const UnavailableError& error) {
    EXPECT_EQ(error.reason(), Unavailable::memory);
  }
  EXPECT_NO_THROW(device_->synchronize());
}

TEST_F(GpuDevice, EveryModeTimesAnEmptyKernel) {
  auto empty = device_->empty_launch();
  for (const auto mode : all_modes) {
    SCOPED_TRACE(to_string(mode));
    const auto sampler = make_sampler(mode, *device_, empty);
    try {
      sampler->prepare();
    } catch (const UnavailableError& error) {
      EXPECT_EQ(mode, TimingMode::kernel) << error.what();
      EXPECT_EQ(error.reason(), Unavailable::cupti_busy) << error.what();
      continue;
    }
    Samples samples;
    sampler->open();
    for (int i = 0; i < 10; ++i) sampler->sample(samples);
    sampler->close();
    // An empty kernel reads as the floor: far below the flush (89 us on an H200) and the delay that stand before it.
    const std::map<TimingMode, double> most_us{{TimingMode::event, 8},  {TimingMode::event_cold, 8},
                                               {TimingMode::batch, 15}, {TimingMode::graph, 4},
                                               {TimingMode::host, 60},  {TimingMode::kernel, 4}};
    const double median_us = statistics::median(samples.us);
    EXPECT_GT(median_us, 0.1);
    EXPECT_LT(median_us, most_us.at(mode));
  }
}

}  // namespace
}  // namespace mage
#endif
