// SPDX-License-Identifier: Apache-2.0
#include "device/selftest_kernels.hpp"

namespace mage::harness {
namespace {

__device__ uint64 globaltimer_ns() {
  uint64 now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
  return now;
}

}  // namespace

// One warp, as the empty kernel of the floors has, so that both cost the same to start and to end.
__global__ void mage_harness_spin(uint64 nanoseconds, const uint32* from, uint32* to, int words, uint64* stamps) {
  const uint64 begin = globaltimer_ns();
  for (int i = static_cast<int>(threadIdx.x); i < words; i += static_cast<int>(blockDim.x)) to[i] = from[i];
  uint64 now;
  do now = globaltimer_ns();  // at least once: waiting for the copied words is inside the duration, however short
  while (now - begin < nanoseconds);
  if (threadIdx.x != 0 || stamps == nullptr) return;
  stamps[0] = begin;
  stamps[1] = now;
}

__global__ void mage_harness_marked_copy(uint4* to, const uint4* from, std::size_t vectors) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < vectors; i += stride) {
    uint4 v;
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(from + i));
    __stcs(to + i, v);
  }
}

void launch_spin(uint64 nanoseconds, const uint32* from, uint32* to, int words, uint64* stamps, cudaStream_t stream) {
  mage_harness_spin<<<1, 32, 0, stream>>>(nanoseconds, from, to, words, stamps);
}

void launch_marked_copy(uint4* to, const uint4* from, std::size_t vectors, int blocks, cudaStream_t stream) {
  mage_harness_marked_copy<<<blocks, 256, 0, stream>>>(to, from, vectors);
}

}  // namespace mage::harness
