// SPDX-License-Identifier: Apache-2.0
// v04_merged: each warp takes its part's mean and centred squares by shuffles, and the warps' statistics are merged
// (Chan, Golub, LeVeque) behind one barrier instead of two; what a warp's rounded mean lacks goes along, for else its
// rounding would enter the variance to the first order. Parent v02_block. Expected: 0.1 us less at 64x1024 by graph,
// where a row is one round trip long; nothing at large sizes.
#include "kernels/layernorm/reductions.cuh"

namespace mage::layernorm {

/// Of a part of a row: its mean as FP32 has it, what that lacks, the squares about it, and how many elements.
struct alignas(16) V04Part {
  float mean, rest, squares, count;
};

/// What a part adds to the row's squares about the row's mean.
__device__ inline float v04_about(const V04Part& part, float mean) {
  const float apart = (part.mean - mean) + part.rest;
  return fmaf(part.count * apart, apart, part.squares);
}

struct V04Statistics {
  float mean, squares;
};

/// Of the row, from those of its warps, in one order by every thread.
template <int Warps>
__device__ inline V04Statistics v04_merge(const V04Part& own, float inverse_cols, V04Part* parts) {
  if constexpr (Warps == 1) return {own.mean, own.squares};
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const int warps = static_cast<int>(blockDim.x / 32);
  if (lane == 0) parts[warp] = own;
  if (warp == 0 && lane < Warps && lane >= warps) parts[lane] = {};
  __syncthreads();
  if constexpr (Warps <= 8) {
    V04Part part[Warps];
    float sum = 0, squares = 0;
#pragma unroll
    for (int i = 0; i < Warps; ++i) part[i] = parts[i];
#pragma unroll
    for (int i = 0; i < Warps; ++i) sum = fmaf(part[i].count, part[i].mean, sum);
    const float mean = sum * inverse_cols;
#pragma unroll
    for (int i = 0; i < Warps; ++i) squares += v04_about(part[i], mean);
    return {mean, squares};
  } else {  // a part a lane: so many broadcasts would take longer than shuffles
    const V04Part part = parts[lane];
    const float mean = lane_sum(part.count * part.mean) * inverse_cols;
    return {mean, lane_sum(v04_about(part, mean))};
  }
}

/// A block a row. Vectors: 16-byte vectors a thread; Warps: the most of a block.
template <int Vectors, int Warps>
__global__ void __launch_bounds__(32 * Warps, 1)
    layernorm_v04_merged(const float4* __restrict__ x, const float4* __restrict__ gamma,
                         const float4* __restrict__ beta, float4* __restrict__ y, float* __restrict__ mean,
                         float* __restrict__ rstd, int row_vectors, float inverse_cols) {
  __shared__ V04Part parts[Warps];
  const int64 row = blockIdx.x;
  x += row * row_vectors;
  y += row * row_vectors;

  constexpr bool early = Vectors <= 2;  // there are registers to load gamma and beta while the sums are on their way
  float4 v[Vectors], g[Vectors], b[Vectors];
  float sum = 0, square = 0, rest = 0;
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
  // Elements of this warp: at least one vector, and fewer than the others where the row ends.
  int vectors = 0;
#pragma unroll
  for (int k = 0; k < Vectors; ++k) {
    vectors += min(max(row_vectors - static_cast<int>(threadIdx.x / 32 * 32 + k * blockDim.x), 0), 32);
  }
  const float count = 4 * static_cast<float>(vectors);
  sum = lane_sum(sum);
  const float warp_mean = sum / count;
#pragma unroll
  for (int k = 0; k < Vectors; ++k) {
    float4 about = v[k];
    if (static_cast<int>(threadIdx.x + k * blockDim.x) < row_vectors) {
      square += centre(about, warp_mean);
      rest += sum_of(about);
    }
  }
  const V04Part own{warp_mean, lane_sum(rest) / count, lane_sum(square), count};
  const auto [m, row_squares] = v04_merge<Warps>(own, inverse_cols, parts);
  const float r = rsqrtf(fmaf(row_squares, inverse_cols, epsilon));
#pragma unroll
  for (int k = 0; k < Vectors; ++k) {
    const auto i = static_cast<int>(threadIdx.x + k * blockDim.x);
    centre(v[k], m);
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
  static constexpr auto* kernel = layernorm_v04_merged<Vectors, Warps>;
};

[[maybe_unused]] const Register<Layernorm> registered{{
    .parent = "v02_block",
    .note = "statistics of warps merged behind one barrier instead of two: shorter where a row is one round trip",
    .min_cc = 80,
    .accepts = fits_a_block,
    .prepare = prepare_row_blocks<Kernels>,
}};

}  // namespace
}  // namespace mage::layernorm
#endif
