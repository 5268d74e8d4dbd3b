// SPDX-License-Identifier: Apache-2.0
// v00_naive: dx by one element a thread, the formula as written; then one thread a column sums dx down the rows. The
// first version: frozen.
#include "mage_bench/device_code.cuh"

namespace mage::gelu_backward {

__global__ void gelu_backward_v00_naive_dx(const float* x, const float* bias, const float* dy, float* dx,
                                           int64 elements, int64 cols) {
  const int64 i = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < elements) {
    const float t = x[i] + bias[i % cols];
    const float cdf = 0.5f * (1.0f + erff(t * 0.70710678f));
    const float pdf = 0.39894228f * expf(-0.5f * t * t);
    dx[i] = dy[i] * (cdf + t * pdf);
  }
}

__global__ void gelu_backward_v00_naive_dbias(const float* dx, float* dbias, int64 rows, int64 cols) {
  const int64 column = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column < cols) {
    float sum = 0.0f;
    for (int64 row = 0; row < rows; ++row) sum += dx[row * cols + column];
    dbias[column] = sum;
  }
}

}  // namespace mage::gelu_backward

#if MAGE_HOST
#include "kernels/gelu_backward/gelu_backward.hpp"

namespace mage::gelu_backward {
namespace {

constexpr int64 threads = 256;

int64 blocks(int64 elements) { return (elements + threads - 1) / threads; }

Launch prepare(const Problem& p, const Args& a) {
  const int64 rows = p.rows, cols = p.cols;
  const auto dx_grid = static_cast<unsigned>(blocks(rows * cols));
  const auto dbias_grid = static_cast<unsigned>(blocks(cols));
  return [=](StreamHandle stream) {
    const auto on = cuda_stream(stream);
    gelu_backward_v00_naive_dx<<<dx_grid, threads, 0, on>>>(a.x, a.bias, a.dy, a.dx, rows * cols, cols);
    gelu_backward_v00_naive_dbias<<<dbias_grid, threads, 0, on>>>(a.dx, a.dbias, rows, cols);
  };
}

[[maybe_unused]] const Register<GeluBackward> registered{{
    .parent = "",
    .note = "dx one element a thread with erff and expf; then one thread a column sums dx",
    .min_cc = 80,
    .accepts = [](const Problem& p) { return blocks(p.rows * p.cols) <= 0x7fffffff; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::gelu_backward
#endif
