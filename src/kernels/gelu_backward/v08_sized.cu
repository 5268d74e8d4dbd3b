// SPDX-License-Identifier: Apache-2.0
// v08_sized: four columns a thread where rows allow it and one elsewhere, and few rows in one slab. Parent v07_columns:
// up to 128 rows a block sums all of them, and neither partial sums nor the last block's second pass are left; 64x1024
// should take hardly more than one round trip to memory.
#include "kernels/gelu_backward/exp2_slope.cuh"
#include "kernels/gelu_backward/slab_sums.cuh"
#include "mage_bench/device_code.cuh"

namespace mage::gelu_backward {

__device__ inline float v08_load(const float* address) {
  float v;
  asm volatile("ld.global.nc.L1::no_allocate.f32 %0, [%1];" : "=f"(v) : "l"(address));
  return v;
}
__device__ inline float4 v08_load(const float4* address) {
  float4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(address));
  return v;
}

template <class V, int in_flight>
__global__ void __launch_bounds__(slab_threads, 4)
    gelu_backward_v08_sized(const V* __restrict__ x, const V* __restrict__ bias, const V* __restrict__ dy,
                            V* __restrict__ dx, V* partials, unsigned* counters, V* dbias, int64 rows, int row_units,
                            int64 rows_per_slab) {
  const int unit = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int64 first = blockIdx.y * rows_per_slab;
  const int64 end = min(rows, first + rows_per_slab);
  V sum{};
  if (unit < row_units) {
    const V b = __ldg(bias + unit);
    const int lanes = static_cast<int>(blockDim.y);
    const int64 stride = static_cast<int64>(lanes) * row_units;
    int64 at = (first + threadIdx.y) * row_units + unit;
    for (int64 row = first + threadIdx.y; row < end; row += in_flight * lanes, at += in_flight * stride) {
      const int64 left = end - row;
      V v[in_flight], g[in_flight];
#pragma unroll
      for (int k = 0; k < in_flight; ++k) {
        if (k * lanes < left) {
          v[k] = v08_load(x + at + k * stride);
          g[k] = v08_load(dy + at + k * stride);
        }
      }
#pragma unroll
      for (int k = 0; k < in_flight; ++k) {
        if (k * lanes < left) {
          const V d = exp2_dx(v[k], b, g[k]);
          __stcs(dx + at + k * stride, d);
          add(sum, d);
        }
      }
    }
  }
  sum = sum_over_lanes(sum);
  if (gridDim.y > 1) {
    if (threadIdx.y == 0 && unit < row_units) partials[static_cast<int64>(blockIdx.y) * row_units + unit] = sum;
    if (!arrives_last(counters + blockIdx.x, gridDim.y)) return;
    sum = unit < row_units ? sum_of_slabs(partials, static_cast<int>(gridDim.y), row_units, unit) : V{};
    sum = sum_over_lanes(sum);
  }
  if (threadIdx.y == 0 && unit < row_units) dbias[unit] = sum;
}

}  // namespace mage::gelu_backward

#if MAGE_HOST
#include "kernels/gelu_backward/slab_shape.cuh"

namespace mage::gelu_backward {
namespace {

template <class V, int in_flight>
Launch launch(const Problem& p, const Args& a, int widest) {
  constexpr auto columns = static_cast<int64>(sizeof(V) / sizeof(float));
  const Shape s = sized_shape(p.rows, p.cols / columns, in_flight, widest, 128 / sizeof(V));
  auto scratch = allocate_scratch(s.partials() * sizeof(V) + s.counter_bytes());
  auto* partials = static_cast<V*>(scratch.get());
  auto* counters = reinterpret_cast<unsigned*>(partials + s.partials());
  zero_counters(counters, s);
  return [=, rows = p.rows, scratch = std::move(scratch)](StreamHandle stream) {
    gelu_backward_v08_sized<V, in_flight><<<s.grid(), s.block(), 0, cuda_stream(stream)>>>(
        reinterpret_cast<const V*>(a.x), reinterpret_cast<const V*>(a.bias), reinterpret_cast<const V*>(a.dy),
        reinterpret_cast<V*>(a.dx), partials, counters, reinterpret_cast<V*>(a.dbias), rows, s.row_units,
        s.rows_per_slab);
  };
}

Launch prepare(const Problem& p, const Args& a) {
  const bool vectors = p.cols % 4 == 0 && p.offset % 4 == 0;
  return vectors ? launch<float4, 4>(p, a, 64) : launch<float, 8>(p, a, 128);
}

[[maybe_unused]] const Register<GeluBackward> registered{{
    .parent = "v07_columns",
    .note = "vectors where possible, few rows in one slab: no second stage for small problems",
    .min_cc = 80,
    .accepts = [](const Problem& p) { return p.cols <= 0x7fffffff; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::gelu_backward
#endif
