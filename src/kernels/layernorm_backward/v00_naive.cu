// SPDX-License-Identifier: Apache-2.0
// v00_naive: a block a row for dx, in two passes over global memory; then one thread a column and 256 rows for the sums
// of the columns, and one thread a column for the sum of those. The first version: frozen.
#include "mage_bench/device_code.cuh"

namespace mage::layernorm_backward {

constexpr int v00_threads = 256;
constexpr int v00_chunk = 256;  // rows that a thread adds

__global__ void __launch_bounds__(v00_threads)
    layernorm_backward_v00_naive(const float* x, const float* dy, const float* mean, const float* rstd,
                                 const float* gamma, float* dx, int64 rows, int64 cols) {
  __shared__ float w_sums[v00_threads], w_xhat_sums[v00_threads];
  const int thread = static_cast<int>(threadIdx.x);
  for (int64 row = blockIdx.x; row < rows; row += gridDim.x) {
    const float m = mean[row], r = rstd[row];
    float w_sum = 0, w_xhat_sum = 0;
    for (int64 c = thread; c < cols; c += v00_threads) {
      const float w = gamma[c] * dy[row * cols + c];
      w_sum += w;
      w_xhat_sum += w * ((x[row * cols + c] - m) * r);
    }
    w_sums[thread] = w_sum;
    w_xhat_sums[thread] = w_xhat_sum;
    __syncthreads();
    for (int half = v00_threads / 2; half > 0; half /= 2) {
      if (thread < half) {
        w_sums[thread] += w_sums[thread + half];
        w_xhat_sums[thread] += w_xhat_sums[thread + half];
      }
      __syncthreads();
    }
    const float c1 = w_sums[0] / static_cast<float>(cols), c2 = w_xhat_sums[0] / static_cast<float>(cols);
    for (int64 c = thread; c < cols; c += v00_threads) {
      const float xhat = (x[row * cols + c] - m) * r;
      dx[row * cols + c] = r * (gamma[c] * dy[row * cols + c] - c1 - xhat * c2);
    }
    __syncthreads();  // before the next row's sums
  }
}

/// partials[chunk][0][c] and [chunk][1][c]: sums over the chunk's rows of dy xhat and dy.
__global__ void __launch_bounds__(v00_threads)
    layernorm_backward_v00_naive_chunks(const float* x, const float* dy, const float* mean, const float* rstd,
                                        float* partials, int64 rows, int64 cols) {
  const int64 i = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64 chunk = i / cols, c = i % cols;
  const int64 end = min(rows, (chunk + 1) * v00_chunk);
  if (chunk * v00_chunk >= rows) return;
  float dgamma = 0, dbeta = 0;
  for (int64 row = chunk * v00_chunk; row < end; ++row) {
    const float g = dy[row * cols + c];
    dgamma += g * ((x[row * cols + c] - mean[row]) * rstd[row]);
    dbeta += g;
  }
  partials[2 * chunk * cols + c] = dgamma;
  partials[(2 * chunk + 1) * cols + c] = dbeta;
}

__global__ void __launch_bounds__(v00_threads)
    layernorm_backward_v00_naive_columns(const float* partials, float* dgamma, float* dbeta, int64 chunks, int64 cols) {
  const int64 c = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (c >= cols) return;
  float gamma_sum = 0, beta_sum = 0;
  for (int64 chunk = 0; chunk < chunks; ++chunk) {
    gamma_sum += partials[2 * chunk * cols + c];
    beta_sum += partials[(2 * chunk + 1) * cols + c];
  }
  dgamma[c] = gamma_sum;
  dbeta[c] = beta_sum;
}

}  // namespace mage::layernorm_backward

#if MAGE_HOST
#include "kernels/layernorm_backward/layernorm_backward.hpp"

namespace mage::layernorm_backward {
namespace {

unsigned blocks(int64 threads) { return static_cast<unsigned>((threads + v00_threads - 1) / v00_threads); }

Launch prepare(const Problem& p, const Args& a) {
  const int64 rows = p.rows, cols = p.cols, chunks = (rows + v00_chunk - 1) / v00_chunk;
  const auto grid = static_cast<unsigned>(rows < 0x7fffffff ? rows : 0x7fffffff);
  auto scratch = allocate_scratch(static_cast<std::size_t>(2 * chunks * cols) * sizeof(float));
  return [=, scratch = std::move(scratch)](StreamHandle handle) {
    const auto stream = cuda_stream(handle);
    auto* partials = static_cast<float*>(scratch.get());
    layernorm_backward_v00_naive<<<grid, v00_threads, 0, stream>>>(a.x, a.dy, a.mean, a.rstd, a.gamma, a.dx, rows,
                                                                   cols);
    layernorm_backward_v00_naive_chunks<<<blocks(chunks * cols), v00_threads, 0, stream>>>(a.x, a.dy, a.mean, a.rstd,
                                                                                           partials, rows, cols);
    layernorm_backward_v00_naive_columns<<<blocks(cols), v00_threads, 0, stream>>>(partials, a.dgamma, a.dbeta, chunks,
                                                                                   cols);
  };
}

[[maybe_unused]] const Register<LayernormBackward> registered{{
    .parent = "",
    .note = "a block a row in two passes, then one thread a column and 256 rows, then one a column",
    .min_cc = 80,
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::layernorm_backward
#endif
