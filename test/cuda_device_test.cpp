// SPDX-License-Identifier: Apache-2.0
// The CUDA device against what is known of it: its own delays, its checksums, its refusals.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
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

class GpuDevice : public test::GpuTest {};

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
  for (const std::size_t bytes : {1U, 4U, 127U, 130U, 133U, 4000012U}) {
    std::vector<std::uint32_t> data((bytes + 3) / 4);
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::uint32_t>((i + 1) * 2654435761U);
    void* buffer = device_->allocate(data.size() * 4);
    device_->upload(buffer, data.data(), data.size() * 4);
    EXPECT_EQ(device_->checksum(buffer, bytes), host->checksum(data.data(), bytes)) << bytes;
    device_->deallocate(buffer);
  }
}

TEST_F(GpuDevice, FillsBytesAndNoMoreAndSeesWhatChanged) {
  const auto host = make_host_device();
  std::vector<unsigned char> here(4000, 7), there(4000);
  auto* buffer = static_cast<unsigned char*>(device_->allocate(4000));
  device_->upload(buffer, here.data(), 4000);
  host->fill(here.data() + 3, 0x44332211U, 3987);
  device_->fill(buffer + 3, 0x44332211U, 3987);
  device_->download(there.data(), buffer, 4000);
  EXPECT_EQ(there, here);
  device_->inspect_fill(buffer + 3, 0x44332211U, 3987, 5);
  EXPECT_EQ(device_->findings().wrong, 0U);
  device_->fill(buffer + 3989, 0, 1);
  device_->inspect_fill(buffer + 3, 0x44332211U, 3987, 5);
  const auto found = device_->findings();
  EXPECT_EQ(found.wrong, 1U);
  EXPECT_EQ(found.tag, 5U);
  EXPECT_EQ(found.element, 3986U);
  EXPECT_EQ(found.output, Findings::outside);
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
  device_->fill(to, 7, data.size() * 4);
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
  EXPECT_THROW(sampler->prepare(), WrongError);
}

TEST_F(GpuDevice, AnOperationThatForksAndDoesNotJoinIsWrong) {
  CudaStream other;
  CudaEvent fork;
  check(cudaStreamCreateWithFlags(other.put(), cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  check(cudaEventCreateWithFlags(fork.put(), cudaEventDisableTiming), "cudaEventCreateWithFlags");
  auto inner = device_->empty_launch();
  Launch strays{[&](StreamHandle stream) {
    check(cudaEventRecord(fork.get(), cuda_stream(stream)), "cudaEventRecord");
    check(cudaStreamWaitEvent(other.get(), fork.get(), 0), "cudaStreamWaitEvent");
    inner(StreamHandle{other.get()});
    inner(stream);
  }};
  EXPECT_THROW(static_cast<void>(device_->capture(strays, 1)), WrongError);
  auto empty = device_->empty_launch();
  device_->submit(empty);
  EXPECT_NO_THROW(device_->synchronize()) << "the stream must not stay in the capture";
}

/// Operands of an inspection in the memory of `device`, the same on every device.
struct Inspected {
  explicit Inspected(Device& device) : owner{device} {
    std::vector<std::uint32_t> words(count);
    for (std::size_t i = 0; i < count; ++i) words[i] = 0x3F800000U + static_cast<std::uint32_t>(i);
    std::vector<InputChange> changes;
    std::vector<OutputPlace> places;
    changes.reserve(50);
    places.reserve(300);
    for (std::uint64_t i = 0; i < 50; ++i) changes.push_back({i * 31, {i, i + 1000}});
    for (std::uint64_t i = 0; i < 300; ++i) {
      float value = 0;
      std::memcpy(&value, &words[i * 7], sizeof value);
      places.push_back({i * 7, {value, value}, {value, value}});
    }
    x = put(words), y = put(words), table = put(changes), wanted = put(places);
    inspection.input_count = inspection.output_count = 1;
    inspection.inputs[0] = {x, static_cast<const InputChange*>(table), 50, 4};
    inspection.outputs[0] = {y, static_cast<const OutputPlace*>(wanted), 300, DType::f32};
  }
  ~Inspected() {
    for (void* pointer : {x, y, table, wanted}) owner.deallocate(pointer);
  }
  Inspected(const Inspected&) = delete;
  Inspected& operator=(const Inspected&) = delete;

  template <class T>
  void* put(const std::vector<T>& values) {
    void* memory = owner.allocate(values.size() * sizeof(T));
    owner.upload(memory, values.data(), values.size() * sizeof(T));
    return memory;
  }
  [[nodiscard]] std::vector<std::uint32_t> words(const void* from) const {
    std::vector<std::uint32_t> read(count);
    owner.download(read.data(), from, 4 * count);
    return read;
  }
  static constexpr std::size_t count = 5000;
  Device& owner;
  void *x, *y, *table, *wanted;
  Inspection inspection;
};

TEST_F(GpuDevice, DisturbsInspectsAndSpoilsAsTheHostDoes) {
  const auto host = make_host_device();
  const Inspected here{*host}, there{*device_};
  for (const int set : {0, 1}) {
    const Question question{.set = set, .secret = 0x123456789ABCDEFULL + static_cast<std::uint64_t>(set), .tag = 3};
    for (auto* device : {host.get(), device_.get()}) {
      const auto& inspected = device == host.get() ? here : there;
      device->inspect(inspected.inspection, question);
      EXPECT_EQ(device->findings().wrong, 0U) << "nothing is spoilt yet";
      device->disturb(inspected.inspection, question);
      device->inspect(inspected.inspection, question);
    }
    const auto wanted = host->findings(), found = device_->findings();
    EXPECT_GE(found.wrong, 50U) << "of 64 places, some of them the same";
    EXPECT_EQ(found.wrong, wanted.wrong);
    EXPECT_EQ(found.tag, 3U);
    EXPECT_EQ(there.words(there.x), here.words(here.x));
    EXPECT_EQ(there.words(there.y), here.words(here.y));
    // Once more makes it whole, since a flipped bit is flipped back.
    host->disturb(here.inspection, question);
    device_->disturb_late(there.inspection, question);
  }
  host->spoil(here.y, DType::f32, Inspected::count, 99);
  device_->spoil(there.y, DType::f32, Inspected::count, 99);
  EXPECT_EQ(there.words(there.y), here.words(here.y));
}

TEST_F(GpuDevice, JudgesAsTheHostDoes) {
  const auto host = make_host_device();
  constexpr std::size_t count = 100003;
  std::vector<float> got(count);
  std::vector<double> value(count);
  std::vector<float> bound(count, 0.5F);
  for (std::size_t i = 0; i < count; ++i) {
    value[i] = static_cast<double>(i % 97) - 48;
    got[i] = static_cast<float>(value[i]) + (i % 1000 == 7 ? 0.75F : 0.25F);
  }
  got[10] = std::numeric_limits<float>::quiet_NaN();
  value[11] = std::numeric_limits<double>::quiet_NaN();
  got[11] = std::numeric_limits<float>::quiet_NaN();
  constexpr std::uint32_t poison = 0x7FC12345U;
  std::memcpy(&got[12], &poison, sizeof poison);
  host->judge({got.data(), DType::f32, count, value.data(), bound.data(), poison}, 4);
  const auto wanted = host->findings();
  const auto put = [&](const auto& values) {
    void* memory = device_->allocate(values.size() * sizeof values[0]);
    device_->upload(memory, values.data(), values.size() * sizeof values[0]);
    return memory;
  };
  void *y = put(got), *v = put(value), *b = put(bound);
  device_->judge({y, DType::f32, count, static_cast<double*>(v), static_cast<float*>(b), poison}, 4);
  const auto found = device_->findings();
  EXPECT_EQ(found.wrong, 102U) << "100 of them too far, a NaN, and a word that was never written";
  EXPECT_EQ(found.wrong, wanted.wrong);
  EXPECT_EQ(found.worst, 0.5);
  EXPECT_EQ(wanted.worst, 0.5);
  EXPECT_TRUE(std::isnan(found.squares) && std::isnan(wanted.squares));
  EXPECT_EQ(found.output, Findings::whole);
  for (void* pointer : {y, v, b}) device_->deallocate(pointer);
}

TEST_F(GpuDevice, TwoRunTogetherOnTwoStreams) {
  std::set<void*> streams;
  Launch one{[&](StreamHandle stream) { streams.insert(cuda_stream(stream)); }};
  int calls = 0;
  Launch other{[&](StreamHandle stream) {
    streams.insert(cuda_stream(stream));
    ++calls;
  }};
  EXPECT_TRUE(device_->trials()->run_together({one, 3}, {other, 5}));
  EXPECT_EQ(streams.size(), 2U);
  EXPECT_EQ(calls, 5);
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
  EXPECT_EQ(graph->nodes().size(), 7U);
  EXPECT_NE(graph->nodes().front().find("mage_harness_empty"), std::string::npos) << graph->nodes().front();
  EXPECT_EQ(graph->nodes().front(), graph->nodes().back());
  device_->replay(*graph);
  device_->replay(*graph);
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
