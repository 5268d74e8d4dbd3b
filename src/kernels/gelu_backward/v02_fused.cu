// SPDX-License-Identifier: Apache-2.0
// v02_fused: a thread owns four columns of a slab of rows: it writes dx and keeps the slab's sums in registers; a
// second kernel adds the slabs in order. Parent v01_float4: dx is not read again, 12 bytes of traffic an element
// instead of 16.
#include "kernels/gelu_backward/slab_sums.cuh"
#include "mage_bench/device_code.cuh"

namespace mage::gelu_backward {

__device__ inline float v02_slope(float t) {
  const float cdf = 0.5f * (1.0f + erff(t * 0.70710678f));
  const float pdf = 0.39894228f * expf(-0.5f * t * t);
  return cdf + t * pdf;
}

__global__ void __launch_bounds__(slab_threads)
    gelu_backward_v02_fused(const float4* __restrict__ x, const float4* __restrict__ bias,
                            const float4* __restrict__ dy, float4* __restrict__ dx, float4* __restrict__ partials,
                            int64 rows, int row_vectors, int64 rows_per_slab) {
  const int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int64 first = blockIdx.y * rows_per_slab;
  const int64 end = min(rows, first + rows_per_slab);
  float4 sum{};
  if (column < row_vectors) {
    const float4 b = __ldg(bias + column);
    for (int64 row = first + threadIdx.y; row < end; row += blockDim.y) {
      const int64 at = row * row_vectors + column;
      const float4 v = x[at];
      const float4 g = dy[at];
      const float4 d = make_float4(g.x * v02_slope(v.x + b.x), g.y * v02_slope(v.y + b.y), g.z * v02_slope(v.z + b.z),
                                   g.w * v02_slope(v.w + b.w));
      dx[at] = d;
      add(sum, d);
    }
  }
  sum = sum_over_lanes(sum);
  if (threadIdx.y == 0 && column < row_vectors) {
    partials[static_cast<int64>(blockIdx.y) * row_vectors + column] = sum;
  }
}

__global__ void __launch_bounds__(slab_threads)
    gelu_backward_v02_fused_sum(const float4* partials, float4* dbias, int slabs, int row_vectors) {
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
    gelu_backward_v02_fused<<<s.grid(), s.block(), 0, on>>>(x, bias, dy, dx, partials, rows, s.row_units,
                                                            s.rows_per_slab);
    gelu_backward_v02_fused_sum<<<s.sum_grid(), sum_block, 0, on>>>(partials, dbias, s.slabs, s.row_units);
  };
}

[[maybe_unused]] const Register<GeluBackward> registered{{
    .parent = "v01_float4",
    .note = "dx and the slabs' partial sums in one pass: nothing is read twice",
    .min_cc = 80,
    .accepts = [](const Problem& p) { return p.cols % 4 == 0 && p.offset % 4 == 0 && p.cols <= 0x7fffffff; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::gelu_backward
#endif
