// SPDX-License-Identifier: Apache-2.0
#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <set>
#include <stdexcept>
#include <utility>

#include "device/bordered_memory.hpp"
#include "device/captured_graph.hpp"
#include "device/cuda_info.hpp"
#include "device/cupti_trace.hpp"
#include "device/harness_kernels.hpp"
#include "device/scratch_arena.hpp"
#include "device/selftest_kernels.hpp"
#include "mage_bench/cuda.hpp"
#include "mage_bench/device.hpp"

namespace mage {

namespace detail {
void throw_cuda_error(cudaError_t error, const char* what, std::source_location where) {
  static_cast<void>(cudaGetLastError());
  throw std::runtime_error{std::string{what} + " failed: " + cudaGetErrorName(error) + " (" +
                           cudaGetErrorString(error) + ") at " + where.file_name() + ":" +
                           std::to_string(where.line())};
}
}  // namespace detail

namespace {

class CudaDevice final : public Device, private CacheExperiments, private Trials {
 public:
  explicit CudaDevice(int index) : index_{index}, borders_{index} {
    check(cudaSetDevice(index), "cudaSetDevice");
    info_ = describe_cuda_device(index);
    blocks_ = cuda_attribute(cudaDevAttrMultiProcessorCount, index) * 8;
    for (auto& stream : streams_)
      check(cudaStreamCreateWithFlags(stream.put(), cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    stream_ = streams_[0].get();
    check(cudaEventCreate(begin_.put()), "cudaEventCreate");
    check(cudaEventCreate(end_.put()), "cudaEventCreate");
    constexpr std::size_t mebibyte = 1U << 20U;
    flush_words_ = std::max(info_.l2_bytes * 8 / 3, 32 * mebibyte) / mebibyte * mebibyte / sizeof(uint32);
    flush_ = allocate(flush_words_ * sizeof(uint32));
    scratch_ = static_cast<uint64*>(allocate(5 * sizeof(uint64)));
    findings_ = static_cast<Findings*>(allocate(sizeof(Findings)));
    sums_ = static_cast<uint64*>(allocate(checksum_slots * sizeof(uint64)));
    check(cudaMemset(findings_, 0, sizeof(Findings)), "cudaMemset");
    preload();
    reset_persisting_l2();  // what settings() says from now on is what a variant finds
    std::size_t total = 0;
    check(cudaMemGetInfo(&info_.free_bytes, &total), "cudaMemGetInfo");
  }
  ~CudaDevice() override {
    static_cast<void>(cudaStreamSynchronize(stream_));
    deallocate(flush_);
    deallocate(scratch_);
    deallocate(findings_);
    deallocate(sums_);
  }

  [[nodiscard]] const DeviceInfo& info() const override { return info_; }
  [[nodiscard]] std::optional<Unavailable> unavailable(TimingMode) const override { return std::nullopt; }

  [[nodiscard]] void* allocate(std::size_t bytes) override {
    void* pointer = nullptr;
    const auto error = cudaMalloc(&pointer, bytes);
    if (error == cudaErrorMemoryAllocation) {
      static_cast<void>(cudaGetLastError());
      throw UnavailableError{Unavailable::memory, "cudaMalloc(" + std::to_string(bytes) +
                                                      " bytes) failed: out of device memory; lower --mage_max_bytes"};
    }
    check(error, "cudaMalloc");
    return pointer;
  }
  void deallocate(void* pointer) noexcept override {
    if (borders_.deallocate(pointer)) return;
    const auto shared = shared_.find(pointer);
    if (shared == shared_.end()) return static_cast<void>(cudaFree(pointer));
    shared_.erase(shared);
    static_cast<void>(cudaFreeHost(pointer));
  }
  void upload(void* to, const void* from_host, std::size_t bytes) override {
    check(cudaMemcpyAsync(to, from_host, bytes, cudaMemcpyHostToDevice, stream_), "cudaMemcpyAsync to device");
    synchronize();
  }
  void download(void* to_host, const void* from, std::size_t bytes) override {
    check(cudaMemcpyAsync(to_host, from, bytes, cudaMemcpyDeviceToHost, stream_), "cudaMemcpyAsync to host");
    synchronize();
  }
  void fill(void* to, std::uint32_t pattern, std::size_t bytes) override {
    if (bytes != 0) harness::launch_fill(to, pattern, bytes, blocks_, stream_);
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_), "cudaMemcpyAsync on the device");
  }
  [[nodiscard]] std::uint64_t checksum(const void* from, std::size_t bytes) override {
    return checksum_on(stream_, scratch_, from, bytes);
  }

  [[nodiscard]] std::vector<std::uint64_t> checksums(const std::vector<Region>& regions) override {
    if (regions.size() > checksum_slots) return Device::checksums(regions);
    std::vector<std::uint64_t> sums(regions.size());
    if (sums.empty()) return sums;
    check(cudaMemsetAsync(sums_, 0, sums.size() * sizeof(uint64), stream_), "cudaMemsetAsync");
    for (std::size_t i = 0; i < regions.size(); ++i)
      harness::launch_checksum(regions[i].begin, regions[i].bytes, sums_ + i, blocks_, stream_);
    download(sums.data(), sums_, sums.size() * sizeof(uint64));
    return sums;
  }

  void spoil(void* to, DType dtype, std::size_t elements, std::uint64_t secret) override {
    if (elements != 0) harness::launch_spoil(to, dtype, elements, secret, blocks_, stream_);
  }
  void disturb(const Inspection& inspection, const Question& question) override {
    harness::launch_disturb(inspection, question, stream_);
  }
  void disturb_late(const Inspection& inspection, const Question& question) override {
    constexpr uint64 late_ns = 20'000;
    harness::launch_disturb_late(inspection, question, late_ns, stream_);
  }
  void inspect(const Inspection& inspection, const Question& question) override {
    if (inspection.output_count != 0) harness::launch_inspect(inspection, question, findings_, stream_);
  }
  void inspect_as_dependent(const Inspection& inspection, const Question& question) override {
    if (info_.compute_capability < 90) return inspect(inspection, question);  // nothing there starts early
    if (inspection.output_count != 0) harness::launch_inspect_as_dependent(inspection, question, findings_, stream_);
  }
  void inspect_fill(const void* from, std::uint32_t pattern, std::size_t bytes, std::uint32_t tag) override {
    if (bytes != 0) harness::launch_inspect_fill(from, pattern, bytes, tag, findings_, blocks_, stream_);
  }
  void inspect_scratch(std::uint32_t tag) override {
    for (const auto& fence : arena_.fences())
      inspect_fill(fence.begin, 0x01010101U * ScratchArena::fence_byte, fence.bytes, tag);
  }
  void judge(const Judged& output, std::uint32_t tag) override {
    if (output.elements != 0) harness::launch_judge(output, tag, findings_, blocks_, stream_);
  }
  void amend(double* value, float* bound, const Amendment* amendments, std::size_t count) override {
    if (count != 0) harness::launch_amend(value, bound, amendments, count, blocks_, stream_);
  }
  [[nodiscard]] Findings findings() override {
    Findings found;
    download(&found, findings_, sizeof found);
    check(cudaGetLastError(), "a kernel launch");
    check(cudaMemsetAsync(findings_, 0, sizeof(Findings), stream_), "cudaMemsetAsync");
    return found;
  }

  int change_stream(int index) override {
    synchronize();
    const auto which = static_cast<std::size_t>(index) % streams_.size();
    stream_ = streams_[which].get();
    return static_cast<int>(which);
  }
  void submit(Launch& launch) override { launch(StreamHandle{stream_}); }
  void synchronize() override {
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    check(cudaGetLastError(), "a kernel launch");
  }
  void wait_idle() override { check(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }
  [[nodiscard]] Launch empty_launch() const override {
    return [](StreamHandle stream) { harness::launch_empty(cuda_stream(stream)); };
  }
  void spin(StreamHandle stream, const Spin& spin) override {
    harness::launch_spin(static_cast<uint64>(std::llround(spin.us * 1e3)), spin.from, spin.to, spin.words,
                         reinterpret_cast<uint64*>(spin.stamps), cuda_stream(stream));
  }

  [[nodiscard]] double now_us() override {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  void record(Stamp stamp) override { check(cudaEventRecord(event(stamp), stream_), "cudaEventRecord"); }
  [[nodiscard]] bool reached(Stamp stamp) override {
    const auto error = cudaEventQuery(event(stamp));
    if (error == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());
      return false;
    }
    check(error, "cudaEventQuery");
    return true;
  }
  [[nodiscard]] double elapsed_us() override {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin_.get(), end_.get()), "cudaEventElapsedTime");
    return static_cast<double>(milliseconds) * 1e3;
  }

  void delay(double us) override { harness::launch_delay(static_cast<uint64>(us * 1e3), stream_); }
  void flush_l2() override {
    harness::launch_write_sweep(static_cast<uint32*>(flush_), flush_words_, ++flushes_, blocks_, stream_);
    harness::launch_read_sweep(static_cast<uint32*>(flush_), flush_words_, sink(), blocks_, stream_);
  }
  void reset_persisting_l2() override {
    const auto error = cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, 0);
    // A device without a carve-out has nothing to give back, nor has one under MIG or MPS.
    if (error == cudaErrorUnsupportedLimit || error == cudaErrorNotSupported) {
      static_cast<void>(cudaGetLastError());
      return;
    }
    check(error, "cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, 0)");
    // A window that an operation left on our stream would hold for all that follow it.
    cudaStreamAttrValue none{};
    check(cudaStreamSetAttribute(stream_, cudaStreamAttributeAccessPolicyWindow, &none),
          "cudaStreamSetAttribute(access policy window)");
    check(cudaCtxResetPersistingL2Cache(), "cudaCtxResetPersistingL2Cache");
  }
  [[nodiscard]] CacheExperiments* cache_experiments() override { return this; }
  [[nodiscard]] std::optional<ClockProbe> probe_clock() override {
    constexpr uint64 nanoseconds = 20'000;
    harness::launch_clock_probe(nanoseconds, scratch_ + 1, stream_);
    std::uint64_t seen[2] = {};
    download(seen, scratch_ + 1, sizeof seen);
    if (seen[1] == 0) return std::nullopt;
    return ClockProbe{static_cast<double>(seen[0]) * 1e3 / static_cast<double>(seen[1])};
  }

  [[nodiscard]] std::unique_ptr<Graph> capture(Launch& launch, int operations) override {
    synchronize();
    return capture_graph(launch, operations, stream_);
  }
  void replay(Graph& graph) override {
    check(cudaGraphLaunch(static_cast<CapturedGraph&>(graph).exec(), stream_), "cudaGraphLaunch");
  }

  void trace_start() override { trace_.start(); }
  void trace_mark(std::uint64_t mark) override { trace_.mark(mark); }
  [[nodiscard]] std::vector<KernelRecord> trace_stop() override {
    wait_idle();  // a kernel that was left running elsewhere has its times, too
    return trace_.stop();
  }

  void place_scratch(std::uint64_t seed) override { arena_.place(seed); }
  [[nodiscard]] std::vector<std::size_t> scratch_offsets() const override { return arena_.offsets(); }
  [[nodiscard]] std::vector<DeviceSetting> settings() const override { return cuda_settings(); }
  void set_back(const std::vector<DeviceSetting>& settings) override { set_cuda_settings(index_, settings); }
  [[nodiscard]] Trials* trials() override { return this; }

  void profiler_start() override { static_cast<void>(cudaProfilerStart()); }
  void profiler_stop() override { static_cast<void>(cudaProfilerStop()); }

 private:
  [[nodiscard]] cudaEvent_t event(Stamp stamp) const { return stamp == Stamp::begin ? begin_.get() : end_.get(); }
  [[nodiscard]] uint32* sink() const { return reinterpret_cast<uint32*>(scratch_ + 4); }

  void dirty_flush(DirtyFlush how) override {
    switch (how) {
      case DirtyFlush::memset:
        check(cudaMemsetAsync(flush_, static_cast<int>(++flushes_ & 0xFFU),
                              std::min(info_.l2_bytes, flush_words_ * sizeof(uint32)), stream_),
              "cudaMemsetAsync");
        return;
      case DirtyFlush::write_sweep:
        harness::launch_write_sweep(static_cast<uint32*>(flush_), flush_words_, ++flushes_, blocks_, stream_);
        return;
    }
  }
  void read(const void* from, std::size_t bytes) override {
    harness::launch_read_sweep(static_cast<const uint32*>(from), bytes / sizeof(uint32), sink(), blocks_, stream_);
  }
  void write(void* to, std::size_t bytes) override {
    harness::launch_write_sweep(static_cast<uint32*>(to), bytes / sizeof(uint32), ++flushes_, blocks_, stream_);
  }
  void marked_copy(void* to, const void* from, std::size_t bytes) override {
    harness::launch_marked_copy(static_cast<uint4*>(to), static_cast<const uint4*>(from), bytes / sizeof(uint4),
                                blocks_, stream_);
  }
  [[nodiscard]] std::size_t persist(void* pointer, std::size_t bytes) override {
    const auto carve_out = static_cast<std::size_t>(cuda_attribute(cudaDevAttrMaxPersistingL2CacheSize, index_));
    const auto longest = static_cast<std::size_t>(cuda_attribute(cudaDevAttrMaxAccessPolicyWindowSize, index_));
    if (carve_out == 0 || longest == 0) return 0;
    if (bytes > longest)
      throw UnavailableError{Unavailable::arch, "a window of " + std::to_string(bytes) +
                                                    " bytes over L2: the longest here is " + std::to_string(longest)};
    // A device may say that it has a carve-out and still not give it away, as under MIG or MPS.
    const auto need = [](cudaError_t error, const char* call) {
      if (error == cudaErrorNotSupported || error == cudaErrorUnsupportedLimit) {
        static_cast<void>(cudaGetLastError());
        throw UnavailableError{Unavailable::arch, std::string{call} + ": " + cudaGetErrorString(error)};
      }
      check(error, call);
    };
    need(cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, carve_out),
         "cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize)");
    cudaStreamAttrValue window{};
    window.accessPolicyWindow.base_ptr = pointer;
    window.accessPolicyWindow.num_bytes = bytes;
    window.accessPolicyWindow.hitRatio =
        bytes <= carve_out ? 1.0F : static_cast<float>(carve_out) / static_cast<float>(bytes);
    window.accessPolicyWindow.hitProp = cudaAccessPropertyPersisting;
    window.accessPolicyWindow.missProp = cudaAccessPropertyStreaming;
    need(cudaStreamSetAttribute(stream_, cudaStreamAttributeAccessPolicyWindow, &window),
         "cudaStreamSetAttribute(access policy window)");
    return carve_out;
  }

  [[nodiscard]] std::uint64_t checksum_on(cudaStream_t stream, uint64* slot, const void* from, std::size_t bytes) {
    check(cudaMemsetAsync(slot, 0, sizeof(uint64), stream), "cudaMemsetAsync");
    harness::launch_checksum(from, bytes, slot, blocks_, stream);
    std::uint64_t total = 0;
    check(cudaMemcpyAsync(&total, slot, sizeof total, cudaMemcpyDeviceToHost, stream), "cudaMemcpyAsync to host");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    return total;
  }

  [[nodiscard]] void* allocate_at_border(std::size_t bytes, Border border) override {
    return borders_.allocate(bytes, border);
  }
  void scratch_at_border(Border border) override { arena_.place_at_border(borders_, border); }
  [[nodiscard]] void* allocate_shared(std::size_t bytes) override {
    void* memory = nullptr;
    check(cudaHostAlloc(&memory, bytes, cudaHostAllocMapped), "cudaHostAlloc");
    shared_.insert(memory);
    return memory;
  }
  [[nodiscard]] bool run_together(const Calls& one, const Calls& other) override {
    wait_idle();
    constexpr uint64 hold_ns = 1'500'000;  // both are enqueued before either begins
    auto* const first = streams_[0].get();
    auto* const second = streams_[1].get();
    for (auto* stream : {first, second}) harness::launch_delay(hold_ns, stream);
    check(cudaEventRecord(begin_.get(), first), "cudaEventRecord");
    check(cudaEventRecord(end_.get(), second), "cudaEventRecord");
    for (int i = 0; i < std::max(one.count, other.count); ++i) {
      if (i < one.count) one.launch(StreamHandle{first});
      if (i < other.count) other.launch(StreamHandle{second});
    }
    const bool held = !reached(Stamp::begin) && !reached(Stamp::end);
    check(cudaGetLastError(), "a kernel launch");
    wait_idle();
    return held;
  }
  [[nodiscard]] std::uint64_t checksum_meanwhile(const void* from, std::size_t bytes) override {
    auto* const beside = stream_ == streams_.back().get() ? streams_.front().get() : streams_.back().get();
    return checksum_on(beside, scratch_ + 3, from, bytes);
  }

  // Modules load at a kernel's first launch, which can wait for running kernels: never inside a gate.
  void preload() {
    harness::launch_empty(stream_);
    delay(1);
    flush_l2();
    fill(scratch_, 0, 2 * sizeof(uint32));
    static_cast<void>(checksum(scratch_, 2 * sizeof(uint32)));
    inspect_fill(scratch_, 0, sizeof(uint32), 0);
    spoil(scratch_, DType::i32, 1, 0);
    Inspection nothing;
    nothing.output_count = 1;
    disturb(nothing, {});
    disturb_late(nothing, {});
    inspect(nothing, {});
    judge({scratch_, DType::i32, 1, reinterpret_cast<double*>(scratch_), reinterpret_cast<float*>(scratch_), 0}, 0);
    harness::launch_amend(nullptr, nullptr, nullptr, 0, 1, stream_);
    static_cast<void>(findings());
    static_cast<void>(probe_clock());
    spin(StreamHandle{stream_}, {});
    synchronize();
  }

  int index_;
  DeviceInfo info_;
  std::array<CudaStream, 8> streams_;  // as many as the driver has hardware queues for by default
  cudaStream_t stream_ = nullptr;      // of those, the one in use
  CudaEvent begin_, end_;
  BorderedMemory borders_;
  ScratchArena arena_;
  std::set<void*> shared_;  // pinned memory of the host
  int blocks_ = 0;
  std::size_t flush_words_ = 0;
  void* flush_ = nullptr;
  uint64* scratch_ = nullptr;  // [0] checksum, [1..2] clock probe, [3] checksum meanwhile, [4] the sweep's sink
  Findings* findings_ = nullptr;
  static constexpr std::size_t checksum_slots = 16;
  uint64* sums_ = nullptr;
  uint32 flushes_ = 0;
  CuptiTrace trace_;
};

}  // namespace

std::unique_ptr<Device> make_cuda_device(int index) {
  check_cuda_index(index);
  return std::make_unique<CudaDevice>(index);
}

}  // namespace mage
