// SPDX-License-Identifier: Apache-2.0
// v01_unrolled: 16-byte accesses; a block owns some columns and walks down the rows, four rows in flight. Parent
// v00_naive: the form that brought bias + GELU to copy speed. The bias stays in registers, no modulo, 64 bytes in
// flight a thread instead of 4, L1 bypassed on the way in, evict-first on the way out.
#include "mage_bench/device_code.cuh"

namespace mage::gelu_tanh {

constexpr int v01_rows = 4;  // in flight a thread
constexpr int v01_threads = 256;

__device__ inline float v01_gelu(float t) {
  return 0.5f * t * (1.0f + tanhf(0.79788456f * (t + 0.044715f * t * t * t)));
}

__device__ inline float4 v01_load(const float4* address) {
  float4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(address));
  return v;
}

__global__ void __launch_bounds__(v01_threads)
    gelu_tanh_v01_unrolled(const float4* __restrict__ x, const float4* __restrict__ bias, float4* __restrict__ y,
                           int64 rows, int row_vectors, int64 rows_per_block) {
  const int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (column >= row_vectors) return;
  const int64 first = blockIdx.y * rows_per_block + threadIdx.y;
  const int64 end = min(rows, (blockIdx.y + int64{1}) * rows_per_block);
  const int64 stride = static_cast<int64>(blockDim.y) * row_vectors;
  const float4 b = __ldg(bias + column);

  int64 offset = first * row_vectors + column;
  for (int64 row = first; row < end; row += v01_rows * static_cast<int>(blockDim.y), offset += v01_rows * stride) {
    const int64 left = end - row;
    float4 v[v01_rows];
#pragma unroll
    for (int k = 0; k < v01_rows; ++k) {
      if (k * static_cast<int>(blockDim.y) < left) v[k] = v01_load(x + offset + k * stride);
    }
#pragma unroll
    for (int k = 0; k < v01_rows; ++k) {
      if (k * static_cast<int>(blockDim.y) < left) {
        __stcs(y + offset + k * stride, make_float4(v01_gelu(v[k].x + b.x), v01_gelu(v[k].y + b.y),
                                                    v01_gelu(v[k].z + b.z), v01_gelu(v[k].w + b.w)));
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
  const Shape s = shape(p, v01_threads, v01_rows);
  const dim3 grid = s.grid(), block = s.block();
  const auto* x = reinterpret_cast<const float4*>(a.x);
  const auto* bias = reinterpret_cast<const float4*>(a.bias);
  auto* y = reinterpret_cast<float4*>(a.y);
  const int64 rows = p.rows, rows_per_block = s.rows_per_block;
  const int row_vectors = static_cast<int>(p.cols / 4);
  return [=](StreamHandle stream) {
    gelu_tanh_v01_unrolled<<<grid, block, 0, cuda_stream(stream)>>>(x, bias, y, rows, row_vectors, rows_per_block);
  };
}

[[maybe_unused]] const Register<GeluTanh> registered{{
    .parent = "v00_naive",
    .note = "float4, bias in registers, four rows in flight, cache hints: more bytes in flight, fewer instructions",
    .min_cc = 80,
    .accepts = [](const Problem& p) { return p.cols % 4 == 0 && p.offset % 4 == 0 && p.cols <= 0x7fffffff; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::gelu_tanh
#endif
