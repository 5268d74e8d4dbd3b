// SPDX-License-Identifier: Apache-2.0
// v16_deep: eight vectors a thread from 2052 columns on, where the parent has four. Parent v11_pdl_block, of which
// eight rows of 16 KB are at work on an SM at 4096x4096 and four of 32 KB at 8192x8192: with half the threads a row and
// 48 registers, ten and five are, so more bytes are in flight, and fewer warps wait for one another. Expected by graph:
// 33.5 us at 4096x4096 instead of 33.9, 129 at 8192x8192 instead of 131.
#include "kernels/layernorm/row_block.cuh"

namespace mage::layernorm {

/// A block a row. Vectors: 16-byte vectors a thread; Warps: the most of a block.
template <int Vectors, int Warps>
__global__ void __launch_bounds__(32 * Warps)
    layernorm_v16_deep(const float4* __restrict__ x, const float4* __restrict__ gamma, const float4* __restrict__ beta,
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
  static constexpr auto* kernel = layernorm_v16_deep<Vectors, Warps>;
};

[[maybe_unused]] const Register<Layernorm> registered{{
    .parent = "v11_pdl_block",
    .note = "eight vectors a thread: half the threads a row, more rows at work on an SM",
    .min_cc = 90,
    .accepts = fits_a_block,
    .prepare = prepare_row_blocks<Kernels, 512>,
}};

}  // namespace
}  // namespace mage::layernorm
#endif
