// SPDX-License-Identifier: Apache-2.0
// v10_atomics: a block adds its slab's sums to dbias by atomics, after a kernel that zeroes it. Parent v04_exp2: no
// partial sums to write and read. But the order of the additions is that of the blocks' arrival, so bits differ from
// call to call.
#include "kernels/gelu_backward/exp2_slope.cuh"
#include "kernels/gelu_backward/slab_sums.cuh"
#include "mage_bench/device_code.cuh"

namespace mage::gelu_backward {

constexpr int v10_rows = 4;  // in flight a thread

__device__ inline float4 v10_load(const float4* address) {
  float4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(address));
  return v;
}

__global__ void __launch_bounds__(slab_threads) gelu_backward_v10_atomics_zero(float4* dbias, int row_vectors) {
  const int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (column < row_vectors) dbias[column] = float4{};
}

__global__ void __launch_bounds__(slab_threads, 4)
    gelu_backward_v10_atomics(const float4* __restrict__ x, const float4* __restrict__ bias,
                              const float4* __restrict__ dy, float4* __restrict__ dx, float* dbias, int64 rows,
                              int row_vectors, int64 rows_per_slab) {
  const int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int64 first = blockIdx.y * rows_per_slab;
  const int64 end = min(rows, first + rows_per_slab);
  float4 sum{};
  if (column < row_vectors) {
    const float4 b = __ldg(bias + column);
    const int lanes = static_cast<int>(blockDim.y);
    const int64 stride = static_cast<int64>(lanes) * row_vectors;
    int64 at = (first + threadIdx.y) * row_vectors + column;
    for (int64 row = first + threadIdx.y; row < end; row += v10_rows * lanes, at += v10_rows * stride) {
      const int64 left = end - row;
      float4 v[v10_rows], g[v10_rows];
#pragma unroll
      for (int k = 0; k < v10_rows; ++k) {
        if (k * lanes < left) {
          v[k] = v10_load(x + at + k * stride);
          g[k] = v10_load(dy + at + k * stride);
        }
      }
#pragma unroll
      for (int k = 0; k < v10_rows; ++k) {
        if (k * lanes < left) {
          const float4 d = exp2_dx(v[k], b, g[k]);
          __stcs(dx + at + k * stride, d);
          add(sum, d);
        }
      }
    }
  }
  sum = sum_over_lanes(sum);
  if (threadIdx.y == 0 && column < row_vectors) {
    atomicAdd(dbias + 4 * column, sum.x);
    atomicAdd(dbias + 4 * column + 1, sum.y);
    atomicAdd(dbias + 4 * column + 2, sum.z);
    atomicAdd(dbias + 4 * column + 3, sum.w);
  }
}

}  // namespace mage::gelu_backward

#if MAGE_HOST
#include "kernels/gelu_backward/slab_shape.cuh"

namespace mage::gelu_backward {
namespace {

Launch prepare(const Problem& p, const Args& a) {
  const Shape s = float4_shape(p);
  const auto* x = reinterpret_cast<const float4*>(a.x);
  const auto* bias = reinterpret_cast<const float4*>(a.bias);
  const auto* dy = reinterpret_cast<const float4*>(a.dy);
  auto* dx = reinterpret_cast<float4*>(a.dx);
  float* dbias = a.dbias;
  const int64 rows = p.rows;
  const auto zero_grid = static_cast<unsigned>(ceil_div(s.row_units, slab_threads));
  return [=](StreamHandle stream) {
    const auto on = cuda_stream(stream);
    gelu_backward_v10_atomics_zero<<<zero_grid, slab_threads, 0, on>>>(reinterpret_cast<float4*>(dbias), s.row_units);
    gelu_backward_v10_atomics<<<s.grid(), s.block(), 0, on>>>(x, bias, dy, dx, dbias, rows, s.row_units,
                                                              s.rows_per_slab);
  };
}

[[maybe_unused]] const Register<GeluBackward> registered{{
    .parent = "v04_exp2",
    .note = "slabs' sums by atomicAdd: the usual way, and not repeatable",
    .min_cc = 80,
    .deterministic = false,
    .counter_example = "float atomics add in the order of arrival: dbias has other bits on another call",
    .accepts = [](const Problem& p) { return p.cols % 4 == 0 && p.offset % 4 == 0 && p.cols <= 0x7fffffff; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::gelu_backward
#endif
