// SPDX-License-Identifier: Apache-2.0
// v00_naive: one element a thread, the formula as written. The first version: frozen.
#include "mage_bench/device_code.cuh"

namespace mage::gelu_tanh {

__global__ void gelu_tanh_v00_naive(const float* x, const float* bias, float* y, int64 elements, int64 cols) {
  const int64 i = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < elements) {
    const float t = x[i] + bias[i % cols];
    y[i] = 0.5f * t * (1.0f + tanhf(0.79788456f * (t + 0.044715f * t * t * t)));
  }
}

}  // namespace mage::gelu_tanh

#if MAGE_HOST
#include "kernels/gelu_tanh/gelu_tanh.hpp"

namespace mage::gelu_tanh {
namespace {

constexpr int64 threads = 256;

int64 blocks(const Problem& p) { return (p.rows * p.cols + threads - 1) / threads; }

Launch prepare(const Problem& p, const Args& a) {
  const int64 elements = p.rows * p.cols, cols = p.cols;
  const auto grid = static_cast<unsigned>(blocks(p));
  return [=](StreamHandle stream) {
    gelu_tanh_v00_naive<<<grid, threads, 0, cuda_stream(stream)>>>(a.x, a.bias, a.y, elements, cols);
  };
}

[[maybe_unused]] const Register<GeluTanh> registered{{
    .parent = "",
    .note = "one element a thread, bias column by a 64-bit modulo, tanhf",
    .min_cc = 80,
    .accepts = [](const Problem& p) { return blocks(p) <= 0x7fffffff; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::gelu_tanh
#endif
