// SPDX-License-Identifier: Apache-2.0
// v05_pdl: the second kernel by programmatic dependent launch: its blocks are resident when the last block of the first
// ends. Parent v04_exp2: saves the launch between the two kernels. Expected: 1 us of every call.
#include "kernels/gelu_backward/exp2_slope.cuh"
#include "kernels/gelu_backward/slab_sums.cuh"
#include "mage_bench/device_code.cuh"

namespace mage::gelu_backward {

constexpr int v05_rows = 4;  // in flight a thread

__device__ inline float4 v05_load(const float4* address) {
  float4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(address));
  return v;
}

__global__ void __launch_bounds__(slab_threads, 4)
    gelu_backward_v05_pdl(const float4* __restrict__ x, const float4* __restrict__ bias, const float4* __restrict__ dy,
                          float4* __restrict__ dx, float4* __restrict__ partials, int64 rows, int row_vectors,
                          int64 rows_per_slab) {
  const int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int64 first = blockIdx.y * rows_per_slab;
  const int64 end = min(rows, first + rows_per_slab);
#if __CUDA_ARCH__ >= 900  // a build for older devices compiles this file too; min_cc keeps it from running there
  asm volatile("griddepcontrol.launch_dependents;");
#endif
  float4 sum{};
  if (column < row_vectors) {
    const float4 b = __ldg(bias + column);
    const int lanes = static_cast<int>(blockDim.y);
    const int64 stride = static_cast<int64>(lanes) * row_vectors;
    int64 at = (first + threadIdx.y) * row_vectors + column;
    for (int64 row = first + threadIdx.y; row < end; row += v05_rows * lanes, at += v05_rows * stride) {
      const int64 left = end - row;
      float4 v[v05_rows], g[v05_rows];
#pragma unroll
      for (int k = 0; k < v05_rows; ++k) {
        if (k * lanes < left) {
          v[k] = v05_load(x + at + k * stride);
          g[k] = v05_load(dy + at + k * stride);
        }
      }
#pragma unroll
      for (int k = 0; k < v05_rows; ++k) {
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
    partials[static_cast<int64>(blockIdx.y) * row_vectors + column] = sum;
  }
}

__global__ void __launch_bounds__(slab_threads)
    gelu_backward_v05_pdl_sum(const float4* partials, float4* dbias, int slabs, int row_vectors) {
#if __CUDA_ARCH__ >= 900  // a build for older devices compiles this file too; min_cc keeps it from running there
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  const int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  float4 sum{};
  if (column < row_vectors) sum = sum_of_slabs(partials, slabs, row_vectors, column);
  sum = sum_over_lanes(sum);
  if (threadIdx.y == 0 && column < row_vectors) dbias[column] = sum;
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
  auto* dbias = reinterpret_cast<float4*>(a.dbias);
  const int64 rows = p.rows;
  auto scratch = allocate_scratch(s.partials() * sizeof(float4));
  return [=, scratch = std::move(scratch)](StreamHandle stream) {
    auto* partials = static_cast<float4*>(scratch.get());
    gelu_backward_v05_pdl<<<s.grid(), s.block(), 0, cuda_stream(stream)>>>(x, bias, dy, dx, partials, rows, s.row_units,
                                                                           s.rows_per_slab);
    launch_kernel(gelu_backward_v05_pdl_sum, {.grid = s.sum_grid(), .block = sum_block, .dependent = true}, stream,
                  partials, dbias, s.slabs, s.row_units);
  };
}

[[maybe_unused]] const Register<GeluBackward> registered{{
    .parent = "v04_exp2",
    .note = "the sum of the slabs is launched while the first kernel ends",
    .min_cc = 90,
    .accepts = [](const Problem& p) { return p.cols % 4 == 0 && p.offset % 4 == 0 && p.cols <= 0x7fffffff; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::gelu_backward
#endif
