// SPDX-License-Identifier: Apache-2.0
// v04_ffma: FP32 multiply-adds alone, eight independent chains a thread, unrolled 32 steps. Parent v00_copy: arithmetic
// instead of memory. The values are integers up to 2^24 that change sign and bits at each step, so that it draws power.
#include "mage_bench/device_code.cuh"

namespace mage::ceiling {

constexpr int v04_threads = 256;
constexpr int v04_chains = 8;
constexpr int v04_unroll = 32;  // steps: 256 multiply-adds beside the loop's own few instructions

__global__ void __launch_bounds__(v04_threads, 8)
    ceiling_v04_ffma(const float* __restrict__ x, const float* __restrict__ addend, int* __restrict__ y, int64 count,
                     int steps, float multiplier) {
  const int64 i = static_cast<int64>(blockIdx.x) * v04_threads + threadIdx.x;
  if (i >= count) return;
  const float b = *addend * 1048576.0f;
  const int n = static_cast<int>(x[i] * 1048576.0f);
  float v[v04_chains];
#pragma unroll
  for (int k = 0; k < v04_chains; ++k) v[k] = static_cast<float>(n >> k);
  int left = steps;
#pragma unroll 1
  for (; left >= v04_unroll; left -= v04_unroll) {
#pragma unroll
    for (int step = 0; step < v04_unroll; ++step) {
#pragma unroll
      for (int k = 0; k < v04_chains; ++k) v[k] = fmaf(multiplier, v[k], b);
    }
  }
#pragma unroll 1
  for (; left > 0; --left) {
#pragma unroll
    for (int k = 0; k < v04_chains; ++k) v[k] = fmaf(multiplier, v[k], b);
  }
  int all = 0;
#pragma unroll
  for (int k = 0; k < v04_chains; ++k) all ^= static_cast<int>(v[k]);
  y[i] = all;
}

}  // namespace mage::ceiling

#if MAGE_HOST
#include "kernels/ceiling/ceiling.hpp"

namespace mage::ceiling {
namespace {

static_assert(v04_chains == chains);

int64 blocks(const Problem& p) { return ceil_div(p.size, v04_threads); }

Launch prepare(const Problem& p, const Args& a) {
  const int64 count = p.size;
  const auto grid = static_cast<unsigned>(blocks(p));
  const auto steps = static_cast<int>(p.times);
  auto* y = reinterpret_cast<int*>(a.y);
  return [=](StreamHandle stream) {
    ceiling_v04_ffma<<<grid, v04_threads, 0, cuda_stream(stream)>>>(a.x, a.addend, y, count, steps, a.multiplier);
  };
}

[[maybe_unused]] const Register<Ceiling> registered{{
    .parent = "v00_copy",
    .note = "ffma: eight chains a thread in registers, 2048 threads an SM",
    .min_cc = 80,
    .accepts = [](const Problem& p) { return p.kind == Kind::ffma && blocks(p) <= 0x7fffffff; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::ceiling
#endif
