// SPDX-License-Identifier: Apache-2.0
#include "test/chain/dependents.hpp"

#include <stdexcept>

#include "mage_bench/cuda.hpp"

namespace mage::test {
namespace {

constexpr int threads = 256;

__device__ inline void wait_for_kernel_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

template <Early early>
__global__ void __launch_bounds__(threads) dependent_twice_and_one(const float* x, float* y, int count) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
  const int i = static_cast<int>(blockIdx.x) * threads + static_cast<int>(threadIdx.x);
  if constexpr (early == Early::nothing) wait_for_kernel_before();
  if (i >= count) return;
  const float v = x[i];
  if constexpr (early == Early::load) wait_for_kernel_before();
  y[i] = 2.0f * v + 1.0f;
}

template <Early early>
Launch launch(const float* x, float* y, int count) {
  return [=](StreamHandle stream) {
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3{static_cast<unsigned>((count + threads - 1) / threads)};
    config.blockDim = dim3{threads};
    config.stream = cuda_stream(stream);
    config.attrs = &attribute;
    config.numAttrs = 1;
    check(cudaLaunchKernelEx(&config, dependent_twice_and_one<early>, x, y, count), "cudaLaunchKernelEx");
  };
}

}  // namespace

Launch make_dependent(Early early, const float* x, float* y, int count) {
  switch (early) {
    case Early::nothing: return launch<Early::nothing>(x, y, count);
    case Early::all: return launch<Early::all>(x, y, count);
    case Early::load: return launch<Early::load>(x, y, count);
    case Early::store:
    case Early::second: break;
  }
  throw std::logic_error{"asked for a dependent kernel that exists on the model of a device only"};
}

}  // namespace mage::test
