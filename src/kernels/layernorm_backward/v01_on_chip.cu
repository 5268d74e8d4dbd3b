// SPDX-License-Identifier: Apache-2.0
// v01_on_chip: xhat and gamma dy of a row stay in shared memory between the two passes of dx. Parent v00_naive: x and
// dy are read once for dx instead of twice, and once more for the columns. Expected: rows that L1 and L2 no longer hold
// gain most, up to 28 bytes of traffic an element against 20.
#include "kernels/layernorm_backward/row_sums.cuh"
#include "mage_bench/device_code.cuh"

namespace mage::layernorm_backward {

constexpr int v01_threads = 256;
constexpr int v01_chunk = 256;  // rows that a thread adds

__global__ void __launch_bounds__(v01_threads) layernorm_backward_v01_on_chip(RowPass p) {
  extern __shared__ float v01_row[];  // [2][cols]: xhat, w
  __shared__ Sums sums[v01_threads / 32];
  const int thread = static_cast<int>(threadIdx.x);
  float *const xhats = v01_row, *const ws = v01_row + p.cols;
  for (int64 row = blockIdx.x; row < p.rows; row += gridDim.x) {
    const int64 at = row * p.cols;
    const float mean = p.mean[row], rstd = p.rstd[row];
    Sums sum;
#pragma unroll 4
    for (int c = thread; c < p.cols; c += v01_threads) {
      const float xhat = (p.x[at + c] - mean) * rstd, w = p.gamma[c] * p.dy[at + c];
      sum.w += w;
      sum.w_xhat = fmaf(w, xhat, sum.w_xhat);
      xhats[c] = xhat;
      ws[c] = w;
    }
    sum = warp_sum(sum);
    if (thread % 32 == 0) sums[thread / 32] = sum;
    __syncthreads();
    sum = warp_sum<v01_threads / 32>(sums[thread % (v01_threads / 32)]);
    const float c1 = sum.w / static_cast<float>(p.cols), c2 = sum.w_xhat / static_cast<float>(p.cols);
#pragma unroll 4
    for (int c = thread; c < p.cols; c += v01_threads) p.dx[at + c] = rstd * fmaf(-xhats[c], c2, ws[c] - c1);
    __syncthreads();  // before the next row's sums
  }
}

/// partials[chunk][0][c] and [chunk][1][c]: sums over the chunk's rows of dy xhat and dy.
__global__ void __launch_bounds__(v01_threads) layernorm_backward_v01_on_chip_chunks(RowPass p) {
  const int64 i = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64 chunk = i / p.cols, c = i % p.cols;
  const int64 end = min(p.rows, (chunk + 1) * v01_chunk);
  if (chunk * v01_chunk >= p.rows) return;
  float dgamma = 0, dbeta = 0;
  for (int64 row = chunk * v01_chunk; row < end; ++row) {
    const float g = p.dy[row * p.cols + c];
    dgamma += g * ((p.x[row * p.cols + c] - p.mean[row]) * p.rstd[row]);
    dbeta += g;
  }
  p.partials[2 * chunk * p.cols + c] = dgamma;
  p.partials[(2 * chunk + 1) * p.cols + c] = dbeta;
}

__global__ void __launch_bounds__(v01_threads)
    layernorm_backward_v01_on_chip_columns(const float* partials, float* dgamma, float* dbeta, int64 chunks,
                                           int64 cols) {
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

constexpr int64 row_bytes(int64 cols) { return 2 * cols * static_cast<int64>(sizeof(float)); }
constexpr int64 most_row_bytes = 226 << 10;  // of the 227 KB a block may have

Launch prepare(const Problem& p, const Args& a) {
  const int64 rows = p.rows, cols = p.cols, chunks = ceil_div(rows, v01_chunk);
  const auto row_blocks = static_cast<unsigned>(rows < 0x7fffffff ? rows : 0x7fffffff);
  const auto chunk_blocks = static_cast<unsigned>(ceil_div(chunks * cols, v01_threads));
  const auto column_blocks = static_cast<unsigned>(ceil_div(cols, v01_threads));
  const auto bytes = static_cast<std::size_t>(row_bytes(cols));
  check(cudaFuncSetAttribute(layernorm_backward_v01_on_chip, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(most_row_bytes)),
        "cudaFuncSetAttribute of layernorm_backward_v01_on_chip");
  auto scratch = allocate_scratch(static_cast<std::size_t>(2 * chunks * cols) * sizeof(float));
  const RowPass pass{
      a.x, a.dy, a.mean, a.rstd, a.gamma, a.dx, static_cast<float*>(scratch.get()), rows, static_cast<int>(cols)};
  return [=, dgamma = a.dgamma, dbeta = a.dbeta, scratch = std::move(scratch)](StreamHandle handle) {
    const auto stream = cuda_stream(handle);
    layernorm_backward_v01_on_chip<<<row_blocks, v01_threads, bytes, stream>>>(pass);
    layernorm_backward_v01_on_chip_chunks<<<chunk_blocks, v01_threads, 0, stream>>>(pass);
    layernorm_backward_v01_on_chip_columns<<<column_blocks, v01_threads, 0, stream>>>(pass.partials, dgamma, dbeta,
                                                                                      chunks, cols);
  };
}

[[maybe_unused]] const Register<LayernormBackward> registered{{
    .parent = "v00_naive",
    .note = "a row's xhat and gamma dy stay in shared memory: dx reads x and dy once",
    .min_cc = 90,
    .accepts = [](const Problem& p) { return row_bytes(p.cols) <= most_row_bytes; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::layernorm_backward
#endif
