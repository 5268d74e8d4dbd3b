// SPDX-License-Identifier: Apache-2.0
// v18_streamed: x is loaded past L1, so that gamma and beta stay in it. Parent v11_pdl_block, whose every vector of x
// brings two of gamma and beta: should x push them out of L1, they come from L2, twice the bytes of x. Expected by
// graph: 127.5 us at 8192x8192 instead of 130.8, 33.5 at 4096x4096 instead of 34.0, 130 at 4096x16384 instead of 133.7.
// Measured: 137, 35.4 and 139 us (experiments/memory-bound/ladders.json). They stay in L1 anyway, and such loads cost.
#include "kernels/layernorm/row_block.cuh"

namespace mage::layernorm {

/// A block a row. Vectors: 16-byte vectors a thread; Warps: the most of a block.
template <int Vectors, int Warps>
__global__ void __launch_bounds__(32 * Warps)
    layernorm_v18_streamed(const float4* __restrict__ x, const float4* __restrict__ gamma,
                           const float4* __restrict__ beta, float4* __restrict__ y, float* __restrict__ mean,
                           float* __restrict__ rstd, int row_vectors, float inverse_cols) {
  row_block<Vectors, Warps, (Vectors <= 2), load_past_l1>(x, gamma, beta, y, mean, rstd, row_vectors, inverse_cols);
}

}  // namespace mage::layernorm

#if MAGE_HOST
#include "kernels/layernorm/row_launch.cuh"

namespace mage::layernorm {
namespace {

struct Kernels {
  static constexpr bool dependent = true;
  template <int Vectors, int Warps>
  static constexpr auto* kernel = layernorm_v18_streamed<Vectors, Warps>;
};

[[maybe_unused]] const Register<Layernorm> registered{{
    .parent = "v11_pdl_block",
    .note = "x is loaded past L1",
    .min_cc = 90,
    .accepts = fits_a_block,
    .prepare = prepare_row_blocks<Kernels>,
}};

}  // namespace
}  // namespace mage::layernorm
#endif
