// SPDX-License-Identifier: Apache-2.0
// v05_unhinted: v02_sigmoid without its cache hints. Parent v02_sigmoid: bias + GELU at 8192x16384 on an H200 is faster
// from a clean cold L2 without hints and slower from a warm one. Expected: the same here.
#include "mage_bench/device_code.cuh"

namespace mage::gelu_tanh {

constexpr int v05_rows = 4;  // in flight a thread
constexpr int v05_threads = 256;

// t / (1 + 2^e), e = -2 log2(e) sqrt(2 / pi) (t + 0.044715 t^3): (1 + tanh z) / 2 is 1 / (1 + exp(-2 z)).
__device__ inline float v05_gelu(float t) {
  float e = t * fmaf(t * t, -0x1.a5a7dp-4f, -0x1.26aec2p+1f);
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(e));
  float r = 1.0f + e;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(r));
  return t * r;
}

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
        y[offset + k * stride] =
            make_float4(v05_gelu(v[k].x + b.x), v05_gelu(v[k].y + b.y), v05_gelu(v[k].z + b.z), v05_gelu(v[k].w + b.w));
      }
    }
  }
}

}  // namespace mage::gelu_tanh

#if MAGE_HOST
#include "kernels/gelu_tanh/gelu_tanh.hpp"

namespace mage::gelu_tanh {
namespace {

constexpr int64 ceil_div(int64 a, int64 b) { return (a + b - 1) / b; }

struct Shape {
  int64 block_x = v05_threads, block_y = 1, grid_x = 1, grid_y = 1, rows_per_block = 1;
};

Shape shape(const Problem& p) {
  const int64 row_vectors = p.cols / 4;
  Shape s;
  // The widest block that leaves at most an eighth of its threads without a column.
  while (s.block_x > 1 && ceil_div(row_vectors, s.block_x) * s.block_x * 8 > row_vectors * 9) s.block_x /= 2;
  s.block_y = v05_threads / s.block_x;
  const auto cover = [&] {
    s.rows_per_block = v05_rows * s.block_y;
    s.rows_per_block *= ceil_div(ceil_div(p.rows, s.rows_per_block), 65535);  // gridDim.y ends there
    s.grid_x = ceil_div(row_vectors, s.block_x);
    s.grid_y = ceil_div(p.rows, s.rows_per_block);
  };
  cover();
  // Few rows: smaller blocks reach more of an H200's 132 SMs.
  while (s.block_x * s.block_y > 64 && s.grid_x * s.grid_y < 2 * 132) {
    (s.block_y > 1 ? s.block_y : s.block_x) /= 2;
    cover();
  }
  return s;
}

Launch prepare(const Problem& p, const Args& a) {
  const Shape s = shape(p);
  const dim3 grid{static_cast<unsigned>(s.grid_x), static_cast<unsigned>(s.grid_y)};
  const dim3 block{static_cast<unsigned>(s.block_x), static_cast<unsigned>(s.block_y)};
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
