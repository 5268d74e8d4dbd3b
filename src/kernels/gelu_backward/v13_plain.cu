// SPDX-License-Identifier: Apache-2.0
// v13_plain: v09_overlapped without its cache hints. Parent v09_overlapped: v11_unhinted beats its hinted parent by 4
// to 6 % far beyond L2 in every mode, and what overlapping calls save does not need hints. Expected: 387 us at
// 8192x16384 instead of 405 and 411, 69.3 at 2048x11008 instead of 70.3 and 71.8, and smaller problems as the parent.
#include "kernels/gelu_backward/exp2_slope.cuh"
#include "kernels/gelu_backward/slab_sums.cuh"
#include "mage_bench/device_code.cuh"

namespace mage::gelu_backward {

template <class V, int in_flight>
__global__ void __launch_bounds__(slab_threads, 4)
    gelu_backward_v13_plain(const V* __restrict__ x, const V* __restrict__ bias, const V* __restrict__ dy,
                            V* __restrict__ dx, V* partials, unsigned* counters, V* dbias, int64 rows, int row_units,
                            int64 rows_per_slab) {
  const int unit = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int64 first = blockIdx.y * rows_per_slab;
  const int64 end = min(rows, first + rows_per_slab);
#if __CUDA_ARCH__ >= 900  // a build for older devices compiles this file too; min_cc keeps it from running there
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  V sum{};
  if (unit < row_units) {
    const V b = load_now(bias + unit);
    const int lanes = static_cast<int>(blockDim.y);
    const int64 stride = static_cast<int64>(lanes) * row_units;
    int64 at = (first + threadIdx.y) * row_units + unit;
    for (int64 row = first + threadIdx.y; row < end; row += in_flight * lanes, at += in_flight * stride) {
      const int64 left = end - row;
      V v[in_flight], g[in_flight];
#pragma unroll
      for (int k = 0; k < in_flight; ++k) {
        if (k * lanes < left) {
          v[k] = load_now(x + at + k * stride);
          g[k] = load_now(dy + at + k * stride);
        }
      }
#pragma unroll
      for (int k = 0; k < in_flight; ++k) {
        if (k * lanes < left) {
          const V d = exp2_dx(v[k], b, g[k]);
          dx[at + k * stride] = d;
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
    launch_kernel(gelu_backward_v13_plain<V, in_flight>, {.grid = s.grid(), .block = s.block(), .dependent = true},
                  stream, reinterpret_cast<const V*>(a.x), reinterpret_cast<const V*>(a.bias),
                  reinterpret_cast<const V*>(a.dy), reinterpret_cast<V*>(a.dx), partials, counters,
                  reinterpret_cast<V*>(a.dbias), rows, s.row_units, s.rows_per_slab);
  };
}

Launch prepare(const Problem& p, const Args& a) {
  const bool vectors = p.cols % 4 == 0 && p.offset % 4 == 0;
  return vectors ? launch<float4, 4>(p, a, 64) : launch<float, 8>(p, a, 128);
}

[[maybe_unused]] const Register<GeluBackward> registered{{
    .parent = "v09_overlapped",
    .note = "no cache hints: overlapping calls, and streams may use all of L2 to gather writes",
    .min_cc = 90,
    .accepts = [](const Problem& p) { return p.cols <= 0x7fffffff; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::gelu_backward
#endif
