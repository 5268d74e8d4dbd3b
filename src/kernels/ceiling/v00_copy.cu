// SPDX-License-Identifier: Apache-2.0
// v00_copy: reads and writes, one 16-byte vector a thread, the odd words at the end one a thread. The first: frozen.
#include "mage_bench/device_code.cuh"

namespace mage::ceiling {

__global__ void ceiling_v00_copy(const float* __restrict__ x, float* __restrict__ y, int64 vectors, int64 words) {
  const int64 i = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < vectors) {
    reinterpret_cast<float4*>(y)[i] = reinterpret_cast<const float4*>(x)[i];
  } else {
    const int64 rest = 3 * vectors + i;  // thread `vectors` takes word 4 * vectors
    if (rest < words) y[rest] = x[rest];
  }
}

}  // namespace mage::ceiling

#if MAGE_HOST
#include "kernels/ceiling/ceiling.hpp"

namespace mage::ceiling {
namespace {

constexpr int64 threads = 256;

int64 blocks(const Problem& p) {
  const int64 words = p.size / 4;
  return (words / 4 + words % 4 + threads - 1) / threads;
}

Launch prepare(const Problem& p, const Args& a) {
  const int64 words = p.size / 4, vectors = words / 4;
  const auto grid = static_cast<unsigned>(blocks(p));
  return [=](StreamHandle stream) {
    ceiling_v00_copy<<<grid, threads, 0, cuda_stream(stream)>>>(a.x, a.y, vectors, words);
  };
}

[[maybe_unused]] const Register<Ceiling> registered{{
    .parent = "",
    .note = "copy: one float4 a thread",
    .min_cc = 80,
    .accepts = [](const Problem& p) { return p.kind == Kind::copy && blocks(p) <= 0x7fffffff; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::ceiling
#endif
