// SPDX-License-Identifier: Apache-2.0
// v05_unhinted: v02_sigmoid without its cache hints. Parent v02_sigmoid: bias + GELU at 8192x16384 on an H200 is faster
// from a clean cold L2 without hints and slower from a warm one. Expected: the same here.
#include "kernels/gelu_tanh/sigmoid_form.cuh"
#include "mage_bench/device_code.cuh"

namespace mage::gelu_tanh {

constexpr int v05_rows = 4;  // in flight a thread
constexpr int v05_threads = 256;

__global__ void __launch_bounds__(v05_threads)
    gelu_tanh_v05_unhinted(const float4* __restrict__ x, const float4* __restrict__ bias, float4* __restrict__ y,
                           int64 rows, int row_vectors, int64 rows_per_block) {
  const int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (column >= row_vectors) return;
  const int64 first = blockIdx.y * rows_per_block + threadIdx.y;
  const int64 end = min(rows, (blockIdx.y + int64{1}) * rows_per_block);
  const int64 stride = static_cast<int64>(blockDim.y) * row_vectors;
  const float4 b = bias[column];

  int64 offset = first * row_vectors + column;
  for (int64 row = first; row < end; row += v05_rows * static_cast<int>(blockDim.y), offset += v05_rows * stride) {
    const int64 left = end - row;
    float4 v[v05_rows];
#pragma unroll
    for (int k = 0; k < v05_rows; ++k) {
      if (k * static_cast<int>(blockDim.y) < left) v[k] = x[offset + k * stride];
    }
#pragma unroll
    for (int k = 0; k < v05_rows; ++k) {
      if (k * static_cast<int>(blockDim.y) < left) {
        y[offset + k * stride] = make_float4(sigmoid_gelu(v[k].x + b.x), sigmoid_gelu(v[k].y + b.y),
                                             sigmoid_gelu(v[k].z + b.z), sigmoid_gelu(v[k].w + b.w));
      }
    }
  }
}

}  // namespace mage::gelu_tanh

#if MAGE_HOST
#include "kernels/gelu_tanh/gelu_tanh.hpp"
#include "kernels/gelu_tanh/unrolled_shape.cuh"

namespace mage::gelu_tanh {
namespace {

Launch prepare(const Problem& p, const Args& a) {
  const Shape s = shape(p, v05_threads, v05_rows);
  const dim3 grid = s.grid(), block = s.block();
  const auto* x = reinterpret_cast<const float4*>(a.x);
  const auto* bias = reinterpret_cast<const float4*>(a.bias);
  auto* y = reinterpret_cast<float4*>(a.y);
  const int64 rows = p.rows, rows_per_block = s.rows_per_block;
  const int row_vectors = static_cast<int>(p.cols / 4);
  return [=](StreamHandle stream) {
    gelu_tanh_v05_unhinted<<<grid, block, 0, cuda_stream(stream)>>>(x, bias, y, rows, row_vectors, rows_per_block);
  };
}

[[maybe_unused]] const Register<GeluTanh> registered{{
    .parent = "v02_sigmoid",
    .note = "no cache hints: streams may use all of L2 to gather writes",
    .min_cc = 80,
    .accepts = [](const Problem& p) { return p.cols % 4 == 0 && p.offset % 4 == 0 && p.cols <= 0x7fffffff; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::gelu_tanh
#endif
