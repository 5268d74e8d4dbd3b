// SPDX-License-Identifier: Apache-2.0
// v06_last_block: one kernel; of the blocks of a strip of columns, the one that ends last adds the strip's slabs, in
// the order of the slabs whoever that is. Parent v04_exp2: no second kernel to launch. A block pays a fence and an
// atomic for it, beside three others on its SM that have loads in flight. Expected: what v05_pdl gains, and more on
// small problems.
#include "kernels/gelu_backward/exp2_slope.cuh"
#include "kernels/gelu_backward/slab_sums.cuh"
#include "mage_bench/device_code.cuh"

namespace mage::gelu_backward {

constexpr int v06_rows = 4;  // in flight a thread

__device__ inline float4 v06_load(const float4* address) {
  float4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(address));
  return v;
}

__global__ void __launch_bounds__(slab_threads, 4)
    gelu_backward_v06_last_block(const float4* __restrict__ x, const float4* __restrict__ bias,
                                 const float4* __restrict__ dy, float4* __restrict__ dx, float4* partials,
                                 unsigned* counters, float4* dbias, int64 rows, int row_vectors, int64 rows_per_slab) {
  const int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int64 first = blockIdx.y * rows_per_slab;
  const int64 end = min(rows, first + rows_per_slab);
  float4 sum{};
  if (column < row_vectors) {
    const float4 b = __ldg(bias + column);
    const int lanes = static_cast<int>(blockDim.y);
    const int64 stride = static_cast<int64>(lanes) * row_vectors;
    int64 at = (first + threadIdx.y) * row_vectors + column;
    for (int64 row = first + threadIdx.y; row < end; row += v06_rows * lanes, at += v06_rows * stride) {
      const int64 left = end - row;
      float4 v[v06_rows], g[v06_rows];
#pragma unroll
      for (int k = 0; k < v06_rows; ++k) {
        if (k * lanes < left) {
          v[k] = v06_load(x + at + k * stride);
          g[k] = v06_load(dy + at + k * stride);
        }
      }
#pragma unroll
      for (int k = 0; k < v06_rows; ++k) {
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
  if (!arrives_last(counters + blockIdx.x, gridDim.y)) return;

  sum = float4{};
  if (column < row_vectors) sum = sum_of_slabs(partials, static_cast<int>(gridDim.y), row_vectors, column);
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
  auto scratch = allocate_scratch(s.partials() * sizeof(float4) + s.counter_bytes());
  auto* partials = static_cast<float4*>(scratch.get());
  auto* counters = reinterpret_cast<unsigned*>(partials + s.partials());
  zero_counters(counters, s);
  return [=, scratch = std::move(scratch)](StreamHandle stream) {
    gelu_backward_v06_last_block<<<s.grid(), s.block(), 0, cuda_stream(stream)>>>(
        x, bias, dy, dx, partials, counters, dbias, rows, s.row_units, s.rows_per_slab);
  };
}

[[maybe_unused]] const Register<GeluBackward> registered{{
    .parent = "v04_exp2",
    .note = "the last block of a strip adds the slabs in order: no second kernel",
    .min_cc = 80,
    .accepts = [](const Problem& p) { return p.cols % 4 == 0 && p.offset % 4 == 0 && p.cols <= 0x7fffffff; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::gelu_backward
#endif
