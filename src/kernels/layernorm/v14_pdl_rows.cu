// SPDX-License-Identifier: Apache-2.0
// v14_pdl_rows: v05_rows with programmatic dependent launch. Parent v05_rows: its blocks take 16 rows of 256 columns
// each, few enough to start at the slower pace of a dependent launch, at which v10_pdl's one block a row take 80 us.
// Expected: 33.7 us by graph at 65536x256, 1.3 less, and 33.3 cold, as before.
#include "kernels/layernorm/reductions.cuh"

namespace mage::layernorm {

constexpr int v14_threads = 128;

/// Lanes: of a row; Vectors: 16-byte vectors a lane; Rows: of a group of lanes at once.
template <int Lanes, int Vectors, int Rows>
__global__ void __launch_bounds__(v14_threads)
    layernorm_v14_pdl_rows(const float4* __restrict__ x, const float4* __restrict__ gamma,
                           const float4* __restrict__ beta, float4* __restrict__ y, float* __restrict__ mean,
                           float* __restrict__ rstd, int64 rows, int row_vectors, float inverse_cols) {
  constexpr int groups = v14_threads / Lanes;
  const int lane = static_cast<int>(threadIdx.x % Lanes);
  // The rows of a block are neighbours, and so are those that its groups load at a time.
  const int64 first = static_cast<int64>(blockIdx.x) * (groups * Rows) + threadIdx.x / Lanes;
  x += first * row_vectors;
  y += first * row_vectors;
  const auto left = static_cast<int>(min(rows - first, int64{groups} * Rows));  // rows from the group's first one on

  wait_for_the_call_before();
  float4 v[Rows][Vectors];
  float m[Rows], r[Rows];
#pragma unroll
  for (int n = 0; n < Rows; ++n) {
#pragma unroll
    for (int k = 0; k < Vectors; ++k) {
      const int i = lane + k * Lanes;
      v[n][k] = n * groups < left && i < row_vectors ? load_now(x + n * groups * row_vectors + i) : float4{};
    }
  }
#pragma unroll
  for (int n = 0; n < Rows; ++n) {
    m[n] = 0;
#pragma unroll
    for (int k = 0; k < Vectors; ++k) m[n] += sum_of(v[n][k]);
  }
#pragma unroll
  for (int n = 0; n < Rows; ++n) m[n] = lane_sum<Lanes>(m[n]) * inverse_cols;
#pragma unroll
  for (int n = 0; n < Rows; ++n) {
    r[n] = 0;
#pragma unroll
    for (int k = 0; k < Vectors; ++k) {
      if (lane + k * Lanes < row_vectors) r[n] += centre(v[n][k], m[n]);
    }
  }
#pragma unroll
  for (int n = 0; n < Rows; ++n) r[n] = rsqrtf(fmaf(lane_sum<Lanes>(r[n]), inverse_cols, epsilon));
#pragma unroll
  for (int k = 0; k < Vectors; ++k) {
    const int i = lane + k * Lanes;
    if (i >= row_vectors) continue;
    const float4 g = load_now(gamma + i), b = load_now(beta + i);
#pragma unroll
    for (int n = 0; n < Rows; ++n) {
      if (n * groups < left) y[n * groups * row_vectors + i] = affine(v[n][k], r[n], g, b);
    }
  }
#pragma unroll
  for (int n = 0; n < Rows; ++n) {
    if (lane == 0 && n * groups < left) {
      mean[first + n * groups] = m[n];
      rstd[first + n * groups] = r[n];
    }
  }
}

}  // namespace mage::layernorm

#if MAGE_HOST
#include "kernels/layernorm/layernorm.hpp"

namespace mage::layernorm {
namespace {

template <int Lanes, int Vectors, int Rows>
Launch launch(const Problem& p, const Args& a) {
  constexpr int64 rows_a_block = v14_threads / Lanes * Rows;
  const auto* x = reinterpret_cast<const float4*>(a.x);
  const auto* gamma = reinterpret_cast<const float4*>(a.gamma);
  const auto* beta = reinterpret_cast<const float4*>(a.beta);
  auto* y = reinterpret_cast<float4*>(a.y);
  const int64 rows = p.rows;
  const auto grid = static_cast<unsigned>(ceil_div(rows, rows_a_block));
  const auto row_vectors = static_cast<int>(p.cols / 4);
  const float inverse_cols = 1 / static_cast<float>(p.cols);
  return [=, mean = a.mean, rstd = a.rstd](StreamHandle stream) {
    launch_kernel(layernorm_v14_pdl_rows<Lanes, Vectors, Rows>, {.grid = grid, .block = v14_threads, .dependent = true},
                  stream, x, gamma, beta, y, mean, rstd, rows, row_vectors, inverse_cols);
  };
}

Launch prepare(const Problem& p, const Args& a) {
  if (p.cols <= 64) return launch<8, 2, 4>(p, a);
  if (p.cols <= 128) return launch<8, 4, 2>(p, a);
  if (p.cols <= 256) return launch<16, 4, 2>(p, a);
  if (p.cols <= 512) return launch<32, 4, 2>(p, a);
  if (p.cols <= 768) return launch<32, 6, 1>(p, a);
  return launch<32, 8, 1>(p, a);
}

[[maybe_unused]] const Register<Layernorm> registered{{
    .parent = "v05_rows",
    .note = "programmatic dependent launch of several rows a block: the next call starts while this one ends",
    .min_cc = 90,
    .accepts =
        [](const Problem& p) { return p.cols % 4 == 0 && p.offset % 4 == 0 && p.cols <= 1024 && p.rows <= 0x7fffffff; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::layernorm
#endif
