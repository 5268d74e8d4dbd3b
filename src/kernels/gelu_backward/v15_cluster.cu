// SPDX-License-Identifier: Apache-2.0
// v15_cluster: eight slabs of a strip are a cluster, whose other blocks send their sums into the shared memory of the
// first (st.async) and leave, and one wave of clusters where that is enough. Parent v14_narrow: wide problems have one
// cluster a strip, and so no partial sums in memory, no fences and no counters. Expected: 50.5 us at 4096x4096 instead
// of 51, 66.5 at 2048x11008 instead of 67.5; but a block that falls behind is waited for.
#include "kernels/gelu_backward/exp2_slope.cuh"
#include "kernels/gelu_backward/slab_sums.cuh"
#include "mage_bench/device_code.cuh"

namespace mage::gelu_backward {

constexpr int v15_strip_bytes = 256;
constexpr int v15_blocks = 8;  // of a cluster, all of one strip; the first receives

__device__ inline uint32 v15_shared(const void* pointer) {
  return static_cast<uint32>(__cvta_generic_to_shared(pointer));
}

/// A barrier whose only phase ends when `bytes` were stored by v15_send.
__device__ inline void v15_expect(uint64* barrier, uint32 bytes) {
#if __CUDA_ARCH__ >= 900  // a build for older devices compiles this file too; min_cc keeps it from running there
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(v15_shared(barrier)) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(v15_shared(barrier)), "r"(bytes)
               : "memory");
#endif
}

/// This block's barrier may be used by the others of its cluster; v15_wait_for_all waits until theirs may be. Relaxed:
/// v15_expect has published it. All threads of the block call both.
__device__ inline void v15_ready() {
#if __CUDA_ARCH__ >= 900
  __syncwarp();
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
}
__device__ inline void v15_wait_for_all() {
#if __CUDA_ARCH__ >= 900
  __syncwarp();
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

/// Stores v where the cluster's first block has what `address` is here, and counts its bytes on that block's barrier.
__device__ inline void v15_send(float* address, uint64* barrier, float v) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n"
      ".reg .u32 there, counted;\n"
      "mapa.shared::cluster.u32 there, %0, 0;\n"
      "mapa.shared::cluster.u32 counted, %1, 0;\n"
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [there], %2, [counted];\n"
      "}\n" ::"r"(v15_shared(address)),
      "r"(v15_shared(barrier)), "f"(v)
      : "memory");
#endif
}
__device__ inline void v15_send(float4* address, uint64* barrier, const float4& v) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n"
      ".reg .u32 there, counted;\n"
      "mapa.shared::cluster.u32 there, %0, 0;\n"
      "mapa.shared::cluster.u32 counted, %1, 0;\n"
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [there], {%2, %3, %4, %5}, [counted];\n"
      "}\n" ::"r"(v15_shared(address)),
      "r"(v15_shared(barrier)), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)
      : "memory");
#endif
}

__device__ inline void v15_receive(uint64* barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n"
      "@!done bra again;\n"
      "}\n" ::"r"(v15_shared(barrier))
      : "memory");
#endif
}

template <class V, int in_flight, bool clustered>
__global__ void __launch_bounds__(slab_threads, clustered ? 4 : 3)
    gelu_backward_v15_cluster(const V* __restrict__ x, const V* __restrict__ bias, const V* __restrict__ dy,
                              V* __restrict__ dx, V* partials, unsigned* counters, V* dbias, int64 rows, int row_units,
                              int64 rows_per_slab) {
  const int unit = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int64 first = blockIdx.y * rows_per_slab;
  const int64 end = min(rows, first + rows_per_slab);
  __shared__ V received[v15_blocks - 1][v15_strip_bytes / sizeof(V)];
  __shared__ uint64 arrived;
  const int rank = static_cast<int>(blockIdx.y % v15_blocks);
  if constexpr (clustered) {
    if (rank == 0 && threadIdx.x == 0 && threadIdx.y == 0) {
      v15_expect(&arrived, static_cast<uint32>((v15_blocks - 1) * blockDim.x * sizeof(V)));
    }
    v15_ready();
  }
#if __CUDA_ARCH__ >= 900
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
  if constexpr (clustered) {
    const bool first_lane = threadIdx.y == 0;
    v15_wait_for_all();
    if (rank > 0) {
      if (first_lane) v15_send(&received[rank - 1][threadIdx.x], &arrived, sum);
      return;  // what was sent needs this block no more
    }
    if (first_lane) {
      v15_receive(&arrived);
#pragma unroll
      for (const auto& values : received) add(sum, values[threadIdx.x]);
    }
    if (gridDim.y > v15_blocks) {
      const unsigned clusters = gridDim.y / v15_blocks, cluster = blockIdx.y / v15_blocks;
      if (first_lane && unit < row_units) partials[static_cast<int64>(cluster) * row_units + unit] = sum;
      if (!arrives_last(counters + blockIdx.x, clusters)) return;
      sum = unit < row_units ? sum_of_slabs(partials, static_cast<int>(clusters), row_units, unit) : V{};
      sum = sum_over_lanes(sum);
    }
  }
  if (threadIdx.y == 0 && unit < row_units) dbias[unit] = sum;
}

}  // namespace mage::gelu_backward

#if MAGE_HOST
#include "kernels/gelu_backward/slab_shape.cuh"

namespace mage::gelu_backward {
namespace {

/// Up to 128 rows: one slab, many lanes of rows over 128 bytes of columns, and no cluster. Beyond: as many clusters of
/// slabs as one wave holds, four blocks an SM, of rows as even as can be; but one a strip at least.
Shape v15_shape(int64 rows, int64 row_units, int widest, int narrowest) {
  constexpr int64 wave = 4 * 132 / v15_blocks, rows_of_one_slab = 128;
  Shape s{.row_units = static_cast<int>(row_units), .slabs = 1, .block_x = widest, .block_y = 1, .rows_per_slab = rows};
  if (rows > rows_of_one_slab) {
    while (s.block_x / 2 >= row_units) s.block_x /= 2;
    s.block_y = slab_threads / s.block_x;
    s.strips = static_cast<int>(ceil_div(row_units, s.block_x));
    const int64 clusters = s.strips < wave ? wave / s.strips : 1;
    const int64 even = ceil_div(rows, clusters * v15_blocks);
    s.rows_per_slab = even > s.block_y ? even : s.block_y;
    s.slabs = static_cast<int>(v15_blocks * ceil_div(rows, v15_blocks * s.rows_per_slab));
    return s;
  }
  while (s.block_y < rows && s.block_y < slab_threads / narrowest) s.block_y *= 2;
  s.block_x = slab_threads / s.block_y;
  while (s.block_x / 2 >= row_units) s.block_x /= 2;
  s.strips = static_cast<int>(ceil_div(row_units, s.block_x));
  return s;
}

template <class V, int in_flight, bool clustered>
Launch launch(const Problem& p, const Args& a, const Shape& s) {
  const auto sums = static_cast<std::size_t>(s.slabs / v15_blocks) * static_cast<std::size_t>(s.row_units);
  auto scratch = allocate_scratch(sums * sizeof(V) + s.counter_bytes());
  auto* partials = static_cast<V*>(scratch.get());
  auto* counters = reinterpret_cast<unsigned*>(partials + sums);
  zero_counters(counters, s);
  return [=, rows = p.rows, scratch = std::move(scratch)](StreamHandle stream) {
    launch_kernel(
        gelu_backward_v15_cluster<V, in_flight, clustered>,
        {.grid = s.grid(), .block = s.block(), .cluster = {1, clustered ? v15_blocks : 1, 1}, .dependent = true},
        stream, reinterpret_cast<const V*>(a.x), reinterpret_cast<const V*>(a.bias), reinterpret_cast<const V*>(a.dy),
        reinterpret_cast<V*>(a.dx), partials, counters, reinterpret_cast<V*>(a.dbias), rows, s.row_units,
        s.rows_per_slab);
  };
}

template <class V, int in_flight>
Launch launch(const Problem& p, const Args& a) {
  constexpr auto columns = static_cast<int64>(sizeof(V) / sizeof(float));
  const Shape s = v15_shape(p.rows, p.cols / columns, v15_strip_bytes / sizeof(V), 128 / sizeof(V));
  return s.slabs > 1 ? launch<V, in_flight, true>(p, a, s) : launch<V, in_flight, false>(p, a, s);
}

Launch prepare(const Problem& p, const Args& a) {
  const bool vectors = p.cols % 4 == 0 && p.offset % 4 == 0;
  return vectors ? launch<float4, 4>(p, a) : launch<float, 8>(p, a);
}

[[maybe_unused]] const Register<GeluBackward> registered{{
    .parent = "v14_narrow",
    .note = "clusters of eight slabs: sums by distributed shared memory, no partial sums in memory for wide problems",
    .min_cc = 90,
    .accepts = [](const Problem& p) { return p.cols <= 0x7fffffff; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::gelu_backward
#endif
