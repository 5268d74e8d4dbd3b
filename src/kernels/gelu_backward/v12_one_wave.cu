// SPDX-License-Identifier: Apache-2.0
// v12_one_wave: as many slabs as give one block to each place where one can run, of rows as even as can be. Parent
// v06_last_block, which runs four to eight waves: fewer fences and a quarter of the partial sums, and no last wave that
// is not full; but a block that falls behind is waited for, and no other takes over its work.
#include "kernels/gelu_backward/exp2_slope.cuh"
#include "kernels/gelu_backward/slab_sums.cuh"
#include "mage_bench/device_code.cuh"

namespace mage::gelu_backward {

constexpr int v12_rows = 4;  // in flight a thread

__device__ inline float4 v12_load(const float4* address) {
  float4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(address));
  return v;
}

__global__ void __launch_bounds__(slab_threads, 4)
    gelu_backward_v12_one_wave(const float4* __restrict__ x, const float4* __restrict__ bias,
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
    for (int64 row = first + threadIdx.y; row < end; row += v12_rows * lanes, at += v12_rows * stride) {
      const int64 left = end - row;
      float4 v[v12_rows], g[v12_rows];
#pragma unroll
      for (int k = 0; k < v12_rows; ++k) {
        if (k * lanes < left) {
          v[k] = v12_load(x + at + k * stride);
          g[k] = v12_load(dy + at + k * stride);
        }
      }
#pragma unroll
      for (int k = 0; k < v12_rows; ++k) {
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

Shape one_wave(const Problem& p) {
  constexpr int64 places = 4 * 132;  // four blocks of 64 registers a thread on each SM of an H200
  Shape s = float4_shape(p);
  const int64 slabs = s.strips < places ? places / s.strips : 1;
  const int64 even = ceil_div(p.rows, slabs);
  s.rows_per_slab = even > s.block_y ? even : s.block_y;
  s.slabs = static_cast<int>(ceil_div(p.rows, s.rows_per_slab));
  return s;
}

Launch prepare(const Problem& p, const Args& a) {
  const Shape s = one_wave(p);
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
    gelu_backward_v12_one_wave<<<s.grid(), s.block(), 0, cuda_stream(stream)>>>(
        x, bias, dy, dx, partials, counters, dbias, rows, s.row_units, s.rows_per_slab);
  };
}

[[maybe_unused]] const Register<GeluBackward> registered{{
    .parent = "v06_last_block",
    .note = "one wave of blocks, slabs of even size: fewer partial sums and fences",
    .min_cc = 80,
    .accepts = [](const Problem& p) { return p.cols % 4 == 0 && p.offset % 4 == 0 && p.cols <= 0x7fffffff; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::gelu_backward
#endif
