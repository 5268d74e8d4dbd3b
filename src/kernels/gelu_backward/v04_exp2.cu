// SPDX-License-Identifier: Apache-2.0
// v04_exp2: erfc(|t| / sqrt 2) and phi(t) as 2 to a polynomial each, without a branch or a select: exp2_form.hpp.
// Parent v03_unrolled: about half the instructions an element, which should help only where the data is in L2. Worst
// |err| / bound of dx over every float t, |t| in [2^-40, 40], computed on the host with ex2 off by up to 2^-22 either
// way: 0.49.
#include "kernels/gelu_backward/exp2_slope.cuh"
#include "kernels/gelu_backward/slab_sums.cuh"
#include "mage_bench/device_code.cuh"

namespace mage::gelu_backward {

constexpr int v04_rows = 4;  // in flight a thread

__device__ inline float4 v04_load(const float4* address) {
  float4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(address));
  return v;
}

__global__ void __launch_bounds__(slab_threads, 4)
    gelu_backward_v04_exp2(const float4* __restrict__ x, const float4* __restrict__ bias, const float4* __restrict__ dy,
                           float4* __restrict__ dx, float4* __restrict__ partials, int64 rows, int row_vectors,
                           int64 rows_per_slab) {
  const int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int64 first = blockIdx.y * rows_per_slab;
  const int64 end = min(rows, first + rows_per_slab);
  float4 sum{};
  if (column < row_vectors) {
    const float4 b = __ldg(bias + column);
    const int lanes = static_cast<int>(blockDim.y);
    const int64 stride = static_cast<int64>(lanes) * row_vectors;
    int64 at = (first + threadIdx.y) * row_vectors + column;
    for (int64 row = first + threadIdx.y; row < end; row += v04_rows * lanes, at += v04_rows * stride) {
      const int64 left = end - row;
      float4 v[v04_rows], g[v04_rows];
#pragma unroll
      for (int k = 0; k < v04_rows; ++k) {
        if (k * lanes < left) {
          v[k] = v04_load(x + at + k * stride);
          g[k] = v04_load(dy + at + k * stride);
        }
      }
#pragma unroll
      for (int k = 0; k < v04_rows; ++k) {
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
    gelu_backward_v04_exp2_sum(const float4* partials, float4* dbias, int slabs, int row_vectors) {
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
    const auto on = cuda_stream(stream);
    gelu_backward_v04_exp2<<<s.grid(), s.block(), 0, on>>>(x, bias, dy, dx, partials, rows, s.row_units,
                                                           s.rows_per_slab);
    gelu_backward_v04_exp2_sum<<<s.sum_grid(), sum_block, 0, on>>>(partials, dbias, s.slabs, s.row_units);
  };
}

[[maybe_unused]] const Register<GeluBackward> registered{{
    .parent = "v03_unrolled",
    .note = "Phi and phi by exp2 of polynomials, branch-free",
    .min_cc = 80,
    .accepts = [](const Problem& p) { return p.cols % 4 == 0 && p.offset % 4 == 0 && p.cols <= 0x7fffffff; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::gelu_backward
#endif
