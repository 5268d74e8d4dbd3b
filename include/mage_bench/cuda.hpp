// SPDX-License-Identifier: Apache-2.0
// The only public header with CUDA types.
#pragma once

#include <cuda_runtime_api.h>

#include <source_location>
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

/// Memory that a variant needs between its own kernels. Allocate it in prepare() and let the Launch own it.
[[nodiscard]] inline CudaMemory allocate_scratch(std::size_t bytes) {
  CudaMemory memory;
  check(cudaMalloc(memory.put(), bytes), "cudaMalloc of scratch");
  return memory;
}

}  // namespace mage
