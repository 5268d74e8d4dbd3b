// SPDX-License-Identifier: Apache-2.0
// v02_write: writes alone, four 16-byte vectors a thread, each word a hash of its place. Parent v00_copy: no loads.
// What is smaller than L2 stays there, and seems faster than memory.
#include "mage_bench/device_code.cuh"

namespace mage::ceiling {

constexpr int v02_threads = 256;
constexpr int v02_unroll = 4;

__device__ inline uint32 v02_value(int64 i) {
  const uint32 hash = static_cast<uint32>(i) * 0x9E3779B9U ^ static_cast<uint32>(i >> 32);
  return (hash ^ hash >> 30) & 0x3FFFFFFFU;
}

__global__ void __launch_bounds__(v02_threads) ceiling_v02_write(uint32* __restrict__ y, int64 vectors, int64 words) {
  const int64 first = static_cast<int64>(blockIdx.x) * (v02_threads * v02_unroll) + threadIdx.x;
#pragma unroll
  for (int k = 0; k < v02_unroll; ++k) {
    const int64 i = first + k * v02_threads;
    if (i < vectors) {
      reinterpret_cast<uint4*>(y)[i] =
          make_uint4(v02_value(4 * i), v02_value(4 * i + 1), v02_value(4 * i + 2), v02_value(4 * i + 3));
    } else {
      const int64 rest = 3 * vectors + i;  // the odd words behind the last vector, one a thread
      if (rest < words) y[rest] = v02_value(rest);
    }
  }
}

}  // namespace mage::ceiling

#if MAGE_HOST
#include "kernels/ceiling/ceiling.hpp"

namespace mage::ceiling {
namespace {

int64 blocks(const Problem& p) {
  constexpr int64 tile = v02_threads * v02_unroll;
  const int64 words = p.size / 4;
  return ceil_div(words / 4 + words % 4, tile);
}

Launch prepare(const Problem& p, const Args& a) {
  const int64 words = p.size / 4, vectors = words / 4;
  const auto grid = static_cast<unsigned>(blocks(p));
  auto* y = reinterpret_cast<uint32*>(a.y);
  return
      [=](StreamHandle stream) { ceiling_v02_write<<<grid, v02_threads, 0, cuda_stream(stream)>>>(y, vectors, words); };
}

[[maybe_unused]] const Register<Ceiling> registered{{
    .parent = "v00_copy",
    .note = "write: four 16-byte stores a thread, no load",
    .min_cc = 80,
    .accepts = [](const Problem& p) { return p.kind == Kind::write && blocks(p) <= 0x7fffffff; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::ceiling
#endif
