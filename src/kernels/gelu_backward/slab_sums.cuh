// SPDX-License-Identifier: Apache-2.0
// Sums over a block's rows, and over the slabs of rows that blocks own: each in one order, so that bits repeat.
// V is float4 or float: the columns of a thread. A unit is one V of a row.
#pragma once

#include "mage_bench/device_code.cuh"

namespace mage::gelu_backward {

constexpr int slab_threads = 256;  // of a block, at most

__device__ inline void add(float& sum, float value) { sum += value; }
__device__ inline void add(float4& sum, const float4& value) {
  sum.x += value.x;
  sum.y += value.y;
  sum.z += value.z;
  sum.w += value.w;
}

/// The sum of `value` over threadIdx.y, for the threads where that is 0. All threads of the block call it.
template <class V>
__device__ inline V sum_over_lanes(V value) {
  __shared__ V values[slab_threads];
  values[threadIdx.y * blockDim.x + threadIdx.x] = value;
  __syncthreads();
  if (threadIdx.y == 0) {
#pragma unroll 4
    for (unsigned lane = 1; lane < blockDim.y; ++lane) add(value, values[lane * blockDim.x + threadIdx.x]);
  }
  __syncthreads();  // before the next call writes them
  return value;
}

// The loads are volatile and not .nc, so that no compiler moves one above the wait for the call before.
__device__ inline float load_now(const float* address) {
  float v;
  asm volatile("ld.global.f32 %0, [%1];" : "=f"(v) : "l"(address) : "memory");
  return v;
}
__device__ inline float4 load_now(const float4* address) {
  float4 v;
  asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(address)
               : "memory");
  return v;
}

// Volatile, so that no compiler moves one above a wait or a fence, and from L2, where other blocks' stores are.
__device__ inline float load_partial(const float* address) {
  float v;
  asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(v) : "l"(address) : "memory");
  return v;
}
__device__ inline float4 load_partial(const float4* address) {
  float4 v;
  asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(address)
               : "memory");
  return v;
}

/// This thread's share of a unit's partial sums: slabs threadIdx.y, threadIdx.y + blockDim.y, ...
template <class V>
__device__ inline V sum_of_slabs(const V* partials, int slabs, int row_units, int unit) {
  constexpr int in_flight = 8;
  const int lanes = static_cast<int>(blockDim.y);
  V sum{};
  for (int slab = static_cast<int>(threadIdx.y); slab < slabs; slab += in_flight * lanes) {
    V values[in_flight];
#pragma unroll
    for (int k = 0; k < in_flight; ++k) {
      values[k] = V{};
      if (slab + k * lanes < slabs) {
        values[k] = load_partial(partials + static_cast<int64>(slab + k * lanes) * row_units + unit);
      }
    }
#pragma unroll
    for (int k = 0; k < in_flight; ++k) add(sum, values[k]);
  }
  return sum;
}

/// True in all threads of the block that arrives last of `count`, which sees what the others wrote before they came.
/// The counter starts at 0 and is 0 again after the last.
__device__ inline bool arrives_last(unsigned* counter, unsigned count) {
  __syncthreads();  // orders the block's stores before the release of one thread, and that holds for all of them
  bool last = false;
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    unsigned before;
    asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(counter), "r"(count - 1)
                 : "memory");
    last = before == count - 1;
  }
  return __syncthreads_or(last ? 1 : 0) != 0;
}

}  // namespace mage::gelu_backward
