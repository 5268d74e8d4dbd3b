// SPDX-License-Identifier: Apache-2.0
#include "test/chain/dependents.hpp"

#include <stdexcept>

#include "mage_bench/device_code.cuh"

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
    launch_kernel(dependent_twice_and_one<early>,
                  {.grid = static_cast<unsigned>(ceil_div(count, threads)), .block = threads, .dependent = true},
                  stream, x, y, count);
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
