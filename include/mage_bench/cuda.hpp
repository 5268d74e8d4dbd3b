// SPDX-License-Identifier: Apache-2.0
// The only public header with CUDA types.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <source_location>
#include <type_traits>
#include <utility>

#include "mage_bench/launch.hpp"

namespace mage {

namespace detail {
[[noreturn]] void throw_cuda_error(cudaError_t error, const char* what, std::source_location where);
}

/// Throws std::runtime_error that names the call, the error, and the place. Clears the runtime's last error.
inline void check(cudaError_t error, const char* what, std::source_location where = std::source_location::current()) {
  if (error != cudaSuccess) detail::throw_cuda_error(error, what, where);
}

[[nodiscard]] inline cudaStream_t cuda_stream(StreamHandle stream) { return static_cast<cudaStream_t>(stream.raw()); }

/// Owns one CUDA handle; one handle has one owner.
template <class Handle, cudaError_t (*Destroy)(Handle)>
class CudaHandle {
 public:
  CudaHandle() = default;
  explicit CudaHandle(Handle raw) : raw_{raw} {}
  CudaHandle(CudaHandle&& other) noexcept : raw_{std::exchange(other.raw_, nullptr)} {}
  CudaHandle& operator=(CudaHandle&& other) noexcept {
    std::swap(raw_, other.raw_);
    return *this;
  }
  CudaHandle(const CudaHandle&) = delete;
  CudaHandle& operator=(const CudaHandle&) = delete;
  ~CudaHandle() {
    if (raw_ != nullptr) static_cast<void>(Destroy(raw_));  // a destructor can report nothing
  }
  [[nodiscard]] Handle get() const { return raw_; }
  [[nodiscard]] Handle* put() { return &raw_; }

 private:
  Handle raw_ = nullptr;
};

using CudaStream = CudaHandle<cudaStream_t, cudaStreamDestroy>;
using CudaEvent = CudaHandle<cudaEvent_t, cudaEventDestroy>;
using CudaGraph = CudaHandle<cudaGraph_t, cudaGraphDestroy>;
using CudaGraphExec = CudaHandle<cudaGraphExec_t, cudaGraphExecDestroy>;
using CudaMemory = CudaHandle<void*, cudaFree>;

/// Owns memory that allocate_scratch() gave.
class Scratch {
 public:
  Scratch() = default;
  Scratch(Scratch&& other) noexcept : raw_{std::exchange(other.raw_, nullptr)} {}
  Scratch& operator=(Scratch&& other) noexcept {
    std::swap(raw_, other.raw_);
    return *this;
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch();
  [[nodiscard]] void* get() const { return raw_; }

 private:
  explicit Scratch(void* raw) : raw_{raw} {}
  friend Scratch allocate_scratch(std::size_t bytes);
  void* raw_ = nullptr;
};

/// Memory that a variant needs between its own kernels. Allocate it in prepare() and let the Launch own it: where it
/// lies is drawn anew in every round. Aligned to 256 bytes. All bytes are 0xFF: what should be 0 the variant sets to 0.
[[nodiscard]] Scratch allocate_scratch(std::size_t bytes);

/// How a kernel starts, beyond what <<<>>> can say.
struct LaunchShape {
  dim3 grid{0, 0, 0}, block{0, 0, 0};  // forgotten ones are refused
  std::size_t shared_bytes = 0;        ///< of dynamic shared memory
  dim3 cluster{1, 1, 1};               ///< blocks of a cluster; of one block: no cluster
  /// Programmatic dependent launch: blocks may start while the kernel before on the stream ends, and wait for it
  /// themselves (griddepcontrol.wait).
  bool dependent = false;
  std::source_location where = std::source_location::current();  ///< named by errors: where this shape is written
};

namespace detail {

/// A shape in the runtime's form, which points at its own attributes.
class LaunchConfig {
 public:
  explicit LaunchConfig(const LaunchShape& shape, StreamHandle stream = {}) {
    config_.gridDim = shape.grid;
    config_.blockDim = shape.block;
    config_.dynamicSmemBytes = shape.shared_bytes;
    config_.stream = cuda_stream(stream);
    config_.attrs = attributes_;
    if (shape.dependent)
      add(cudaLaunchAttributeProgrammaticStreamSerialization).programmaticStreamSerializationAllowed = 1;
    if (const dim3 c = shape.cluster; c.x * c.y * c.z > 1)
      add(cudaLaunchAttributeClusterDimension).clusterDim = {.x = c.x, .y = c.y, .z = c.z};
  }
  LaunchConfig(const LaunchConfig&) = delete;
  LaunchConfig& operator=(const LaunchConfig&) = delete;

  [[nodiscard]] const cudaLaunchConfig_t* get() const { return &config_; }

 private:
  cudaLaunchAttributeValue& add(cudaLaunchAttributeID id) {
    cudaLaunchAttribute& attribute = attributes_[config_.numAttrs++];
    attribute.id = id;
    return attribute.val;
  }

  cudaLaunchAttribute attributes_[2]{};
  cudaLaunchConfig_t config_{};
};

}  // namespace detail

/// The arguments become the kernel's parameters as in a call.
template <class... Parameters>
void launch_kernel(void (*kernel)(Parameters...), const LaunchShape& shape, StreamHandle stream,
                   std::type_identity_t<Parameters>... arguments) {
  const detail::LaunchConfig config{shape, stream};
  std::array<void*, sizeof...(Parameters)> addresses{&arguments...};
  check(cudaLaunchKernelExC(config.get(), reinterpret_cast<const void*>(kernel), addresses.data()),
        "cudaLaunchKernelExC", shape.where);
}

/// Clusters of this shape that the current device holds at once.
template <class... Parameters>
[[nodiscard]] int resident_clusters(void (*kernel)(Parameters...), const LaunchShape& shape) {
  const detail::LaunchConfig config{shape};
  int clusters = 0;
  check(cudaOccupancyMaxActiveClusters(&clusters, reinterpret_cast<const void*>(kernel), config.get()),
        "cudaOccupancyMaxActiveClusters", shape.where);
  return clusters;
}

}  // namespace mage
