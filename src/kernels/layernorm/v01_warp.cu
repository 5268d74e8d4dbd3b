// SPDX-License-Identifier: Apache-2.0
// v01_warp: a warp a row, sums by shuffles, and a row of up to 1024 elements stays in registers. Parent v00_naive: no
// barrier and one read of memory instead of three. Expected: half the parent's time at 256 columns; behind it at 4096,
// where a warp reads its row thrice with few loads in flight.
#include "kernels/layernorm/reductions.cuh"

namespace mage::layernorm {

constexpr int v01_threads = 256;
constexpr int v01_held = 32;  // elements a lane

__global__ void __launch_bounds__(v01_threads)
    layernorm_v01_warp(const float* __restrict__ x, const float* __restrict__ gamma, const float* __restrict__ beta,
                       float* __restrict__ y, float* __restrict__ mean, float* __restrict__ rstd, int64 rows, int cols,
                       float inverse_cols) {
  const int64 row = static_cast<int64>(blockIdx.x) * (v01_threads / 32) + threadIdx.x / 32;
  if (row >= rows) return;  // the whole warp
  const int lane = static_cast<int>(threadIdx.x % 32);
  x += row * cols;
  y += row * cols;

  float m = 0, r = 0;
  if (cols <= 32 * v01_held) {
    float v[v01_held];
    float sum = 0, squares = 0;
#pragma unroll
    for (int k = 0; k < v01_held; ++k) {
      const int c = lane + 32 * k;
      v[k] = c < cols ? x[c] : 0;
    }
#pragma unroll
    for (int k = 0; k < v01_held; ++k) sum += v[k];
    m = lane_sum(sum) * inverse_cols;
#pragma unroll
    for (int k = 0; k < v01_held; ++k) {
      v[k] -= m;
      if (lane + 32 * k < cols) squares = fmaf(v[k], v[k], squares);
    }
    r = rsqrtf(fmaf(lane_sum(squares), inverse_cols, epsilon));
#pragma unroll
    for (int k = 0; k < v01_held; ++k) {
      const int c = lane + 32 * k;
      if (c < cols) y[c] = fmaf(v[k] * r, gamma[c], beta[c]);
    }
  } else {
    float sum = 0, squares = 0;
    for (int c = lane; c < cols; c += 32) sum += x[c];
    m = lane_sum(sum) * inverse_cols;
    for (int c = lane; c < cols; c += 32) {
      const float centred = x[c] - m;
      squares = fmaf(centred, centred, squares);
    }
    r = rsqrtf(fmaf(lane_sum(squares), inverse_cols, epsilon));
    for (int c = lane; c < cols; c += 32) y[c] = fmaf((x[c] - m) * r, gamma[c], beta[c]);
  }
  if (lane == 0) {
    mean[row] = m;
    rstd[row] = r;
  }
}

}  // namespace mage::layernorm

#if MAGE_HOST
#include "kernels/layernorm/layernorm.hpp"

namespace mage::layernorm {
namespace {

int64 blocks(const Problem& p) {
  constexpr int64 warps = v01_threads / 32;
  return ceil_div(p.rows, warps);
}

Launch prepare(const Problem& p, const Args& a) {
  const int64 rows = p.rows;
  const auto cols = static_cast<int>(p.cols);
  const float inverse_cols = 1 / static_cast<float>(cols);
  const auto grid = static_cast<unsigned>(blocks(p));
  return [=](StreamHandle stream) {
    layernorm_v01_warp<<<grid, v01_threads, 0, cuda_stream(stream)>>>(a.x, a.gamma, a.beta, a.y, a.mean, a.rstd, rows,
                                                                      cols, inverse_cols);
  };
}

[[maybe_unused]] const Register<Layernorm> registered{{
    .parent = "v00_naive",
    .note = "a warp a row, its elements in registers: no barrier, and one read instead of three",
    .min_cc = 80,
    // More columns would make a lane's sum deeper than the bound allows.
    .accepts = [](const Problem& p) { return p.cols <= 4096 && blocks(p) <= 0x7fffffff; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::layernorm
#endif
