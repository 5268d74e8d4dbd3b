// SPDX-License-Identifier: Apache-2.0
// v18_streamed: x is loaded past L1, so that gamma and beta stay in it. Parent v11_pdl_block, whose every vector of x
// brings two of gamma and beta: should x push them out of L1, they come from L2, twice the bytes of x. Expected by
// graph: 127.5 us at 8192x8192 instead of 130.8, 33.5 at 4096x4096 instead of 34.0, 130 at 4096x16384 instead of 133.7.
// Measured: 137, 35.4 and 139 us (experiments/memory-bound/ladders.json). They stay in L1 anyway, and such loads cost.
#include "kernels/layernorm/row_block.cuh"

namespace mage::layernorm {

/// As load_now, and leaves L1 as it is.
__device__ inline float4 v18_load_past_l1(const float4* address) {
  float4 v;
  asm volatile("ld.global.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(address)
               : "memory");
  return v;
}

/// A block a row. Vectors: 16-byte vectors a thread; Warps: the most of a block.
template <int Vectors, int Warps>
__global__ void __launch_bounds__(32 * Warps)
    layernorm_v18_streamed(const float4* __restrict__ x, const float4* __restrict__ gamma,
                           const float4* __restrict__ beta, float4* __restrict__ y, float* __restrict__ mean,
                           float* __restrict__ rstd, int row_vectors, float inverse_cols) {
  row_block<Vectors, Warps, (Vectors <= 2), v18_load_past_l1>(x, gamma, beta, y, mean, rstd, row_vectors, inverse_cols);
}

}  // namespace mage::layernorm

#if MAGE_HOST
#include "kernels/layernorm/layernorm.hpp"

namespace mage::layernorm {
namespace {

template <int Vectors, int Warps>
Launch launch(const Problem& p, const Args& a) {
  const auto* x = reinterpret_cast<const float4*>(a.x);
  const auto* gamma = reinterpret_cast<const float4*>(a.gamma);
  const auto* beta = reinterpret_cast<const float4*>(a.beta);
  auto* y = reinterpret_cast<float4*>(a.y);
  const auto grid = static_cast<unsigned>(p.rows);
  const auto row_vectors = static_cast<int>(p.cols / 4);
  const float inverse_cols = 1 / static_cast<float>(p.cols);
  const auto threads = static_cast<unsigned>(32 * ceil_div(ceil_div(row_vectors, Vectors), 32));
  return [=, mean = a.mean, rstd = a.rstd](StreamHandle stream) {
    launch_kernel(layernorm_v18_streamed<Vectors, Warps>, {.grid = grid, .block = threads, .dependent = true}, stream,
                  x, gamma, beta, y, mean, rstd, row_vectors, inverse_cols);
  };
}

/// The smallest class of blocks that holds a row.
template <int Vectors>
Launch launch(const Problem& p, const Args& a) {
  const int64 threads = ceil_div(p.cols / 4, Vectors);
  if (threads <= 32) return launch<Vectors, 1>(p, a);
  if (threads <= 256) return launch<Vectors, 8>(p, a);
  return launch<Vectors, 32>(p, a);
}

Launch prepare(const Problem& p, const Args& a) {
  const int64 vectors = p.cols / 4;
  // Few rows: a thread a vector, so that each row takes as short as it can. Else the bytes in flight count.
  const bool few = p.rows <= 2 * 132;
  if (vectors <= (few ? 1024 : 32)) return launch<1>(p, a);
  if (vectors <= (few ? 2048 : 64)) return launch<2>(p, a);
  if (vectors <= (few ? 4096 : 2048)) return launch<4>(p, a);
  return launch<8>(p, a);
}

[[maybe_unused]] const Register<Layernorm> registered{{
    .parent = "v11_pdl_block",
    .note = "x is loaded past L1",
    .min_cc = 90,
    .accepts =
        [](const Problem& p) {
          return p.cols % 4 == 0 && p.offset % 4 == 0 && p.cols <= 32768 && p.rows <= 0x7fffffff;
        },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::layernorm
#endif
