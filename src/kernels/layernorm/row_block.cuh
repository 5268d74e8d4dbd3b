// SPDX-License-Identifier: Apache-2.0
// v11_pdl_block's kernel, for it and the variants that change how many threads and registers a row takes, or how x is
// loaded.
#pragma once

#include "kernels/layernorm/reductions.cuh"

namespace mage::layernorm {

/// A block a row. Vectors: 16-byte vectors a thread; Warps: the most of a block; early: gamma and beta are loaded while
/// the sums are on their way, for which there must be registers.
template <int Vectors, int Warps, bool early, float4 (*load_x)(const float4*) = load_now>
__device__ inline void row_block(const float4* __restrict__ x, const float4* __restrict__ gamma,
                                 const float4* __restrict__ beta, float4* __restrict__ y, float* __restrict__ mean,
                                 float* __restrict__ rstd, int row_vectors, float inverse_cols) {
  __shared__ alignas(16) float sums[Warps], squares[Warps];
  const int64 row = blockIdx.x;
  wait_for_the_call_before();
  x += row * row_vectors;
  y += row * row_vectors;

  float4 v[Vectors], g[Vectors], b[Vectors];
  float sum = 0, square = 0;
#pragma unroll
  for (int k = 0; k < Vectors; ++k) {
    const auto i = static_cast<int>(threadIdx.x + k * blockDim.x);
    v[k] = i < row_vectors ? load_x(x + i) : float4{};
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
    if (i >= row_vectors) continue;
    y[i] = affine(v[k], r, early ? g[k] : load_now(gamma + i), early ? b[k] : load_now(beta + i));
  }
  if (threadIdx.x == 0) {
    mean[row] = m;
    rstd[row] = r;
  }
}

}  // namespace mage::layernorm
