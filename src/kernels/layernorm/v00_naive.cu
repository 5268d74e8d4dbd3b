// SPDX-License-Identifier: Apache-2.0
// v00_naive: a block a row, three passes over memory: mean, variance, result. The first version: frozen.
#include "mage_bench/device_code.cuh"

namespace mage::layernorm {

constexpr int v00_threads = 256;

__device__ inline float v00_block_sum(float v, float* sums) {
  sums[threadIdx.x] = v;
  __syncthreads();
  for (int half = v00_threads / 2; half > 0; half /= 2) {
    if (static_cast<int>(threadIdx.x) < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    __syncthreads();
  }
  const float sum = sums[0];
  __syncthreads();
  return sum;
}

__global__ void __launch_bounds__(v00_threads)
    layernorm_v00_naive(const float* x, const float* gamma, const float* beta, float* y, float* mean, float* rstd,
                        int64 rows, int64 cols) {
  __shared__ float sums[v00_threads];
  for (int64 row = blockIdx.x; row < rows; row += gridDim.x) {
    const float* in = x + row * cols;
    float sum = 0;
    for (int64 c = threadIdx.x; c < cols; c += v00_threads) sum += in[c];
    const float m = v00_block_sum(sum, sums) / static_cast<float>(cols);
    float squares = 0;
    for (int64 c = threadIdx.x; c < cols; c += v00_threads) {
      const float centred = in[c] - m;
      squares += centred * centred;
    }
    const float r = rsqrtf(v00_block_sum(squares, sums) / static_cast<float>(cols) + 1e-5f);
    for (int64 c = threadIdx.x; c < cols; c += v00_threads) {
      y[row * cols + c] = (in[c] - m) * r * gamma[c] + beta[c];
    }
    if (threadIdx.x == 0) {
      mean[row] = m;
      rstd[row] = r;
    }
  }
}

}  // namespace mage::layernorm

#if MAGE_HOST
#include "kernels/layernorm/layernorm.hpp"

namespace mage::layernorm {
namespace {

Launch prepare(const Problem& p, const Args& a) {
  const int64 rows = p.rows, cols = p.cols;
  const auto grid = static_cast<unsigned>(rows < 0x7fffffff ? rows : 0x7fffffff);
  return [=](StreamHandle stream) {
    layernorm_v00_naive<<<grid, v00_threads, 0, cuda_stream(stream)>>>(a.x, a.gamma, a.beta, a.y, a.mean, a.rstd, rows,
                                                                       cols);
  };
}

[[maybe_unused]] const Register<Layernorm> registered{{
    .parent = "",
    .note = "a block a row, three passes over memory, tree sums in shared memory",
    .min_cc = 80,
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::layernorm
#endif
