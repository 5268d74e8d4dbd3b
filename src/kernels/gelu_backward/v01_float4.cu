// SPDX-License-Identifier: Apache-2.0
// v01_float4: 16-byte accesses, and the column sum in two stages: partial sums of slabs of rows, then their sum. Parent
// v00_naive: a quarter of the memory instructions, and all SMs sum instead of a thread a column. dx is still read
// again, 16 bytes of traffic an element instead of 12, and three kernels run instead of two.
#include "kernels/gelu_backward/slab_sums.cuh"
#include "mage_bench/device_code.cuh"

namespace mage::gelu_backward {

__device__ inline float v01_slope(float t) {
  const float cdf = 0.5f * (1.0f + erff(t * 0.70710678f));
  const float pdf = 0.39894228f * expf(-0.5f * t * t);
  return cdf + t * pdf;
}

__global__ void __launch_bounds__(slab_threads)
    gelu_backward_v01_float4_dx(const float4* __restrict__ x, const float4* __restrict__ bias,
                                const float4* __restrict__ dy, float4* __restrict__ dx, int64 vectors,
                                int64 row_vectors) {
  const int64 i = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < vectors) {
    const float4 v = x[i];
    const float4 g = dy[i];
    const float4 b = bias[i % row_vectors];
    dx[i] = make_float4(g.x * v01_slope(v.x + b.x), g.y * v01_slope(v.y + b.y), g.z * v01_slope(v.z + b.z),
                        g.w * v01_slope(v.w + b.w));
  }
}

__global__ void __launch_bounds__(slab_threads)
    gelu_backward_v01_float4_slabs(const float4* __restrict__ dx, float4* __restrict__ partials, int64 rows,
                                   int row_vectors, int64 rows_per_slab) {
  const int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int64 first = blockIdx.y * rows_per_slab;
  const int64 end = min(rows, first + rows_per_slab);
  float4 sum{};
  if (column < row_vectors) {
#pragma unroll 4
    for (int64 row = first + threadIdx.y; row < end; row += blockDim.y) add(sum, dx[row * row_vectors + column]);
  }
  sum = sum_over_lanes(sum);
  if (threadIdx.y == 0 && column < row_vectors) {
    partials[static_cast<int64>(blockIdx.y) * row_vectors + column] = sum;
  }
}

__global__ void __launch_bounds__(slab_threads)
    gelu_backward_v01_float4_sum(const float4* partials, float4* dbias, int slabs, int row_vectors) {
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

int64 dx_blocks(const Problem& p) { return ceil_div(p.rows * p.cols / 4, slab_threads); }

Launch prepare(const Problem& p, const Args& a) {
  const Shape s = float4_shape(p);
  const auto* x = reinterpret_cast<const float4*>(a.x);
  const auto* bias = reinterpret_cast<const float4*>(a.bias);
  const auto* dy = reinterpret_cast<const float4*>(a.dy);
  auto* dx = reinterpret_cast<float4*>(a.dx);
  auto* dbias = reinterpret_cast<float4*>(a.dbias);
  const int64 rows = p.rows, vectors = p.rows * p.cols / 4;
  const auto dx_grid = static_cast<unsigned>(dx_blocks(p));
  return [=, scratch = allocate_scratch(s.partials() * sizeof(float4))](StreamHandle stream) {
    auto* partials = static_cast<float4*>(scratch.get());
    const auto on = cuda_stream(stream);
    gelu_backward_v01_float4_dx<<<dx_grid, slab_threads, 0, on>>>(x, bias, dy, dx, vectors, s.row_units);
    gelu_backward_v01_float4_slabs<<<s.grid(), s.block(), 0, on>>>(dx, partials, rows, s.row_units, s.rows_per_slab);
    gelu_backward_v01_float4_sum<<<s.sum_grid(), sum_block, 0, on>>>(partials, dbias, s.slabs, s.row_units);
  };
}

[[maybe_unused]] const Register<GeluBackward> registered{{
    .parent = "v00_naive",
    .note = "float4, and partial sums of slabs of rows: all SMs sum",
    .min_cc = 80,
    .accepts =
        [](const Problem& p) {
          return p.cols % 4 == 0 && p.offset % 4 == 0 && p.cols <= 0x7fffffff && dx_blocks(p) <= 0x7fffffff;
        },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::gelu_backward
#endif
