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
#include "kernels/layernorm/row_launch.cuh"

namespace mage::layernorm {
namespace {

struct Kernels {
  static constexpr bool dependent = true;
  template <int Vectors, int Warps>
  static constexpr auto* kernel = layernorm_v11_pdl_block<Vectors, Warps>;
};

[[maybe_unused]] const Register<Layernorm> registered{{
    .parent = "v02_block",
    .note = "programmatic dependent launch of one block a row: the next call starts while this one ends",
    .min_cc = 90,
    .accepts = fits_a_block,
    .prepare = prepare_row_blocks<Kernels>,
}};

}  // namespace
}  // namespace mage::layernorm
#endif
