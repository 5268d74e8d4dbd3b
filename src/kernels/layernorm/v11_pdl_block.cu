// SPDX-License-Identifier: Apache-2.0
// v11_pdl_block: programmatic dependent launch alone: back to back on a stream or in a graph, the blocks of one call
// start while the call before it ends. Parent v02_block, which leads from 4096x4096 on, where v10_pdl has peeled rows
// and clusters too. Expected by graph: 1.3 us less, so 33.3 us at 4096x4096, 129.7 at 8192x8192 and 133.2 at
// 4096x16384; no gain cold; a loss where blocks are many and short, as dependent ones seem to start at half the pace
// (v10_pdl).
#include "kernels/layernorm/row_block.cuh"

namespace mage::layernorm {

/// A block a row. Vectors: 16-byte vectors a thread; Warps: the most of a block.
template <int Vectors, int Warps>
__global__ void __launch_bounds__(32 * Warps)
    layernorm_v11_pdl_block(const float4* __restrict__ x, const float4* __restrict__ gamma,
                            const float4* __restrict__ beta, float4* __restrict__ y, float* __restrict__ mean,
                            float* __restrict__ rstd, int row_vectors, float inverse_cols) {
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
    launch_kernel(layernorm_v11_pdl_block<Vectors, Warps>, {.grid = grid, .block = threads, .dependent = true}, stream,
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
    .parent = "v02_block",
    .note = "programmatic dependent launch of one block a row: the next call starts while this one ends",
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
