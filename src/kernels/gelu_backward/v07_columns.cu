// SPDX-License-Identifier: Apache-2.0
// v07_columns: a thread owns one column instead of four, by 4-byte accesses, with eight rows in flight. Parent
// v06_last_block: any column count and any misalignment. Four times the memory instructions, but they and the
// arithmetic still fit the time that memory takes, and 64 bytes in flight a thread are enough for it.
#include "kernels/gelu_backward/exp2_slope.cuh"
#include "kernels/gelu_backward/slab_sums.cuh"
#include "mage_bench/device_code.cuh"

namespace mage::gelu_backward {

constexpr int v07_rows = 8;  // in flight a thread

__device__ inline float v07_load(const float* address) {
  float v;
  asm volatile("ld.global.nc.L1::no_allocate.f32 %0, [%1];" : "=f"(v) : "l"(address));
  return v;
}

__global__ void __launch_bounds__(slab_threads, 4)
    gelu_backward_v07_columns(const float* __restrict__ x, const float* __restrict__ bias, const float* __restrict__ dy,
                              float* __restrict__ dx, float* partials, unsigned* counters, float* dbias, int64 rows,
                              int row_units, int64 rows_per_slab) {
  const int unit = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int64 first = blockIdx.y * rows_per_slab;
  const int64 end = min(rows, first + rows_per_slab);
  float sum{};
  if (unit < row_units) {
    const float b = __ldg(bias + unit);
    const int lanes = static_cast<int>(blockDim.y);
    const int64 stride = static_cast<int64>(lanes) * row_units;
    int64 at = (first + threadIdx.y) * row_units + unit;
    for (int64 row = first + threadIdx.y; row < end; row += v07_rows * lanes, at += v07_rows * stride) {
      const int64 left = end - row;
      float v[v07_rows], g[v07_rows];
#pragma unroll
      for (int k = 0; k < v07_rows; ++k) {
        if (k * lanes < left) {
          v[k] = v07_load(x + at + k * stride);
          g[k] = v07_load(dy + at + k * stride);
        }
      }
#pragma unroll
      for (int k = 0; k < v07_rows; ++k) {
        if (k * lanes < left) {
          const float d = exp2_dx(v[k], b, g[k]);
          __stcs(dx + at + k * stride, d);
          add(sum, d);
        }
      }
    }
  }
  sum = sum_over_lanes(sum);
  if (threadIdx.y == 0 && unit < row_units) partials[static_cast<int64>(blockIdx.y) * row_units + unit] = sum;
  if (!arrives_last(counters + blockIdx.x, gridDim.y)) return;

  sum = unit < row_units ? sum_of_slabs(partials, static_cast<int>(gridDim.y), row_units, unit) : 0.0f;
  sum = sum_over_lanes(sum);
  if (threadIdx.y == 0 && unit < row_units) dbias[unit] = sum;
}

}  // namespace mage::gelu_backward

#if MAGE_HOST
#include "kernels/gelu_backward/slab_shape.cuh"

namespace mage::gelu_backward {
namespace {

Launch prepare(const Problem& p, const Args& a) {
  const Shape s = shape(p.rows, p.cols, v07_rows, 128);
  auto scratch = allocate_scratch(s.partials() * sizeof(float) + s.counter_bytes());
  auto* partials = static_cast<float*>(scratch.get());
  auto* counters = reinterpret_cast<unsigned*>(partials + s.partials());
  zero_counters(counters, s);
  return [=, rows = p.rows, scratch = std::move(scratch)](StreamHandle stream) {
    gelu_backward_v07_columns<<<s.grid(), s.block(), 0, cuda_stream(stream)>>>(
        a.x, a.bias, a.dy, a.dx, partials, counters, a.dbias, rows, s.row_units, s.rows_per_slab);
  };
}

[[maybe_unused]] const Register<GeluBackward> registered{{
    .parent = "v06_last_block",
    .note = "one column a thread, eight rows in flight: any column count and misalignment",
    .min_cc = 80,
    .accepts = [](const Problem& p) { return p.cols <= 0x7fffffff; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::gelu_backward
#endif
