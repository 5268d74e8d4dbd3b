// SPDX-License-Identifier: Apache-2.0
#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <stdexcept>

#include "device/cuda_info.hpp"
#include "device/cupti_trace.hpp"
#include "device/harness_kernels.hpp"
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

// A CUPTI or capture refusal is about the tool, an illegal address about the variant.
bool is_capture_error(cudaError_t error) {
  switch (error) {
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureInvalidated:
    case cudaErrorStreamCaptureMerge:
    case cudaErrorStreamCaptureUnmatched:
    case cudaErrorStreamCaptureUnjoined:
    case cudaErrorStreamCaptureIsolation:
    case cudaErrorStreamCaptureImplicit:
    case cudaErrorStreamCaptureWrongThread: return true;
    default: return false;
  }
}

class CapturedGraph final : public Graph {
 public:
  CapturedGraph(CudaGraph graph, cudaStream_t stream) : graph_{std::move(graph)} {
    std::size_t count = 0;
    check(cudaGraphGetNodes(graph_.get(), nullptr, &count), "cudaGraphGetNodes");
    std::vector<cudaGraphNode_t> nodes(count);
    check(cudaGraphGetNodes(graph_.get(), nodes.data(), &count), "cudaGraphGetNodes");
    for (auto* node : nodes) {
      cudaGraphNodeType type{};
      check(cudaGraphNodeGetType(node, &type), "cudaGraphNodeGetType");
      (type == cudaGraphNodeTypeKernel ? kernel_nodes_ : other_nodes_) += 1;
    }
    const auto begin = std::chrono::steady_clock::now();
    check(cudaGraphInstantiate(exec_.put(), graph_.get(), 0), "cudaGraphInstantiate");
    instantiate_us_ = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
    check(cudaGraphUpload(exec_.get(), stream), "cudaGraphUpload");
  }
  void renew(cudaStream_t stream) {
    CudaGraphExec fresh;  // made before the old one goes, which would hand on its place
    check(cudaGraphInstantiate(fresh.put(), graph_.get(), 0), "cudaGraphInstantiate");
    check(cudaGraphUpload(fresh.get(), stream), "cudaGraphUpload");
    exec_ = std::move(fresh);
  }
  [[nodiscard]] int kernel_nodes() const override { return kernel_nodes_; }
  [[nodiscard]] int other_nodes() const override { return other_nodes_; }
  [[nodiscard]] double instantiate_us() const override { return instantiate_us_; }
  [[nodiscard]] cudaGraphExec_t exec() const { return exec_.get(); }

 private:
  CudaGraph graph_;
  CudaGraphExec exec_;
  int kernel_nodes_ = 0, other_nodes_ = 0;
  double instantiate_us_ = 0;
};

class CudaDevice final : public Device, private CacheExperiments {
 public:
  explicit CudaDevice(int index) : index_{index} {
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
    scratch_ = static_cast<uint64*>(allocate(4 * sizeof(uint64)));
    preload();
    std::size_t total = 0;
    check(cudaMemGetInfo(&info_.free_bytes, &total), "cudaMemGetInfo");
  }
  ~CudaDevice() override {
    static_cast<void>(cudaStreamSynchronize(stream_));
    deallocate(flush_);
    deallocate(scratch_);
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
  void deallocate(void* pointer) noexcept override { static_cast<void>(cudaFree(pointer)); }
  void upload(void* to, const void* from_host, std::size_t bytes) override {
    check(cudaMemcpyAsync(to, from_host, bytes, cudaMemcpyHostToDevice, stream_), "cudaMemcpyAsync to device");
    synchronize();
  }
  void download(void* to_host, const void* from, std::size_t bytes) override {
    check(cudaMemcpyAsync(to_host, from, bytes, cudaMemcpyDeviceToHost, stream_), "cudaMemcpyAsync to host");
    synchronize();
  }
  void fill(void* to, std::uint32_t pattern, std::size_t words) override {
    if (words != 0) harness::launch_fill(static_cast<uint32*>(to), words, pattern, blocks_, stream_);
  }
  [[nodiscard]] std::uint64_t checksum(const void* from, std::size_t words) override {
    check(cudaMemsetAsync(scratch_, 0, sizeof(uint64), stream_), "cudaMemsetAsync");
    harness::launch_checksum(static_cast<const uint32*>(from), words, scratch_, blocks_, stream_);
    std::uint64_t total = 0;
    download(&total, scratch_, sizeof total);
    return total;
  }

  void speckle(void* to, std::size_t words, std::uint64_t seed, std::uint32_t pattern) override {
    harness::launch_speckle(static_cast<uint32*>(to), words, seed, pattern, stream_);
  }
  [[nodiscard]] int count_speckles(const void* from, std::size_t words, std::uint64_t seed,
                                   std::uint32_t pattern) override {
    check(cudaMemsetAsync(scratch_, 0, sizeof(uint64), stream_), "cudaMemsetAsync");
    harness::launch_count_speckles(static_cast<const uint32*>(from), words, seed, pattern, scratch_, stream_);
    std::uint64_t total = 0;
    download(&total, scratch_, sizeof total);
    return static_cast<int>(total);
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
    if (error == cudaErrorUnsupportedLimit) {  // a device without a carve-out has nothing to give back
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
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    std::string thrown;
    try {
      for (int i = 0; i < operations; ++i) launch(StreamHandle{stream_});
    } catch (const std::exception& error) {
      thrown = error.what();  // the capture must end first, or the stream is of no more use
    }
    const auto inside = cudaGetLastError();
    CudaGraph graph;
    const auto ended = cudaStreamEndCapture(stream_, graph.put());
    static_cast<void>(cudaGetLastError());
    for (const auto error : {inside, ended})
      if (is_capture_error(error))
        throw UnavailableError{
            error == cudaErrorStreamCaptureUnsupported ? Unavailable::needs_sync : Unavailable::capture_illegal,
            std::string{"stream capture: "} + cudaGetErrorString(error) + (thrown.empty() ? "" : "; ") + thrown};
    if (!thrown.empty()) throw UnavailableError{Unavailable::capture_illegal, "inside a capture: " + thrown};
    check(inside, "a launch inside a capture");
    check(ended, "cudaStreamEndCapture");
    return std::make_unique<CapturedGraph>(std::move(graph), stream_);
  }
  void renew(Graph& graph) override {
    synchronize();
    static_cast<CapturedGraph&>(graph).renew(stream_);
  }
  void replay(Graph& graph) override {
    check(cudaGraphLaunch(static_cast<CapturedGraph&>(graph).exec(), stream_), "cudaGraphLaunch");
  }

  void trace_start() override { trace_.start(); }
  void trace_mark(std::uint64_t mark) override { trace_.mark(mark); }
  [[nodiscard]] std::vector<KernelRecord> trace_stop() override {
    synchronize();
    return trace_.stop();
  }

  void profiler_start() override { static_cast<void>(cudaProfilerStart()); }
  void profiler_stop() override { static_cast<void>(cudaProfilerStop()); }

 private:
  [[nodiscard]] cudaEvent_t event(Stamp stamp) const { return stamp == Stamp::begin ? begin_.get() : end_.get(); }
  [[nodiscard]] uint32* sink() const { return reinterpret_cast<uint32*>(scratch_ + 3); }

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
  void copy(void* to, const void* from, std::size_t bytes) override {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_), "cudaMemcpyAsync on the device");
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

  // Modules load at a kernel's first launch, which can wait for running kernels: never inside a gate.
  void preload() {
    harness::launch_empty(stream_);
    delay(1);
    flush_l2();
    fill(scratch_, 0, 2);
    static_cast<void>(checksum(scratch_, 2));
    speckle(scratch_, 2, 0, 0);
    static_cast<void>(count_speckles(scratch_, 2, 0, 0));
    static_cast<void>(probe_clock());
    spin(StreamHandle{stream_}, {});
    synchronize();
  }

  int index_;
  DeviceInfo info_;
  std::array<CudaStream, 8> streams_;  // as many as the driver has hardware queues for by default
  cudaStream_t stream_ = nullptr;      // of those, the one in use
  CudaEvent begin_, end_;
  int blocks_ = 0;
  std::size_t flush_words_ = 0;
  void* flush_ = nullptr;
  uint64* scratch_ = nullptr;  // [0] checksum, [1..2] clock probe, [3] the sweep's sink
  uint32 flushes_ = 0;
  CuptiTrace trace_;
};

}  // namespace

CudaPresence cuda_presence() {
  int count = 0;
  const auto error = cudaGetDeviceCount(&count);
  static_cast<void>(cudaGetLastError());
  const std::string no_device{explain(Unavailable::no_cuda_device)};
  if (error != cudaSuccess) return {0, Unavailable::no_cuda_device, no_device + " (" + cudaGetErrorString(error) + ")"};
  if (count == 0) return {0, Unavailable::no_cuda_device, no_device};
  return {count, std::nullopt, {}};
}

std::unique_ptr<Device> make_cuda_device(int index) {
  const auto presence = cuda_presence();
  if (presence.why_not) throw UnavailableError{*presence.why_not, presence.detail};
  if (index < 0 || index >= presence.count)
    throw std::invalid_argument{"device " + std::to_string(index) + " asked for, but there are " +
                                std::to_string(presence.count) + ": use 0 to " + std::to_string(presence.count - 1)};
  return std::make_unique<CudaDevice>(index);
}

}  // namespace mage
