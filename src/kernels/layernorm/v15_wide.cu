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
#include "kernels/layernorm/row_launch.cuh"

namespace mage::layernorm {
namespace {

struct Kernels {
  static constexpr bool dependent = true;
  template <int Vectors, int Warps>
  static constexpr auto* kernel = layernorm_v15_wide<Vectors, Warps>;
};

Launch prepare(const Problem& p, const Args& a) {
  const int64 vectors = p.cols / 4;
  // Few rows: a thread a vector, so that each row takes as short as it can.
  const bool few = p.rows <= 2 * 132;
  if (vectors <= (few ? 1024 : 32)) return launch_row_blocks<Kernels, 1>(p, a);
  if (vectors <= 2048) return launch_row_blocks<Kernels, 2>(p, a);
  return vectors <= 4096 ? launch_row_blocks<Kernels, 4>(p, a) : launch_row_blocks<Kernels, 8>(p, a);
}

[[maybe_unused]] const Register<Layernorm> registered{{
    .parent = "v11_pdl_block",
    .note = "twice the threads a row: fewer stores one behind the other",
    .min_cc = 90,
    .accepts = fits_a_block,
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::layernorm
#endif
