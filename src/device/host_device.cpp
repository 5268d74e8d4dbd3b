// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <latch>
#include <map>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "device/inspection.hpp"
#include "mage_bench/device.hpp"
#include "mage_bench/parallel.hpp"

namespace mage {
namespace {

constexpr std::size_t alignment = 256;

/// The CPU as a device: a launch runs where it is submitted, so only the host mode makes sense.
class HostDevice final : public Device, private Trials {
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
  void deallocate(void* pointer) noexcept override {
    const auto mapped = mapped_.find(pointer);
    if (mapped == mapped_.end()) return std::free(pointer);
    ::munmap(mapped->second.begin, mapped->second.bytes);
    mapped_.erase(mapped);
  }
  void upload(void* to, const void* from_host, std::size_t bytes) override { move(to, from_host, bytes); }
  void download(void* to_host, const void* from, std::size_t bytes) override { move(to_host, from, bytes); }
  void fill(void* to, std::uint32_t pattern, std::size_t bytes) override {
    auto* target = static_cast<unsigned char*>(to);
    const auto first = reinterpret_cast<uint64>(to);
    parallel_blocks(static_cast<int64>(bytes), grain * 4, [=](int64 begin, int64 end) {
      std::uint32_t turned = 0;  // the pattern as it is seen from this block's first byte
      for (uint64 i = 0; i < 4; ++i)
        turned |= std::uint32_t{pattern_byte(pattern, first + static_cast<uint64>(begin) + i)} << 8 * i;
      auto* at = target + begin;
      for (; at + 4 <= target + end; at += 4) std::memcpy(at, &turned, 4);
      std::memcpy(at, &turned, static_cast<std::size_t>(target + end - at));
    });
  }
  void copy(void* to, const void* from, std::size_t bytes) override { move(to, from, bytes); }
  [[nodiscard]] std::uint64_t checksum(const void* from, std::size_t bytes) override {
    const auto* source = static_cast<const std::byte*>(from);
    const auto word_at = [source](uint64 index, std::size_t size) {
      std::uint32_t word = 0;
      std::memcpy(&word, source + 4 * index, size);
      return word;
    };
    std::mutex merge;
    std::uint64_t total = 0;
    parallel_blocks(static_cast<int64>(bytes / 4), grain, [&](int64 begin, int64 end) {
      std::uint64_t sum = 0;
      for (auto i = static_cast<uint64>(begin); i < static_cast<uint64>(end); ++i)
        sum += checksum_term(i, word_at(i, 4));
      const std::scoped_lock lock{merge};
      total += sum;
    });
    if (bytes % 4 != 0) total += checksum_term(bytes / 4, word_at(bytes / 4, bytes % 4));
    return total;
  }

  void spoil(void* to, DType dtype, std::size_t elements, std::uint64_t secret) override {
    parallel_blocks(static_cast<int64>(elements), grain, [=](int64 begin, int64 end) {
      for (int64 i = begin; i < end; ++i) spoil_element(to, dtype, secret, static_cast<uint64>(i));
    });
  }
  void disturb(const Inspection& inspection, const Question& question) override {
    for (int k = 0; k < inspection.input_count; ++k) {
      const auto& input = inspection.inputs[k];
      for (int i = 0; i < input.count; ++i)
        change_element(input.payload, input.element_bytes, input.changes[i].element,
                       input.changes[i].bits[question.set]);
    }
    for (int k = 0; k < inspection.output_count; ++k) {
      const auto& output = inspection.outputs[k];
      std::array<std::uint64_t, inspected_places> elements{};
      const auto end = output.count == 0 ? elements.begin() : elements.end();
      for (auto at = elements.begin(); at != end; ++at)
        *at = output.places[place_of(question.secret, static_cast<int>(at - elements.begin()), output.count)].element;
      // Once each: a bit that is flipped twice is what it was.
      std::sort(elements.begin(), end);
      std::for_each(elements.begin(), std::unique(elements.begin(), end), [&](std::uint64_t element) {
        spoil_element(output.payload, output.dtype, question.secret, element);
      });
    }
  }
  void inspect(const Inspection& inspection, const Question& question) override {
    for (int k = 0; k < inspection.output_count; ++k) {
      const auto& output = inspection.outputs[k];
      for (int i = 0; i < inspected_places && output.count > 0; ++i) {
        const auto& place = output.places[place_of(question.secret, i, output.count)];
        const double got = element_value(output.payload, output.dtype, place.element);
        const double low = place.low[question.set], high = place.high[question.set];
        if (!is_within(got, low, high)) report({0, k, question.tag, place.element, got, low, high}, 1);
      }
    }
  }
  void inspect_fill(const void* from, std::uint32_t pattern, std::size_t bytes, std::uint32_t tag) override {
    const auto* source = static_cast<const unsigned char*>(from);
    const auto first = reinterpret_cast<uint64>(from);
    constexpr std::size_t chunk = 4096;  // most hold what they should, and a comparison of the whole is fast
    std::array<unsigned char, chunk> right{};
    for (std::size_t i = 0; i < chunk; ++i) right[i] = pattern_byte(pattern, first + i);
    std::uint64_t wrong = 0;
    for (std::size_t begin = 0; begin < bytes; begin += chunk) {
      const auto end = std::min(bytes, begin + chunk);
      if (std::memcmp(source + begin, right.data(), end - begin) == 0) continue;
      for (std::size_t i = begin; i < end; ++i)
        if (source[i] != right[i - begin] && wrong++ == 0) report({0, Findings::outside, tag, i, 0, 0, 0}, 0);
    }
    found_.wrong += wrong;
  }
  void judge(const Judged& output, std::uint32_t tag) override {
    std::mutex merge;
    parallel_blocks(static_cast<int64>(output.elements), grain / 4, [&](int64 begin, int64 end) {
      Findings block;
      for (auto i = static_cast<uint64>(begin); i < static_cast<uint64>(end); ++i) {
        const double got = element_value(output.payload, output.dtype, i);
        const auto verdict = judge_element(got, output.value[i], output.bound[i]);
        block.squares += verdict.error * verdict.error;
        const auto bound = static_cast<double>(output.bound[i]);
        if (!verdict.inside || is_poisoned(output.payload, output.dtype, i, output.poison)) {
          if (block.wrong++ == 0) {
            block.element = i;
            block.got = got;
            block.low = output.value[i];
            block.high = bound;
          }
        } else if (!verdict.same && verdict.error > 0) {
          block.worst = std::fmax(block.worst, verdict.error / bound);
        }
      }
      const std::scoped_lock lock{merge};
      if (block.wrong != 0)
        report({0, Findings::whole, tag, block.element, block.got, block.low, block.high}, block.wrong);
      found_.worst = std::fmax(found_.worst, block.worst);
      found_.squares += block.squares;
    });
  }
  void amend(double* value, float* bound, const Amendment* amendments, std::size_t count) override {
    for (std::size_t i = 0; i < count; ++i) {
      value[amendments[i].element] = amendments[i].value;
      bound[amendments[i].element] = amendments[i].bound;
    }
  }
  [[nodiscard]] Findings findings() override { return std::exchange(found_, {}); }

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
  void replay(Graph&) override { refuse(); }
  void trace_start() override { refuse(); }
  void trace_mark(std::uint64_t) override { refuse(); }
  [[nodiscard]] std::vector<KernelRecord> trace_stop() override { refuse(); }
  [[nodiscard]] Trials* trials() override { return this; }
  void profiler_start() override {}
  void profiler_stop() override {}

 private:
  static constexpr int64 grain = 1 << 18;
  [[noreturn]] static void refuse() {
    throw UnavailableError{Unavailable::host_only, std::string{explain(Unavailable::host_only)}};
  }
  static void move(void* to, const void* from, std::size_t bytes) {
    auto* target = static_cast<std::byte*>(to);
    const auto* source = static_cast<const std::byte*>(from);
    parallel_blocks(static_cast<int64>(bytes), grain * 4, [=](int64 begin, int64 end) {
      std::memcpy(target + begin, source + begin, static_cast<std::size_t>(end - begin));
    });
  }

  void report(const Findings& first, std::uint64_t count) {
    if (found_.wrong == 0) {
      const auto judged = found_;
      found_ = first;
      found_.worst = judged.worst;
      found_.squares = judged.squares;
    }
    found_.wrong += count;
  }

  [[nodiscard]] void* allocate_at_border(std::size_t bytes, Border border) override {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const auto inside = (bytes + page - 1) / page * page;
    void* mapped = ::mmap(nullptr, inside + 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc{};
    auto* begin = static_cast<std::byte*>(mapped);
    if (::mprotect(begin, page, PROT_NONE) != 0 || ::mprotect(begin + page + inside, page, PROT_NONE) != 0) {
      const int error = errno;
      ::munmap(mapped, inside + 2 * page);
      throw std::runtime_error{std::string{"mprotect of a page beside an operand failed: "} + std::strerror(error)};
    }
    auto* pointer = border == Border::front ? begin + page : begin + page + inside - bytes;
    mapped_[pointer] = {mapped, inside + 2 * page};
    return pointer;
  }
  [[nodiscard]] void* allocate_shared(std::size_t bytes) override { return allocate(bytes); }
  [[nodiscard]] bool run_together(const Calls& one, const Calls& other) override {
    std::latch both{2};  // a thread takes longer to start than a call
    const auto run = [&both](const Calls& calls) {
      both.arrive_and_wait();
      for (int i = 0; i < calls.count; ++i) calls.launch(StreamHandle{});
    };
    std::exception_ptr error;
    std::thread beside{[&] {
      try {
        run(other);
      } catch (...) {
        error = std::current_exception();
      }
    }};
    try {
      run(one);
    } catch (...) {
      beside.join();
      throw;
    }
    beside.join();
    if (error) std::rethrow_exception(error);
    return true;
  }
  [[nodiscard]] std::uint64_t checksum_meanwhile(const void* from, std::size_t bytes) override {
    return checksum(from, bytes);
  }

  struct Mapped {
    void* begin = nullptr;
    std::size_t bytes = 0;
  };
  std::map<void*, Mapped> mapped_;
  Findings found_;
  DeviceInfo info_;
};

}  // namespace

std::unique_ptr<Device> make_host_device() { return std::make_unique<HostDevice>(); }

}  // namespace mage
