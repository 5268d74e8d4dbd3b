// SPDX-License-Identifier: Apache-2.0
// v15_wide: twice the threads a row and half the vectors a thread. Parent v11_pdl_block: at 8192x8192 on an H200 it
// reads 130.3 us by graph, where a copy of the bytes would take 126; a thread stores its vectors one by one, each
// behind its own gamma and beta, so half as many should shorten a block's tail. Expected: 129 us there, 131 at
// 4096x16384, 33.6 at 4096x4096.
// Measured by graph: 209, 133 and 45 us (experiments/memory-bound/ladders.json).
#include "kernels/layernorm/row_block.cuh"

namespace mage::layernorm {

/// A block a row. Vectors: 16-byte vectors a thread; Warps: the most of a block.
template <int Vectors, int Warps>
__global__ void __launch_bounds__(32 * Warps)
    layernorm_v15_wide(const float4* __restrict__ x, const float4* __restrict__ gamma, const float4* __restrict__ beta,
                       float4* __restrict__ y, float* __restrict__ mean, float* __restrict__ rstd, int row_vectors,
                       float inverse_cols) {
  row_block<Vectors, Warps, (Vectors <= 2)>(x, gamma, beta, y, mean, rstd, row_vectors, inverse_cols);
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
    launch_kernel(layernorm_v15_wide<Vectors, Warps>, {.grid = grid, .block = threads, .dependent = true}, stream, x,
                  gamma, beta, y, mean, rstd, row_vectors, inverse_cols);
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
  // Few rows: a thread a vector, so that each row takes as short as it can.
  const bool few = p.rows <= 2 * 132;
  if (vectors <= (few ? 1024 : 32)) return launch<1>(p, a);
  if (vectors <= 2048) return launch<2>(p, a);
  return vectors <= 4096 ? launch<4>(p, a) : launch<8>(p, a);
}

[[maybe_unused]] const Register<Layernorm> registered{{
    .parent = "v11_pdl_block",
    .note = "twice the threads a row: fewer stores one behind the other",
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
