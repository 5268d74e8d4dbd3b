// SPDX-License-Identifier: Apache-2.0
// A cluster of blocks a row: sums over it by distributed shared memory, and how many blocks a row has. What v09_cluster
// brought, for it and v10_pdl.
#pragma once

#include "kernels/layernorm/reductions.cuh"

namespace mage::layernorm {

constexpr int most_cluster_blocks = 8;  // of a cluster

/// Which block of its cluster this is, and which cluster of the grid.
struct ClusterPlace {
  int rank;
  int64 cluster;
};

__device__ inline ClusterPlace cluster_place() {
  uint32 rank = 0, cluster = 0;
#if __CUDA_ARCH__ >= 900  // a build for older devices compiles this file too; min_cc keeps it from running there
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm volatile("mov.u32 %0, %%clusterid.x;" : "=r"(cluster));
#endif
  return {static_cast<int>(rank), cluster};
}

__device__ inline uint32 shared_address(const void* pointer) {
  return static_cast<uint32>(__cvta_generic_to_shared(pointer));
}

/// A barrier whose only phase ends when `bytes` were stored by send.
__device__ inline void expect_bytes(uint64* barrier, uint32 bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier)) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
#endif
}

/// This block's barriers may be used by the others of its cluster; wait_for_cluster waits until theirs may be. Relaxed:
/// expect_bytes has published them, and a release is a fence of all the SM's memory, ahead of the row's loads.
__device__ inline void cluster_ready() {
#if __CUDA_ARCH__ >= 900
  __syncwarp();
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
}

__device__ inline void wait_for_cluster() {
#if __CUDA_ARCH__ >= 900
  __syncwarp();
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

/// Stores v where block `rank` of the cluster has what `address` is here, and counts its bytes on that block's barrier.
__device__ inline void send(float* address, uint64* barrier, int rank, float v) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n"
      ".reg .u32 there, counted;\n"
      "mapa.shared::cluster.u32 there, %0, %2;\n"
      "mapa.shared::cluster.u32 counted, %1, %2;\n"
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [there], %3, [counted];\n"
      "}\n" ::"r"(shared_address(address)),
      "r"(shared_address(barrier)), "r"(rank), "f"(v)
      : "memory");
#endif
}

/// Acquires for this block only: a cluster's acquire would empty the SM's L1 of gamma and beta, and what was sent lies
/// in shared memory, complete before its bytes are counted.
__device__ inline void receive(uint64* barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n"
      "@!done bra again;\n"
      "}\n" ::"r"(shared_address(barrier))
      : "memory");
#endif
}

/// The sum over the `blocks` blocks of a cluster: each warp sends its own to all of them. `partials` and `barrier` are
/// for this call alone. A block leaves only when all it is sent has arrived, so none is sent anything too late.
template <int Warps>
__device__ inline float cluster_sum(float v, float* partials, uint64* barrier, int blocks, int rank) {
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const int warps = static_cast<int>(blockDim.x / 32);
  v = lane_sum(v);
  if (lane < blocks) send(partials + rank * warps + warp, barrier, lane, v);
  receive(barrier);
  v = 0;
#pragma unroll
  for (int k = 0; k < most_cluster_blocks * Warps / 32; ++k) {
    if (lane + 32 * k < blocks * warps) v += partials[lane + 32 * k];
  }
  return lane_sum(v);
}

}  // namespace mage::layernorm

#if MAGE_HOST
#include "kernels/layernorm/layernorm.hpp"

namespace mage::layernorm {
namespace {  // no two variant files define one symbol

inline bool aligned(const Problem& p) { return p.cols % 4 == 0 && p.offset % 4 == 0; }

/// Vectors that a row touches, wherever it starts.
inline int64 slots(const Problem& p) { return ceil_div(p.cols + (aligned(p) ? 0 : 3), 4); }

/// Blocks a row.
inline int64 blocks(const Problem& p) {
  constexpr int64 sms = 132;  // of an H200
  int64 n = 1;
  while (n < most_cluster_blocks && slots(p) > 8 * 512 * n) n *= 2;                                // what a block holds
  while (n < most_cluster_blocks && 2 * n * p.rows <= 2 * sms && slots(p) >= 2 * n * 256) n *= 2;  // few rows
  return n == 1 && p.cols > 8192 ? 2 : n;
}

}  // namespace
}  // namespace mage::layernorm
#endif
