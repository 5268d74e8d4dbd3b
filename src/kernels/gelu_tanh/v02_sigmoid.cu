// SPDX-License-Identifier: Apache-2.0
// v02_sigmoid: (1 + tanh z) / 2 as 1 / (1 + 2^(-2 log2(e) z)), constants folded: 6 FP32 instructions and 2 of the
// special functions' unit an element. Parent v01_unrolled: about a third of the instructions of tanhf and no branch,
// which should help only where the data is in L2. Worst |err| / bound over every float t, |t| in [2^-40, 40], computed
// on the host with ex2 off by up to 2^-22 and rcp by up to 2^-23 either way: 0.40. Where ex2 overflows, rcp gives 0 and
// y = t * 0: -0, and NaN for -Inf, as in the formula.
#include "kernels/gelu_tanh/sigmoid_form.cuh"
#include "mage_bench/device_code.cuh"

namespace mage::gelu_tanh {

constexpr int v02_rows = 4;  // in flight a thread
constexpr int v02_threads = 256;

__device__ inline float4 v02_load(const float4* address) {
  float4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(address));
  return v;
}

__global__ void __launch_bounds__(v02_threads)
    gelu_tanh_v02_sigmoid(const float4* __restrict__ x, const float4* __restrict__ bias, float4* __restrict__ y,
                          int64 rows, int row_vectors, int64 rows_per_block) {
  const int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (column >= row_vectors) return;
  const int64 first = blockIdx.y * rows_per_block + threadIdx.y;
  const int64 end = min(rows, (blockIdx.y + int64{1}) * rows_per_block);
  const int64 stride = static_cast<int64>(blockDim.y) * row_vectors;
  const float4 b = __ldg(bias + column);

  int64 offset = first * row_vectors + column;
  for (int64 row = first; row < end; row += v02_rows * static_cast<int>(blockDim.y), offset += v02_rows * stride) {
    const int64 left = end - row;
    float4 v[v02_rows];
#pragma unroll
    for (int k = 0; k < v02_rows; ++k) {
      if (k * static_cast<int>(blockDim.y) < left) v[k] = v02_load(x + offset + k * stride);
    }
#pragma unroll
    for (int k = 0; k < v02_rows; ++k) {
      if (k * static_cast<int>(blockDim.y) < left) {
        __stcs(y + offset + k * stride, make_float4(sigmoid_gelu(v[k].x + b.x), sigmoid_gelu(v[k].y + b.y),
                                                    sigmoid_gelu(v[k].z + b.z), sigmoid_gelu(v[k].w + b.w)));
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
  const Shape s = shape(p, v02_threads, v02_rows);
  const dim3 grid = s.grid(), block = s.block();
  const auto* x = reinterpret_cast<const float4*>(a.x);
  const auto* bias = reinterpret_cast<const float4*>(a.bias);
  auto* y = reinterpret_cast<float4*>(a.y);
  const int64 rows = p.rows, rows_per_block = s.rows_per_block;
  const int row_vectors = static_cast<int>(p.cols / 4);
  return [=](StreamHandle stream) {
    gelu_tanh_v02_sigmoid<<<grid, block, 0, cuda_stream(stream)>>>(x, bias, y, rows, row_vectors, rows_per_block);
  };
}

[[maybe_unused]] const Register<GeluTanh> registered{{
    .parent = "v01_unrolled",
    .note = "tanh as a sigmoid by ex2 and rcp: a third of the instructions, no branch",
    .min_cc = 80,
    .accepts = [](const Problem& p) { return p.cols % 4 == 0 && p.offset % 4 == 0 && p.cols <= 0x7fffffff; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::gelu_tanh
#endif
