// SPDX-License-Identifier: Apache-2.0
// Partial sums that are their own flags: what v16_flagless brought, for it and all behind it.
#pragma once

#include "kernels/gelu_backward/slab_sums.cuh"
#include "mage_bench/device_code.cuh"

namespace mage::gelu_backward {

// A NaN that no sum is: arithmetic gives 0x7fffffff and no other.
constexpr uint32 absent = 0xffffffff;

// Relaxed: each word is data and flag at once, so nothing else has to be ordered.
__device__ inline void publish(float* address, float v) {
  asm volatile("st.relaxed.gpu.global.f32 [%0], %1;" ::"l"(address), "f"(v) : "memory");
}
__device__ inline void publish(float4* address, const float4& v) {
  asm volatile("st.relaxed.gpu.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(address), "f"(v.x), "f"(v.y), "f"(v.z),
               "f"(v.w)
               : "memory");
}
__device__ inline float poll(const float* address) {
  float v;
  asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(v) : "l"(address) : "memory");
  return v;
}
__device__ inline float4 poll(const float4* address) {
  float4 v;
  asm volatile("ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(address)
               : "memory");
  return v;
}
__device__ inline bool is_absent(float v) { return __float_as_uint(v) == absent; }
__device__ inline bool is_absent(const float4& v) {
  return is_absent(v.x) || is_absent(v.y) || is_absent(v.z) || is_absent(v.w);
}
__device__ inline float absent_like(float) { return __uint_as_float(absent); }
__device__ inline float4 absent_like(const float4&) {
  const float v = __uint_as_float(absent);
  return make_float4(v, v, v, v);
}

/// This thread's share of a unit's partial sums: slabs threadIdx.y, threadIdx.y + blockDim.y, ... Waits for each, and
/// leaves it absent for the next call. All that write them are running or done.
template <class V>
__device__ inline V take_slabs(V* partials, int slabs, int row_units, int unit) {
  constexpr int in_flight = 4;
  const int lanes = static_cast<int>(blockDim.y);
  V sum{};
  for (int slab = static_cast<int>(threadIdx.y); slab < slabs; slab += in_flight * lanes) {
    V values[in_flight];
#pragma unroll
    for (int k = 0; k < in_flight; ++k) {
      values[k] = V{};
      if (slab + k * lanes < slabs) {
        values[k] = poll(partials + static_cast<int64>(slab + k * lanes) * row_units + unit);
      }
    }
#pragma unroll
    for (int k = 0; k < in_flight; ++k) {
      if (slab + k * lanes < slabs) {
        V* const partial = partials + static_cast<int64>(slab + k * lanes) * row_units + unit;
        while (is_absent(values[k])) values[k] = poll(partial);
        publish(partial, absent_like(values[k]));
      }
      add(sum, values[k]);
    }
  }
  return sum;
}

}  // namespace mage::gelu_backward
