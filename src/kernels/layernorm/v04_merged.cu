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
    layernorm_v04_merged<Vectors, Warps>
        <<<grid, threads, 0, cuda_stream(stream)>>>(x, gamma, beta, y, mean, rstd, row_vectors, inverse_cols);
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
    .note = "statistics of warps merged behind one barrier instead of two: shorter where a row is one round trip",
    .min_cc = 80,
    .accepts =
        [](const Problem& p) {
          return p.cols % 4 == 0 && p.offset % 4 == 0 && p.cols <= 32768 && p.rows <= 0x7fffffff;
        },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::layernorm
#endif
