// SPDX-License-Identifier: Apache-2.0
// v02_atomics: the columns' sums fused into dx, one atomic addition an element and sum. Parent v01_on_chip: x and dy
// are read once, 12 bytes an element, and nothing is read again; but the atomics of all rows meet in one row of 2 cols
// floats, and come in any order, so that no two calls need give the same bits; and the hardware's additions flush
// subnormals (REDG.FTZ). Expected: bound by the atomics.
#include "kernels/layernorm_backward/row_sums.cuh"
#include "mage_bench/device_code.cuh"

namespace mage::layernorm_backward {

constexpr int v02_threads = 256;

__global__ void __launch_bounds__(v02_threads)
    layernorm_backward_v02_atomics_zero(float* dgamma, float* dbeta, int cols) {
  const int c = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (c < cols) dgamma[c] = dbeta[c] = 0;
}

__global__ void __launch_bounds__(v02_threads) layernorm_backward_v02_atomics(RowPass p, float* dgamma, float* dbeta) {
  extern __shared__ float v02_row[];  // [2][cols]: xhat, w
  __shared__ Sums sums[v02_threads / 32];
  const int thread = static_cast<int>(threadIdx.x);
  float *const xhats = v02_row, *const ws = v02_row + p.cols;
  for (int64 row = blockIdx.x; row < p.rows; row += gridDim.x) {
    const int64 at = row * p.cols;
    const float mean = p.mean[row], rstd = p.rstd[row];
    Sums sum;
#pragma unroll 4
    for (int c = thread; c < p.cols; c += v02_threads) {
      const float g = p.dy[at + c], xhat = (p.x[at + c] - mean) * rstd, w = p.gamma[c] * g;
      sum.w += w;
      sum.w_xhat = fmaf(w, xhat, sum.w_xhat);
      xhats[c] = xhat;
      ws[c] = w;
      atomicAdd(dgamma + c, g * xhat);
      atomicAdd(dbeta + c, g);
    }
    sum = warp_sum(sum);
    if (thread % 32 == 0) sums[thread / 32] = sum;
    __syncthreads();
    sum = warp_sum<v02_threads / 32>(sums[thread % (v02_threads / 32)]);
    const float c1 = sum.w / static_cast<float>(p.cols), c2 = sum.w_xhat / static_cast<float>(p.cols);
#pragma unroll 4
    for (int c = thread; c < p.cols; c += v02_threads) p.dx[at + c] = rstd * fmaf(-xhats[c], c2, ws[c] - c1);
    __syncthreads();  // before the next row's sums
  }
}

}  // namespace mage::layernorm_backward

#if MAGE_HOST
#include "kernels/layernorm_backward/layernorm_backward.hpp"

namespace mage::layernorm_backward {
namespace {

constexpr int64 row_bytes(int64 cols) { return 2 * cols * static_cast<int64>(sizeof(float)); }
constexpr int64 most_row_bytes = 226 << 10;  // of the 227 KB a block may have

Launch prepare(const Problem& p, const Args& a) {
  const auto row_blocks = static_cast<unsigned>(p.rows < 0x7fffffff ? p.rows : 0x7fffffff);
  const auto column_blocks = static_cast<unsigned>(ceil_div(p.cols, v02_threads));
  const auto bytes = static_cast<std::size_t>(row_bytes(p.cols));
  check(cudaFuncSetAttribute(layernorm_backward_v02_atomics, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(most_row_bytes)),
        "cudaFuncSetAttribute of layernorm_backward_v02_atomics");
  const RowPass pass{a.x, a.dy, a.mean, a.rstd, a.gamma, a.dx, nullptr, p.rows, static_cast<int>(p.cols)};
  return [=, dgamma = a.dgamma, dbeta = a.dbeta](StreamHandle handle) {
    const auto stream = cuda_stream(handle);
    layernorm_backward_v02_atomics_zero<<<column_blocks, v02_threads, 0, stream>>>(dgamma, dbeta, pass.cols);
    layernorm_backward_v02_atomics<<<row_blocks, v02_threads, bytes, stream>>>(pass, dgamma, dbeta);
  };
}

[[maybe_unused]] const Register<LayernormBackward> registered{{
    .parent = "v01_on_chip",
    .note = "column sums by atomics in the pass that computes dx: x and dy are read once",
    .min_cc = 90,
    .deterministic = false,
    .counter_example = "atomic additions come in any order: dgamma and dbeta change their last bits between calls",
    .accepts = [](const Problem& p) { return row_bytes(p.cols) <= most_row_bytes; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::layernorm_backward
#endif
