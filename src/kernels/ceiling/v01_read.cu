// SPDX-License-Identifier: Apache-2.0
// v01_read: reads alone. A block xors one piece of 16 KiB a pass, four 16-byte loads in flight a thread at full
// occupancy. Parent v00_copy: no stores, and the next pass takes the next piece, so that L1 cannot serve it.
#include "mage_bench/device_code.cuh"

namespace mage::ceiling {

constexpr int v01_threads = 256;
constexpr int v01_unroll = 4;
constexpr int v01_piece_words = 4 * v01_threads * v01_unroll;

// volatile: a pass over the same words is no reason to leave a load out.
__device__ inline uint4 v01_load(const uint4* address) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(address));
  return v;
}

__global__ void __launch_bounds__(v01_threads, 8)
    ceiling_v01_read(const uint32* __restrict__ x, uint32* __restrict__ y, int64 words, int pieces, int passes) {
  uint32 sum = 0;
  int piece = static_cast<int>(blockIdx.x);
#pragma unroll 1
  for (int pass = 0; pass < passes; ++pass) {
    const int64 first = static_cast<int64>(piece) * v01_piece_words;
    uint32 own = 0;
    if (first + v01_piece_words <= words) {
      const uint4* from = reinterpret_cast<const uint4*>(x + first) + threadIdx.x;
      uint4 v[v01_unroll];
#pragma unroll
      for (int k = 0; k < v01_unroll; ++k) v[k] = v01_load(from + k * v01_threads);
#pragma unroll
      for (int k = 0; k < v01_unroll; ++k) own ^= v[k].x ^ v[k].y ^ v[k].z ^ v[k].w;
    } else {
#pragma unroll 1
      for (int64 i = first + threadIdx.x; i < words; i += v01_threads) own ^= x[i];
    }
    sum = __funnelshift_l(sum, sum, 1) ^ own;
    if (++piece == pieces) piece = 0;
  }
  __shared__ uint32 of_warp[v01_threads / 32];
  sum = __reduce_xor_sync(0xFFFFFFFFU, sum);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    uint32 all = 0;
#pragma unroll
    for (int warp = 0; warp < v01_threads / 32; ++warp) all ^= of_warp[warp];
    y[blockIdx.x] = (all ^ all >> 30) & 0x3FFFFFFFU;
  }
}

}  // namespace mage::ceiling

#if MAGE_HOST
#include "kernels/ceiling/ceiling.hpp"

namespace mage::ceiling {
namespace {

static_assert(v01_piece_words == piece_words);

int64 pieces(const Problem& p) { return ceil_div(p.size / 4, piece_words); }

Launch prepare(const Problem& p, const Args& a) {
  const int64 words = p.size / 4;
  const auto count = static_cast<int>(pieces(p)), passes = static_cast<int>(p.times);
  const auto* x = reinterpret_cast<const uint32*>(a.x);
  auto* y = reinterpret_cast<uint32*>(a.y);
  return [=](StreamHandle stream) {
    ceiling_v01_read<<<count, v01_threads, 0, cuda_stream(stream)>>>(x, y, words, count, passes);
  };
}

[[maybe_unused]] const Register<Ceiling> registered{{
    .parent = "v00_copy",
    .note = "read: four 16-byte loads in flight a thread, one word written a block",
    .min_cc = 80,
    .accepts = [](const Problem& p) { return p.kind == Kind::read && pieces(p) <= 0x7fffffff; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::ceiling
#endif
