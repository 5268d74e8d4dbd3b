// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <thread>

#include "device/checksum.hpp"
#include "mage_bench/device.hpp"
#include "mage_bench/parallel.hpp"

namespace mage {
namespace {

constexpr std::size_t alignment = 256;

/// The CPU as a device: a launch runs where it is submitted, so only the host mode makes sense.
class HostDevice final : public Device {
 public:
  HostDevice() {
    info_.name = "host";
    info_.is_host = true;
    info_.facts = {{"threads", std::to_string(std::thread::hardware_concurrency())}};
  }

  [[nodiscard]] const DeviceInfo& info() const override { return info_; }
  [[nodiscard]] std::optional<Unavailable> unavailable(TimingMode mode) const override {
    return mode == TimingMode::host ? std::nullopt : std::optional{Unavailable::host_only};
  }

  [[nodiscard]] void* allocate(std::size_t bytes) override {
    void* pointer = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (pointer == nullptr) throw std::bad_alloc{};
    return pointer;
  }
  void deallocate(void* pointer) noexcept override { std::free(pointer); }
  void upload(void* to, const void* from_host, std::size_t bytes) override { copy(to, from_host, bytes); }
  void download(void* to_host, const void* from, std::size_t bytes) override { copy(to_host, from, bytes); }
  void fill(void* to, std::uint32_t pattern, std::size_t words) override {
    auto* target = static_cast<std::uint32_t*>(to);
    parallel_blocks(static_cast<int64>(words), grain,
                    [=](int64 begin, int64 end) { std::fill(target + begin, target + end, pattern); });
  }
  [[nodiscard]] std::uint64_t checksum(const void* from, std::size_t words) override {
    const auto* source = static_cast<const std::uint32_t*>(from);
    std::mutex merge;
    std::uint64_t total = 0;
    parallel_blocks(static_cast<int64>(words), grain, [&](int64 begin, int64 end) {
      std::uint64_t sum = 0;
      for (int64 i = begin; i < end; ++i) sum += checksum_term(static_cast<uint64>(i), source[i]);
      const std::scoped_lock lock{merge};
      total += sum;
    });
    return total;
  }

  void speckle(void* to, std::size_t words, std::uint64_t seed, std::uint32_t pattern) override {
    for (int i = 0; i < speckle_words; ++i) static_cast<std::uint32_t*>(to)[speckle_position(seed, i, words)] = pattern;
  }
  [[nodiscard]] int count_speckles(const void* from, std::size_t words, std::uint64_t seed,
                                   std::uint32_t pattern) override {
    int count = 0;
    for (int i = 0; i < speckle_words; ++i)
      count += static_cast<const std::uint32_t*>(from)[speckle_position(seed, i, words)] == pattern ? 1 : 0;
    return count;
  }

  void submit(Launch& launch) override { launch(StreamHandle{}); }
  void synchronize() override {}
  [[nodiscard]] Launch empty_launch() const override {
    return [](StreamHandle) {};
  }

  void spin(StreamHandle, const Spin& spin) override {
    const auto now_ns = [] {
      return static_cast<std::uint64_t>(
          std::chrono::nanoseconds{std::chrono::steady_clock::now().time_since_epoch()}.count());
    };
    const auto begin = now_ns();
    std::copy_n(spin.from, spin.words, spin.to);
    const auto wanted = static_cast<std::uint64_t>(std::llround(spin.us * 1e3));
    auto now = now_ns();
    while (now - begin < wanted) now = now_ns();
    if (spin.stamps == nullptr) return;
    spin.stamps[0] = begin;
    spin.stamps[1] = now;
  }

  [[nodiscard]] double now_us() override {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  void record(Stamp) override { refuse(); }
  [[nodiscard]] bool reached(Stamp) override { refuse(); }
  [[nodiscard]] double elapsed_us() override { refuse(); }
  void delay(double) override { refuse(); }
  void flush_l2() override { refuse(); }
  void reset_persisting_l2() override {}
  [[nodiscard]] std::optional<ClockProbe> probe_clock() override { return std::nullopt; }
  [[nodiscard]] std::unique_ptr<Graph> capture(Launch&, int) override { refuse(); }
  void renew(Graph&) override { refuse(); }
  void replay(Graph&) override { refuse(); }
  void trace_start() override { refuse(); }
  void trace_mark(std::uint64_t) override { refuse(); }
  [[nodiscard]] std::vector<KernelRecord> trace_stop() override { refuse(); }
  void profiler_start() override {}
  void profiler_stop() override {}

 private:
  static constexpr int64 grain = 1 << 18;
  [[noreturn]] static void refuse() {
    throw UnavailableError{Unavailable::host_only, std::string{explain(Unavailable::host_only)}};
  }
  static void copy(void* to, const void* from, std::size_t bytes) {
    auto* target = static_cast<std::byte*>(to);
    const auto* source = static_cast<const std::byte*>(from);
    parallel_blocks(static_cast<int64>(bytes), grain * 4, [=](int64 begin, int64 end) {
      std::memcpy(target + begin, source + begin, static_cast<std::size_t>(end - begin));
    });
  }
  DeviceInfo info_;
};

}  // namespace

std::unique_ptr<Device> make_host_device() { return std::make_unique<HostDevice>(); }

}  // namespace mage
