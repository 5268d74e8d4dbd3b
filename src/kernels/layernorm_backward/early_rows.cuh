// SPDX-License-Identifier: Apache-2.0
// The rows of v15_early, for it and the variants that change how its streams are loaded: a persistent block a row at a
// time, the next row's x and dy on their way in registers.
#pragma once

#include "kernels/layernorm_backward/bulk_copy.cuh"
#include "kernels/layernorm_backward/row_sums.cuh"
#include "mage_bench/device_code.cuh"

namespace mage::layernorm_backward {

constexpr int early_threads = 512;

#ifdef __CUDACC__

/// vectors: of 4 columns, a thread. load: of x and dy; volatile, so that it stays above the reduction and behind the
/// wait.
template <int vectors, float4 (*load)(const float4*)>
__device__ inline void early_rows(const RowPass& p) {
  constexpr int warps = early_threads / 32;
  __shared__ Sums exchange[2][warps];
  const int thread = static_cast<int>(threadIdx.x), width = p.cols / 4;
  const auto *x = reinterpret_cast<const float4*>(p.x), *dy = reinterpret_cast<const float4*>(p.dy);
  const float scale = 1.0F / static_cast<float>(p.cols);
  float4 gamma[vectors]{}, dgamma[vectors]{}, dbeta[vectors]{};
  wait_for_kernel_before();
#pragma unroll
  for (int k = 0; k < vectors; ++k) {
    const int c = thread + k * early_threads;
    if (c < width) gamma[k] = __ldcg(reinterpret_cast<const float4*>(p.gamma) + c);
  }

  float4 xs[vectors]{}, dys[vectors]{};
  float next_mean = 0, next_rstd = 0;
  const auto load_row = [&](int64 row) {
    if (row >= p.rows) return;
    const int64 at = row * width + thread;
    next_mean = __ldcg(p.mean + row);
    next_rstd = __ldcg(p.rstd + row);
#pragma unroll
    for (int k = 0; k < vectors; ++k) {
      if (thread + k * early_threads < width) {
        xs[k] = load(x + at + k * early_threads);
        dys[k] = load(dy + at + k * early_threads);
      }
    }
  };
  load_row(blockIdx.x);

  int parity = 0;
  for (int64 row = blockIdx.x; row < p.rows; row += gridDim.x, parity ^= 1) {
    const int64 at = row * width + thread;
    const float mean = next_mean, rstd = next_rstd;
    Element e[4 * vectors];
    Sums sum;
#pragma unroll
    for (int k = 0; k < vectors; ++k) {
      e[4 * k] = Element(xs[k].x, dys[k].x, gamma[k].x, mean, rstd, sum, dgamma[k].x, dbeta[k].x);
      e[4 * k + 1] = Element(xs[k].y, dys[k].y, gamma[k].y, mean, rstd, sum, dgamma[k].y, dbeta[k].y);
      e[4 * k + 2] = Element(xs[k].z, dys[k].z, gamma[k].z, mean, rstd, sum, dgamma[k].z, dbeta[k].z);
      e[4 * k + 3] = Element(xs[k].w, dys[k].w, gamma[k].w, mean, rstd, sum, dgamma[k].w, dbeta[k].w);
    }
    load_row(row + gridDim.x);
    if (row + gridDim.x >= p.rows) let_kernel_after_start();
    // One barrier a row: who writes exchange[parity] again has passed the next row's barrier, behind all who read it.
    sum = warp_sum(sum);
    if (thread % 32 == 0) exchange[parity][thread / 32] = sum;
    __syncthreads();
    sum = warp_sum<warps>(exchange[parity][thread % warps]);
    const float c1 = sum.w * scale, c2 = sum.w_xhat * scale;
#pragma unroll
    for (int k = 0; k < vectors; ++k) {
      if (thread + k * early_threads < width)
        __stcs(reinterpret_cast<float4*>(p.dx) + at + k * early_threads,
               make_float4(e[4 * k].gradient(c1, c2, rstd), e[4 * k + 1].gradient(c1, c2, rstd),
                           e[4 * k + 2].gradient(c1, c2, rstd), e[4 * k + 3].gradient(c1, c2, rstd)));
    }
  }

  auto* partials = reinterpret_cast<float4*>(p.partials) + static_cast<int64>(blockIdx.x) * 2 * width;
#pragma unroll
  for (int k = 0; k < vectors; ++k) {
    const int c = thread + k * early_threads;
    if (c < width) {
      partials[c] = dgamma[k];
      partials[width + c] = dbeta[k];
    }
  }
}

#endif  // __CUDACC__

}  // namespace mage::layernorm_backward

#if MAGE_HOST
#include "kernels/layernorm_backward/layernorm_backward.hpp"

namespace mage::layernorm_backward {

[[maybe_unused]] static bool fits_early_rows(const Problem& p) {
  return p.cols % 4 == 0 && p.offset % 4 == 0 && p.cols <= 8 * early_threads;
}

/// A variant's: of one and of two vectors a thread, and the sum over blocks.
struct EarlyKernels {
  void (*one)(RowPass);
  void (*two)(RowPass);
  void (*columns)(const float* partials, int count, int cols, float* dgamma, float* dbeta);
};

/// Both kernels, each started while the one before ends. Static: no two variants share a function.
[[maybe_unused]] static Launch launch_early_rows(EarlyKernels kernels, const Problem& p, const Args& a) {
  const int64 blocks = p.rows < sms ? p.rows : sms;
  auto scratch = allocate_scratch(static_cast<std::size_t>(blocks * 2 * p.cols) * sizeof(float));
  const RowPass pass{
      a.x, a.dy, a.mean, a.rstd, a.gamma, a.dx, static_cast<float*>(scratch.get()), p.rows, static_cast<int>(p.cols)};
  return [=, rows = p.cols <= 4 * early_threads ? kernels.one : kernels.two, count = static_cast<int>(blocks),
          dgamma = a.dgamma, dbeta = a.dbeta, columns = partial_shape(p.cols),
          scratch = std::move(scratch)](StreamHandle stream) {
    launch_kernel(rows, {.grid = static_cast<unsigned>(count), .block = early_threads, .dependent = true}, stream,
                  pass);
    launch_kernel(kernels.columns, {.grid = columns.grid, .block = columns.block, .dependent = true}, stream,
                  pass.partials, count, pass.cols, dgamma, dbeta);
  };
}

}  // namespace mage::layernorm_backward
#endif
