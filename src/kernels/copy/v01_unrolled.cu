// SPDX-License-Identifier: Apache-2.0
// v01_unrolled: four independent 16-byte loads a thread before the first store, L1 bypassed, evict-first stores.
// Parent v00_float4: 64 bytes in flight a thread instead of 16, and a quarter of the blocks to start.
#include "mage_bench/device_code.cuh"

namespace mage::copy {

constexpr unsigned v01_threads = 256;
constexpr unsigned v01_unroll = 4;
constexpr unsigned v01_tile = v01_threads * v01_unroll;  // vectors a block

__device__ inline float4 v01_load(const float4* address) {
  float4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(address));
  return v;
}

__global__ void __launch_bounds__(v01_threads)
    copy_v01_unrolled(const float* __restrict__ x, float* __restrict__ y, int64 vectors, int64 elements) {
  const int64 first = static_cast<int64>(blockIdx.x) * v01_tile;
  const float4* from = reinterpret_cast<const float4*>(x) + first + threadIdx.x;
  float4* to = reinterpret_cast<float4*>(y) + first + threadIdx.x;
  float4 v[v01_unroll];
  if (first + v01_tile <= vectors) {
#pragma unroll
    for (unsigned k = 0; k < v01_unroll; ++k) v[k] = v01_load(from + k * v01_threads);
#pragma unroll
    for (unsigned k = 0; k < v01_unroll; ++k) __stcs(to + k * v01_threads, v[k]);
  } else {
#pragma unroll 1
    for (int64 i = first + threadIdx.x; i < vectors; i += v01_threads) {
      reinterpret_cast<float4*>(y)[i] = reinterpret_cast<const float4*>(x)[i];
    }
    const int64 rest = 4 * vectors + threadIdx.x;
    if (rest < elements) y[rest] = x[rest];
  }
}

}  // namespace mage::copy

#if MAGE_HOST
#include "kernels/copy/copy.hpp"

namespace mage::copy {
namespace {

// The last block is never a full tile, so that it also finds the odd elements behind the last vector.
int64 blocks(const Problem& p) { return p.rows * p.cols / 4 / v01_tile + 1; }

Launch prepare(const Problem& p, const Args& a) {
  const int64 elements = p.rows * p.cols, vectors = elements / 4;
  const auto grid = static_cast<unsigned>(blocks(p));
  return [=](StreamHandle stream) {
    copy_v01_unrolled<<<grid, v01_threads, 0, cuda_stream(stream)>>>(a.x, a.y, vectors, elements);
  };
}

[[maybe_unused]] const Register<Copy> registered{{
    .parent = "v00_float4",
    .note = "four float4 in flight a thread, L1 bypassed, evict-first stores",
    .min_cc = 80,
    .accepts = [](const Problem& p) { return blocks(p) <= 0x7fffffff; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::copy
#endif
