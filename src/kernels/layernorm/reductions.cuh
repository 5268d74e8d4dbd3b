// SPDX-License-Identifier: Apache-2.0
// What the variants share: sums over lanes and over a block, of which every thread gets the same bits, the arithmetic
// of a vector, and the wait of a dependent launch.
#pragma once

#include "mage_bench/device_code.cuh"

namespace mage::layernorm {

constexpr float epsilon = 1e-5f;

/// The sum over groups of `Lanes` neighbouring lanes. Every lane of the warp must call it.
template <int Lanes = 32>
__device__ inline float lane_sum(float v) {
#pragma unroll
  for (int mask = Lanes / 2; mask > 0; mask /= 2) v += __shfl_xor_sync(0xffffffffu, v, mask);
  return v;
}

/// The sum over a block of at most `Warps` whole warps; a barrier where that is more than one. `partials` is shared
/// memory of this call's own: it may be used again only behind another barrier.
template <int Warps>
__device__ inline float block_sum(float v, float* partials) {
  v = lane_sum(v);
  if constexpr (Warps > 1) {
    static_assert(Warps % 4 == 0 && Warps <= 32);
    const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
    if (lane == 0) partials[warp] = v;
    if (warp == 0 && lane < Warps && lane >= static_cast<int>(blockDim.x / 32)) partials[lane] = 0;
    __syncthreads();
    // All of them by every thread: few broadcast loads in flight together, where shuffles would be one after another.
    const auto* four = reinterpret_cast<const float4*>(partials);
    float4 sum = four[0];
#pragma unroll
    for (int i = 1; i < Warps / 4; ++i) {
      const float4 next = four[i];
      sum.x += next.x;
      sum.y += next.y;
      sum.z += next.z;
      sum.w += next.w;
    }
    v = (sum.x + sum.y) + (sum.z + sum.w);
  }
  return v;
}

/// A load that stays above the next barrier: not .nc, which the compiler moves down to its use.
__device__ inline float4 load_now(const float4* address) {
  float4 v;
  asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(address)
               : "memory");
  return v;
}

/// The same past L1, which keeps what it has.
__device__ inline float4 load_past_l1(const float4* address) {
  float4 v;
  asm volatile("ld.global.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(address)
               : "memory");
  return v;
}

__device__ inline float load_now(const float* address) {
  float v;
  asm volatile("ld.global.f32 %0, [%1];" : "=f"(v) : "l"(address) : "memory");
  return v;
}

/// Lets the next call's blocks start, and waits until the call before has written all it writes. Loads below it are
/// load_now's, which no compiler moves above it.
__device__ inline void wait_for_the_call_before() {
#if __CUDA_ARCH__ >= 900  // a build for older devices compiles this file too; min_cc keeps it from running there
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ inline float sum_of(const float4& v) { return (v.x + v.y) + (v.z + v.w); }

/// v about `mean`, in place; the sum of its squares.
__device__ inline float centre(float4& v, float mean) {
  v = make_float4(v.x - mean, v.y - mean, v.z - mean, v.w - mean);
  return fmaf(v.x, v.x, v.y * v.y) + fmaf(v.z, v.z, v.w * v.w);
}

/// Of a centred v.
__device__ inline float4 affine(const float4& v, float rstd, const float4& gamma, const float4& beta) {
  return make_float4(fmaf(v.x * rstd, gamma.x, beta.x), fmaf(v.y * rstd, gamma.y, beta.y),
                     fmaf(v.z * rstd, gamma.z, beta.z), fmaf(v.w * rstd, gamma.w, beta.w));
}

}  // namespace mage::layernorm
