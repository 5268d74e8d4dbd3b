// SPDX-License-Identifier: Apache-2.0
// v12_ahead: gamma and beta arrive ahead of their use. Parent v11_pdl_block: behind the last barrier it loads them
// vector by vector, and each store waits for its own from L1 or L2, up to eight times in turn. Here, with eight vectors
// a thread for any row, the first come during the last sum and then two or three at a time, and the row passes L1 by,
// which keeps gamma and beta. Expected by graph and cold: 130 and 129 us at 4096x16384, 129 and 127.5 at 8192x8192.
// Measured: 139 and 138, 138 and 137 us (experiments/memory-bound/ladders.json).
#include "kernels/layernorm/reductions.cuh"

namespace mage::layernorm {

constexpr int v12_vectors = 8;  // 16-byte vectors a thread

/// A block of exactly `Threads` a row; 64 registers a thread, half of them for the row.
template <int Threads>
__global__ void __launch_bounds__(Threads, 1024 / Threads)
    layernorm_v12_ahead(const float4* __restrict__ x, const float4* __restrict__ gamma, const float4* __restrict__ beta,
                        float4* __restrict__ y, float* __restrict__ mean, float* __restrict__ rstd, int row_vectors,
                        float inverse_cols) {
  constexpr int warps = Threads / 32;
  constexpr int batches = 4, most = 3;      // of gamma and beta; vectors of the longest
  constexpr int begin[] = {0, 1, 3, 5, 8};  // longer ones spill
  __shared__ alignas(16) float sums[warps], squares[warps];
  const int64 row = blockIdx.x;
  const auto first = static_cast<int>(threadIdx.x);
  x += row * row_vectors + first;
  y += row * row_vectors + first;
  gamma += first;
  beta += first;
  const auto inside = [&](int k) { return first + k * Threads < row_vectors; };

  float4 v[v12_vectors], g[most], b[most];
  const auto ask = [&](int n) {
#pragma unroll
    for (int k = begin[n]; k < begin[n + 1]; ++k) {
      g[k - begin[n]] = inside(k) ? load_now(gamma + k * Threads) : float4{};
      b[k - begin[n]] = inside(k) ? load_now(beta + k * Threads) : float4{};
    }
  };

  wait_for_the_call_before();
  float sum = 0, square = 0;
#pragma unroll
  for (int k = 0; k < v12_vectors; ++k) v[k] = inside(k) ? load_past_l1(x + k * Threads) : float4{};
#pragma unroll
  for (int k = 0; k < v12_vectors; ++k) sum += sum_of(v[k]);
  const float m = block_sum<warps>(sum, sums) * inverse_cols;
  if (first == 0) mean[row] = m;  // here, so that no register holds it until the end
#pragma unroll
  for (int k = 0; k < v12_vectors; ++k) {
    if (inside(k)) square += centre(v[k], m);
  }
  ask(0);
  const float r = rsqrtf(fmaf(block_sum<warps>(square, squares), inverse_cols, epsilon));
#pragma unroll
  for (int n = 0; n < batches; ++n) {
#pragma unroll
    for (int k = begin[n]; k < begin[n + 1]; ++k) v[k] = affine(v[k], r, g[k - begin[n]], b[k - begin[n]]);
    if (n + 1 < batches) ask(n + 1);  // before the stores, above which no compiler would move it
#pragma unroll
    for (int k = begin[n]; k < begin[n + 1]; ++k) {
      if (inside(k)) y[k * Threads] = v[k];
    }
  }
  if (first == 0) rstd[row] = r;
}

}  // namespace mage::layernorm

#if MAGE_HOST
#include "kernels/layernorm/layernorm.hpp"

namespace mage::layernorm {
namespace {

template <int Threads>
Launch launch(const Problem& p, const Args& a) {
  const auto* x = reinterpret_cast<const float4*>(a.x);
  const auto* gamma = reinterpret_cast<const float4*>(a.gamma);
  const auto* beta = reinterpret_cast<const float4*>(a.beta);
  auto* y = reinterpret_cast<float4*>(a.y);
  const auto grid = static_cast<unsigned>(p.rows);
  const auto row_vectors = static_cast<int>(p.cols / 4);
  const float inverse_cols = 1 / static_cast<float>(p.cols);
  return [=, mean = a.mean, rstd = a.rstd](StreamHandle stream) {
    launch_kernel(layernorm_v12_ahead<Threads>, {.grid = grid, .block = Threads, .dependent = true}, stream, x, gamma,
                  beta, y, mean, rstd, row_vectors, inverse_cols);
  };
}

Launch prepare(const Problem& p, const Args& a) {
  constexpr int64 elements = 4 * v12_vectors;  // a thread
  if (p.cols <= 128 * elements) return launch<128>(p, a);
  if (p.cols <= 256 * elements) return launch<256>(p, a);
  if (p.cols <= 384 * elements) return launch<384>(p, a);
  if (p.cols <= 512 * elements) return launch<512>(p, a);
  if (p.cols <= 768 * elements) return launch<768>(p, a);
  return launch<1024>(p, a);
}

[[maybe_unused]] const Register<Layernorm> registered{{
    .parent = "v11_pdl_block",
    .note = "gamma and beta in flight ahead of their use and kept in L1, where each store waited for them",
    .min_cc = 90,
    .accepts =
        [](const Problem& p) {
          return p.cols % 4 == 0 && p.offset % 4 == 0 && p.cols <= 32768 && p.rows <= 0x7fffffff;
        },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::layernorm
#endif
