// SPDX-License-Identifier: Apache-2.0
// v02_block: as many threads a row as hold it in registers, 4 to 32 elements each, by 16-byte accesses. Parent
// v01_warp: a row of any length is read once, and its loads are all in flight together. Expected: 90 % of copy speed
// from 1k to 8k columns; below, the blocks are too small for an SM's 32.
#include "kernels/layernorm/reductions.cuh"

namespace mage::layernorm {

/// A block a row. Vectors: 16-byte vectors a thread; Warps: the most of a block.
template <int Vectors, int Warps>
__global__ void __launch_bounds__(32 * Warps)
    layernorm_v02_block(const float4* __restrict__ x, const float4* __restrict__ gamma, const float4* __restrict__ beta,
                        float4* __restrict__ y, float* __restrict__ mean, float* __restrict__ rstd, int row_vectors,
                        float inverse_cols) {
  __shared__ alignas(16) float sums[Warps], squares[Warps];
  const int64 row = blockIdx.x;
  x += row * row_vectors;
  y += row * row_vectors;

  constexpr bool early = Vectors <= 2;  // there are registers to load gamma and beta while the sums are on their way
  float4 v[Vectors], g[Vectors], b[Vectors];
  float sum = 0, square = 0;
#pragma unroll
  for (int k = 0; k < Vectors; ++k) {
    const auto i = static_cast<int>(threadIdx.x + k * blockDim.x);
    v[k] = i < row_vectors ? x[i] : float4{};
  }
#pragma unroll
  for (int k = 0; early && k < Vectors; ++k) {
    const auto i = static_cast<int>(threadIdx.x + k * blockDim.x);
    g[k] = i < row_vectors ? load_now(gamma + i) : float4{};
    b[k] = i < row_vectors ? load_now(beta + i) : float4{};
  }
#pragma unroll
  for (int k = 0; k < Vectors; ++k) sum += sum_of(v[k]);
  const float m = block_sum<Warps>(sum, sums) * inverse_cols;
#pragma unroll
  for (int k = 0; k < Vectors; ++k) {
    if (static_cast<int>(threadIdx.x + k * blockDim.x) < row_vectors) square += centre(v[k], m);
  }
  const float r = rsqrtf(fmaf(block_sum<Warps>(square, squares), inverse_cols, epsilon));
#pragma unroll
  for (int k = 0; k < Vectors; ++k) {
    const auto i = static_cast<int>(threadIdx.x + k * blockDim.x);
    if (i < row_vectors) y[i] = affine(v[k], r, early ? g[k] : gamma[i], early ? b[k] : beta[i]);
  }
  if (threadIdx.x == 0) {
    mean[row] = m;
    rstd[row] = r;
  }
}

}  // namespace mage::layernorm

#if MAGE_HOST
#include "kernels/layernorm/row_launch.cuh"

namespace mage::layernorm {
namespace {

struct Kernels {
  static constexpr bool dependent = false;
  template <int Vectors, int Warps>
  static constexpr auto* kernel = layernorm_v02_block<Vectors, Warps>;
};

[[maybe_unused]] const Register<Layernorm> registered{{
    .parent = "v01_warp",
    .note = "threads a row by its length, float4, the row in registers: one read, all loads in flight",
    .min_cc = 80,
    .accepts = fits_a_block,
    .prepare = prepare_row_blocks<Kernels>,
}};

}  // namespace
}  // namespace mage::layernorm
#endif
