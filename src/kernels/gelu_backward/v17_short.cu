// SPDX-License-Identifier: Apache-2.0
// v17_short: a slab is the rows in flight, once, up to eight waves of blocks: at 4096x4096 and below. Parent
// v16_flagless, whose partial sums cost so little that twice as many may be worth it: blocks live half as long, and
// less is left to do when the first SM runs dry. Expected: 49.8 us at 4096x4096 instead of 50.3.
#include "kernels/gelu_backward/exp2_slope.cuh"
#include "kernels/gelu_backward/flagless_sums.cuh"
#include "mage_bench/device_code.cuh"

namespace mage::gelu_backward {

template <class V, int in_flight>
__global__ void __launch_bounds__(slab_threads, 4)
    gelu_backward_v17_short(const V* __restrict__ x, const V* __restrict__ bias, const V* __restrict__ dy,
                            V* __restrict__ dx, V* partials, unsigned* counters, V* dbias, int64 rows, int row_units,
                            int64 rows_per_slab) {
  const int unit = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int64 first = blockIdx.y * rows_per_slab;
  const int64 end = min(rows, first + rows_per_slab);
#if __CUDA_ARCH__ >= 900  // a build for older devices compiles this file too; min_cc keeps it from running there
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  unsigned started_before = 0;  // blocks of the strip; compared at the end, so that no load waits for it
  if (gridDim.y > 1 && threadIdx.x == 0 && threadIdx.y == 0) {
    asm volatile("atom.relaxed.gpu.global.inc.u32 %0, [%1], %2;"
                 : "=r"(started_before)
                 : "l"(counters + blockIdx.x), "r"(gridDim.y - 1)
                 : "memory");
  }
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
    if (threadIdx.y == 0 && unit < row_units) {
      publish(partials + static_cast<int64>(blockIdx.y) * row_units + unit, sum);
    }
    const bool last_to_start = started_before == gridDim.y - 1;
    if (__syncthreads_or(last_to_start ? 1 : 0) == 0) return;
    sum = unit < row_units ? take_slabs(partials, static_cast<int>(gridDim.y), row_units, unit) : V{};
    sum = sum_over_lanes(sum);
  }
  if (threadIdx.y == 0 && unit < row_units) dbias[unit] = sum;
}

}  // namespace mage::gelu_backward

#if MAGE_HOST
#include "kernels/gelu_backward/slab_shape.cuh"

namespace mage::gelu_backward {
namespace {

/// Beyond one slab: slabs of the rows in flight, or of 2, 4, ... times as many, so that there are eight waves of four
/// blocks an SM at most.
Shape v17_shape(int64 rows, int64 row_units, int in_flight, int widest, int narrowest) {
  constexpr int64 blocks_at_most = 8 * 4 * 132;
  Shape s = sized_shape(rows, row_units, in_flight, widest, narrowest);
  if (s.slabs == 1) return s;
  s.rows_per_slab = int64{in_flight} * s.block_y;
  while (s.rows_per_slab < rows && s.strips * ceil_div(rows, s.rows_per_slab) > blocks_at_most) s.rows_per_slab *= 2;
  s.slabs = static_cast<int>(ceil_div(rows, s.rows_per_slab));
  return s;
}

template <class V, int in_flight>
Launch launch(const Problem& p, const Args& a, int widest) {
  constexpr auto columns = static_cast<int64>(sizeof(V) / sizeof(float));
  const Shape s = v17_shape(p.rows, p.cols / columns, in_flight, widest, 128 / sizeof(V));
  auto scratch = allocate_scratch(s.partials() * sizeof(V) + s.counter_bytes());
  auto* partials = static_cast<V*>(scratch.get());
  auto* counters = reinterpret_cast<unsigned*>(partials + s.partials());
  zero_counters(counters, s);
  check(cudaMemset(partials, 0xff, s.partials() * sizeof(V)), "cudaMemset of partial sums");
  check(cudaDeviceSynchronize(), "cudaMemset of partial sums");
  return [=, rows = p.rows, scratch = std::move(scratch)](StreamHandle stream) {
    launch_kernel(gelu_backward_v17_short<V, in_flight>, {.grid = s.grid(), .block = s.block(), .dependent = true},
                  stream, reinterpret_cast<const V*>(a.x), reinterpret_cast<const V*>(a.bias),
                  reinterpret_cast<const V*>(a.dy), reinterpret_cast<V*>(a.dx), partials, counters,
                  reinterpret_cast<V*>(a.dbias), rows, s.row_units, s.rows_per_slab);
  };
}

Launch prepare(const Problem& p, const Args& a) {
  const bool vectors = p.cols % 4 == 0 && p.offset % 4 == 0;
  return vectors ? launch<float4, 4>(p, a, 16) : launch<float, 8>(p, a, 64);
}

[[maybe_unused]] const Register<GeluBackward> registered{{
    .parent = "v16_flagless",
    .note = "slabs of one batch of rows: twice the partial sums, half the life of a block",
    .min_cc = 90,
    .accepts = [](const Problem& p) { return p.cols <= 0x7fffffff; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::gelu_backward
#endif
