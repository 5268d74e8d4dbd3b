// SPDX-License-Identifier: Apache-2.0
// v10_pdl: programmatic dependent launch. Parent v09_cluster: back to back on a stream or in a graph, the blocks of one
// call start while the call before it ends, and wait for it before their first access to memory. Expected: 0.5 us less
// a call by graph at 64x1024, 16x12288, 33x4097 and 1023x1000; nothing for a call that stands alone, which modes event
// and event_cold may favour nevertheless, as its launch can overlap the stamp before it.
// Measured by graph: 0.45 us less at 64x1024, 0.4 and 0.9 more at 16x12288 and 33x4097 (experiments/memory-bound).
#include "kernels/layernorm/peeled.cuh"

namespace mage::layernorm {

constexpr int v10_most_blocks = 8;  // of a cluster

/// Which block of its cluster this is, and which cluster of the grid.
struct V10Place {
  int rank;
  int64 cluster;
};

__device__ inline V10Place v10_place() {
  uint32 rank = 0, cluster = 0;
#if __CUDA_ARCH__ >= 900  // a build for older devices compiles this file too; min_cc keeps it from running there
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm volatile("mov.u32 %0, %%clusterid.x;" : "=r"(cluster));
#endif
  return {static_cast<int>(rank), cluster};
}

__device__ inline uint32 v10_shared(const void* pointer) {
  return static_cast<uint32>(__cvta_generic_to_shared(pointer));
}

/// A barrier whose only phase ends when `bytes` were stored by v10_send.
__device__ inline void v10_expect(uint64* barrier, uint32 bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(v10_shared(barrier)) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(v10_shared(barrier)), "r"(bytes)
               : "memory");
#endif
}

/// This block's barriers may be used by the others of its cluster; v10_wait_for_all waits until theirs may be. Relaxed:
/// v10_expect has published them, and a release is a fence of all the SM's memory, ahead of the row's loads.
__device__ inline void v10_ready() {
#if __CUDA_ARCH__ >= 900
  __syncwarp();
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
}

__device__ inline void v10_wait_for_all() {
#if __CUDA_ARCH__ >= 900
  __syncwarp();
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

/// Lets the next call's blocks start, and waits until the call before has written all it writes.
__device__ inline void v10_wait_for_the_call_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Stores v where block `rank` of the cluster has what `address` is here, and counts its bytes on that block's barrier.
__device__ inline void v10_send(float* address, uint64* barrier, int rank, float v) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n"
      ".reg .u32 there, counted;\n"
      "mapa.shared::cluster.u32 there, %0, %2;\n"
      "mapa.shared::cluster.u32 counted, %1, %2;\n"
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [there], %3, [counted];\n"
      "}\n" ::"r"(v10_shared(address)),
      "r"(v10_shared(barrier)), "r"(rank), "f"(v)
      : "memory");
#endif
}

/// Acquires for this block only: a cluster's acquire would empty the SM's L1 of gamma and beta, and what was sent lies
/// in shared memory, complete before its bytes are counted.
__device__ inline void v10_receive(uint64* barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n"
      "@!done bra again;\n"
      "}\n" ::"r"(v10_shared(barrier))
      : "memory");
#endif
}

/// The sum over the `blocks` blocks of a cluster: each warp sends its own to all of them. `partials` and `barrier` are
/// for this call alone. A block leaves only when all it is sent has arrived, so none is sent anything too late.
template <int Warps>
__device__ inline float v10_sum(float v, float* partials, uint64* barrier, int blocks, int rank) {
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const int warps = static_cast<int>(blockDim.x / 32);
  v = lane_sum(v);
  if (lane < blocks) v10_send(partials + rank * warps + warp, barrier, lane, v);
  v10_receive(barrier);
  v = 0;
#pragma unroll
  for (int k = 0; k < v10_most_blocks * Warps / 32; ++k) {
    if (lane + 32 * k < blocks * warps) v += partials[lane + 32 * k];
  }
  return lane_sum(v);
}

/// `blocks` blocks a row, of which each takes `part` neighbouring vectors.
template <int Vectors, int Warps, bool Aligned, bool Clustered>
__global__ void __launch_bounds__(32 * Warps)
    layernorm_v10_pdl(const float* __restrict__ x, const float* __restrict__ gamma, const float* __restrict__ beta,
                      float* __restrict__ y, float* __restrict__ mean, float* __restrict__ rstd, int cols, int phase,
                      float inverse_cols, int blocks, int part) {
  constexpr int most = Clustered ? v10_most_blocks * Warps : Warps;
  __shared__ alignas(16) float sums[most], squares[most];
  __shared__ uint64 arrived[2];
  int rank = 0;
  int64 row = blockIdx.x;
  if constexpr (Clustered) {
    const V10Place place = v10_place();
    rank = place.rank;
    row = place.cluster;
    const auto bytes = static_cast<uint32>(blocks * (blockDim.x / 32) * sizeof(float));
    if (threadIdx.x == 0) {
      v10_expect(arrived, bytes);
      v10_expect(arrived + 1, bytes);
    }
    v10_ready();
  }
  v10_wait_for_the_call_before();
  x += row * cols;
  y += row * cols;
  const int shift = Aligned ? 0 : static_cast<int>((phase + row * cols) & 3);
  const auto first = [&](int k) {
    const auto i = static_cast<int>(threadIdx.x + k * blockDim.x);
    return i < part ? 4 * (rank * part + i) - shift : cols;  // behind the part is another block's
  };

  constexpr bool early = Vectors <= 2;
  float4 v[Vectors], g[Vectors], b[Vectors];
  float sum = 0, square = 0;
#pragma unroll
  for (int k = 0; k < Vectors; ++k) v[k] = load_peeled<Aligned>(x, first(k), cols);
#pragma unroll
  for (int k = 0; early && k < Vectors; ++k) {
    g[k] = load_affine<Aligned>(gamma, first(k), cols);
    b[k] = load_affine<Aligned>(beta, first(k), cols);
  }
#pragma unroll
  for (int k = 0; k < Vectors; ++k) sum += sum_of(v[k]);
  if constexpr (Clustered) {
    v10_wait_for_all();
    sum = v10_sum<Warps>(sum, sums, arrived, blocks, rank);
  } else {
    sum = block_sum<Warps>(sum, sums);
  }
  const float m = sum * inverse_cols;
#pragma unroll
  for (int k = 0; k < Vectors; ++k) square += centre_peeled<Aligned>(v[k], m, first(k), cols);
  if constexpr (Clustered) {
    square = v10_sum<Warps>(square, squares, arrived + 1, blocks, rank);
  } else {
    square = block_sum<Warps>(square, squares);
  }
  const float r = rsqrtf(fmaf(square, inverse_cols, epsilon));
#pragma unroll
  for (int k = 0; k < Vectors; ++k) {
    if constexpr (!early) {
      g[k] = load_affine<Aligned>(gamma, first(k), cols);
      b[k] = load_affine<Aligned>(beta, first(k), cols);
    }
    store_peeled<Aligned>(y, first(k), cols, affine(v[k], r, g[k], b[k]));
  }
  if (threadIdx.x == 0 && rank == 0) {
    mean[row] = m;
    rstd[row] = r;
  }
}

}  // namespace mage::layernorm

#if MAGE_HOST
#include "kernels/layernorm/layernorm.hpp"

namespace mage::layernorm {
namespace {

constexpr int64 ceil_div(int64 a, int64 b) { return (a + b - 1) / b; }

bool aligned(const Problem& p) { return p.cols % 4 == 0 && p.offset % 4 == 0; }

/// Vectors that a row touches, wherever it starts.
int64 slots(const Problem& p) { return ceil_div(p.cols + (aligned(p) ? 0 : 3), 4); }

/// Blocks a row.
int64 blocks(const Problem& p) {
  constexpr int64 sms = 132;  // of an H200
  int64 n = 1;
  while (n < v10_most_blocks && slots(p) > 8 * 512 * n) n *= 2;                                // what a block holds
  while (n < v10_most_blocks && 2 * n * p.rows <= 2 * sms && slots(p) >= 2 * n * 256) n *= 2;  // few rows
  return n == 1 && p.cols > 8192 ? 2 : n;
}

template <int Vectors, int Warps, bool Aligned, bool Clustered>
Launch launch(const Problem& p, const Args& a) {
  const int64 n = blocks(p), part = ceil_div(slots(p), n);
  const auto grid = static_cast<unsigned>(n * p.rows);
  const auto threads = static_cast<unsigned>(32 * ceil_div(ceil_div(part, Vectors), 32));
  const auto cols = static_cast<int>(p.cols), phase = static_cast<int>(p.offset % 4);
  const float inverse_cols = 1 / static_cast<float>(cols);
  return [=, size = static_cast<int>(n), vectors = static_cast<int>(part)](StreamHandle stream) {
    cudaLaunchAttribute attributes[2]{};
    attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[0].val.programmaticStreamSerializationAllowed = 1;
    attributes[1].id = cudaLaunchAttributeClusterDimension;
    attributes[1].val.clusterDim = {.x = static_cast<unsigned>(size), .y = 1, .z = 1};
    cudaLaunchConfig_t config{};
    config.gridDim = grid;
    config.blockDim = threads;
    config.stream = cuda_stream(stream);
    config.attrs = attributes;
    config.numAttrs = Clustered ? 2 : 1;
    check(cudaLaunchKernelEx(&config, layernorm_v10_pdl<Vectors, Warps, Aligned, Clustered>, a.x, a.gamma, a.beta, a.y,
                             a.mean, a.rstd, cols, phase, inverse_cols, size, vectors),
          "cudaLaunchKernelEx");
  };
}

template <int Vectors, int Warps>
Launch launch(const Problem& p, const Args& a) {
  if (blocks(p) == 1) {
    return aligned(p) ? launch<Vectors, Warps, true, false>(p, a) : launch<Vectors, Warps, false, false>(p, a);
  }
  return aligned(p) ? launch<Vectors, Warps, true, true>(p, a) : launch<Vectors, Warps, false, true>(p, a);
}

Launch prepare(const Problem& p, const Args& a) {
  const int64 part = ceil_div(slots(p), blocks(p));
  const bool few = p.rows * blocks(p) <= 2 * 132;
  if (part <= (few ? 256 : 32)) return launch<1, 8>(p, a);
  if (few && part <= 1024) return launch<1, 32>(p, a);
  if (part <= 64) return launch<2, 8>(p, a);
  if (part <= 1024) return launch<4, 8>(p, a);
  if (part <= 2048 && !few) return launch<8, 8>(p, a);
  return few ? launch<4, 32>(p, a) : launch<8, 16>(p, a);
}

[[maybe_unused]] const Register<Layernorm> registered{{
    .parent = "v09_cluster",
    .note = "programmatic dependent launch: the next call starts while this one ends",
    .min_cc = 90,
    .accepts =
        [](const Problem& p) {
          return slots(p) <= v10_most_blocks * 8 * 512 && v10_most_blocks * p.rows <= 0x7fffffff;
        },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::layernorm
#endif
