// SPDX-License-Identifier: Apache-2.0
// v03_onepass: variance as E[x^2] - mean^2, from one exchange of two sums. Parent v02_block: half the barriers, and the
// usual way to save them. A counter-example: where |mean| >> sigma the two terms cancel and nothing is left of the
// variance (of 1e4 and 1, FP32 keeps the square 1e8 to within 4).
#include "kernels/layernorm/reductions.cuh"

namespace mage::layernorm {

struct V03Sums {
  float sum, square;
};

/// As block_sum, of two values behind one barrier.
template <int Warps>
__device__ inline V03Sums v03_block_sums(float sum, float square, float* sums, float* squares) {
  sum = lane_sum(sum);
  square = lane_sum(square);
  if constexpr (Warps > 1) {
    const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
    const int warps = static_cast<int>(blockDim.x / 32);
    if (lane == 0) {
      sums[warp] = sum;
      squares[warp] = square;
    }
    __syncthreads();
    sum = lane_sum(lane < warps ? sums[lane] : 0);
    square = lane_sum(lane < warps ? squares[lane] : 0);
  }
  return {sum, square};
}

/// A block a row. Vectors: 16-byte vectors a thread; Warps: the most of a block.
template <int Vectors, int Warps>
__global__ void __launch_bounds__(32 * Warps)
    layernorm_v03_onepass(const float4* __restrict__ x, const float4* __restrict__ gamma,
                          const float4* __restrict__ beta, float4* __restrict__ y, float* __restrict__ mean,
                          float* __restrict__ rstd, int row_vectors, float inverse_cols) {
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
#pragma unroll
  for (int k = 0; k < Vectors; ++k) {
    square += fmaf(v[k].x, v[k].x, v[k].y * v[k].y) + fmaf(v[k].z, v[k].z, v[k].w * v[k].w);
  }
  const auto [total, total_square] = v03_block_sums<Warps>(sum, square, sums, squares);
  const float m = total * inverse_cols;
  const float r = rsqrtf(fmaxf(fmaf(total_square, inverse_cols, -m * m), 0) + epsilon);
#pragma unroll
  for (int k = 0; k < Vectors; ++k) centre(v[k], m);
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
  static constexpr auto* kernel = layernorm_v03_onepass<Vectors, Warps>;
};

[[maybe_unused]] const Register<Layernorm> registered{{
    .parent = "v02_block",
    .note = "variance as E[x^2] - mean^2: one exchange between warps instead of two",
    .min_cc = 80,
    .counter_example = "E[x^2] - mean^2 cancels where |mean| >> sigma: rows shifted by 1e4 lose their variance",
    .accepts = fits_a_block,
    .prepare = prepare_row_blocks<Kernels>,
}};

}  // namespace
}  // namespace mage::layernorm
#endif
