// SPDX-License-Identifier: Apache-2.0
// What the variants behind v07_groups share: its kernel's body, its launch, and v12_even's number of blocks. Which
// warps take a row and the hints of copies and stores are the variants' own. Light: the device half compiles under
// NVRTC.
#pragma once

#include "kernels/layernorm_backward/bulk_copy.cuh"
#include "kernels/layernorm_backward/row_sums.cuh"
#include "mage_bench/device_code.cuh"

namespace mage::layernorm_backward {

constexpr int row_group_threads = 512;
constexpr int row_group_most_stages = 6;

#ifdef __CUDACC__

/// A barrier of the threads of one group.
template <int warps>
__device__ inline void sync_group(int group) {
  if constexpr (warps == 1) {
    __syncwarp();
  } else {
    // Not bar.sync, which is .aligned: the threads of a warp need not come together.
    asm volatile("barrier.sync %0, %1;" ::"r"(group + 1), "n"(32 * warps) : "memory");
  }
}

struct PlainCopy {
  __device__ void operator()(float* to, const float* from, uint32 bytes, uint64* barrier) const {
    bulk_copy(to, from, bytes, barrier);
  }
};
struct StreamingStore {
  __device__ void operator()(float4* to, const float4& v) const { __stcs(to, v); }
};

/// dx and the block's partials, by blocks of row_group_threads: 16 / warps groups a block, each with its own rows, ring
/// and barrier, and a row in the registers of a group, in `vectors` float4s a thread. The ring is the dynamic shared
/// memory.
template <int warps, int vectors, class Copy, class Store>
__device__ inline void row_groups(const RowPass& p, int stages, Copy copy, Store store) {
  constexpr int group_threads = 32 * warps, groups = row_group_threads / group_threads;
  extern __shared__ __align__(128) float row_group_rings[];  // [groups][stages][2][cols]: x, dy
  __shared__ uint64 all_full[groups * row_group_most_stages];
  __shared__ Sums exchange[2][row_group_threads / 32];
  const int group = static_cast<int>(threadIdx.x) / group_threads;
  const int thread = static_cast<int>(threadIdx.x) % group_threads, width = p.cols / 4;
  const float scale = 1.0F / static_cast<float>(p.cols);
  float* const ring = row_group_rings + static_cast<int64>(group) * stages * 2 * p.cols;
  uint64* const full = all_full + group * row_group_most_stages;
  const int64 first = blockIdx.x + static_cast<int64>(group) * gridDim.x, step = static_cast<int64>(groups) * gridDim.x;
  const auto fill = [&](int stage, int64 row) {
    const auto bytes = static_cast<uint32>(p.cols) * 4;
    float* to = ring + 2 * stage * p.cols;
    expect_bytes(&full[stage], 2 * bytes);
    copy(to, p.x + row * p.cols, bytes, &full[stage]);
    copy(to + p.cols, p.dy + row * p.cols, bytes, &full[stage]);
  };
  if (thread == 0) {
#pragma unroll 1
    for (int s = 0; s < stages; ++s) init_barrier(&full[s], 1);
    fence_barriers();
  }
  sync_group<warps>(group);
  wait_for_kernel_before();  // all that follows is volatile, so that no compiler moves a load above it
  if (thread == 0) {
#pragma unroll 1
    for (int s = 0; s < stages; ++s)
      if (first + s * step < p.rows) fill(s, first + s * step);
  }
  float4 gamma[vectors]{}, dgamma[vectors]{}, dbeta[vectors]{};
#pragma unroll
  for (int k = 0; k < vectors; ++k) {
    const int c = thread + k * group_threads;
    if (c < width) gamma[k] = __ldcg(reinterpret_cast<const float4*>(p.gamma) + c);
  }
  float next_mean = 0, next_rstd = 0;
  if (first < p.rows) {
    next_mean = __ldcg(p.mean + first);
    next_rstd = __ldcg(p.rstd + first);
  }

  int stage = 0;
  uint32 phase = 0, parity = 0;
  for (int64 row = first; row < p.rows; row += step, parity ^= 1) {
    const float mean = next_mean, rstd = next_rstd;
    if (row + step < p.rows) {
      next_mean = __ldcg(p.mean + row + step);
      next_rstd = __ldcg(p.rstd + row + step);
    } else {
      let_kernel_after_start();  // not before the last row: its blocks would only wait, and CUPTI count that as theirs
    }
    wait(&full[stage], phase);
    const auto* x = reinterpret_cast<const float4*>(ring + 2 * stage * p.cols);
    Element e[4 * vectors];
    Sums sum;
#pragma unroll
    for (int k = 0; k < vectors; ++k) {
      const int c = thread + k * group_threads;
      const float4 xs = c < width ? x[c] : float4{}, dys = c < width ? x[width + c] : float4{};
      e[4 * k] = Element(xs.x, dys.x, gamma[k].x, mean, rstd, sum, dgamma[k].x, dbeta[k].x);
      e[4 * k + 1] = Element(xs.y, dys.y, gamma[k].y, mean, rstd, sum, dgamma[k].y, dbeta[k].y);
      e[4 * k + 2] = Element(xs.z, dys.z, gamma[k].z, mean, rstd, sum, dgamma[k].z, dbeta[k].z);
      e[4 * k + 3] = Element(xs.w, dys.w, gamma[k].w, mean, rstd, sum, dgamma[k].w, dbeta[k].w);
    }
    // One barrier a row. Behind it all of the group have read the stage, which may be filled again; and who writes
    // exchange[parity] again has passed the next row's barrier, behind all who read it.
    sum = warp_sum(sum);
    if (warps > 1 && thread % 32 == 0) exchange[parity][threadIdx.x / 32] = sum;
    sync_group<warps>(group);
    if (thread == 0 && row + stages * step < p.rows) fill(stage, row + stages * step);
    if constexpr (warps > 1) sum = warp_sum<warps>(exchange[parity][group * warps + thread % warps]);
    const float c1 = sum.w * scale, c2 = sum.w_xhat * scale;
    auto* dx = reinterpret_cast<float4*>(p.dx) + row * width + thread;
#pragma unroll
    for (int k = 0; k < vectors; ++k) {
      if (thread + k * group_threads < width)
        store(dx + k * group_threads,
              make_float4(e[4 * k].gradient(c1, c2, rstd), e[4 * k + 1].gradient(c1, c2, rstd),
                          e[4 * k + 2].gradient(c1, c2, rstd), e[4 * k + 3].gradient(c1, c2, rstd)));
    }
    if (++stage == stages) {
      stage = 0;
      phase ^= 1;
    }
  }

  auto* partials = reinterpret_cast<float4*>(p.partials) + static_cast<int64>(blockIdx.x) * 2 * width;
  auto* sums = groups == 1 ? partials : reinterpret_cast<float4*>(row_group_rings) + group * 2 * width;
  if constexpr (groups > 1) __syncthreads();  // the rings are empty
#pragma unroll
  for (int k = 0; k < vectors; ++k) {
    const int c = thread + k * group_threads;
    if (c < width) {
      sums[c] = dgamma[k];
      sums[width + c] = dbeta[k];
    }
  }
  if constexpr (groups > 1) {
    __syncthreads();
    for (int c = static_cast<int>(threadIdx.x); c < 2 * width; c += row_group_threads) {
      float4 sum{};
#pragma unroll
      for (int g = 0; g < groups; ++g) add(sum, reinterpret_cast<const float4*>(row_group_rings)[g * 2 * width + c]);
      partials[c] = sum;
    }
  }
}

#endif  // __CUDACC__

}  // namespace mage::layernorm_backward

#if MAGE_HOST
#include "kernels/layernorm_backward/layernorm_backward.hpp"

namespace mage::layernorm_backward {

/// Of v12_even and those behind it: as many blocks as leave the fewest groups without a row in the last round; the
/// memory, not the SMs, is the limit.
[[maybe_unused]] static int64 even_blocks(int64 rows, int64 groups) {
  if (rows <= sms) return rows;
  constexpr int64 least = 124;
  int64 best = sms, best_idle = -1;
  for (int64 blocks = sms; blocks >= least; --blocks) {
    const int64 idle = ceil_div(rows, blocks * groups) * blocks * groups - rows;
    if (best_idle < 0 || idle < best_idle) {
      best = blocks;
      best_idle = idle;
    }
  }
  return best;
}

struct RowGroupKernels {
  void (*rows)(RowPass, int stages);
  void (*columns)(const float* partials, int count, int cols, float* dgamma, float* dbeta);
};

/// Both kernels, each started while the one before ends. Static: no two variants share a function.
[[maybe_unused]] static Launch launch_row_groups(RowGroupKernels kernels, int64 groups, int64 blocks, const Problem& p,
                                                 const Args& a) {
  constexpr int64 ring_bytes = 192 << 10;
  const int64 stage_bytes = groups * 2 * p.cols * static_cast<int64>(sizeof(float)), fit = ring_bytes / stage_bytes;
  const int stages = fit < row_group_most_stages ? static_cast<int>(fit) : row_group_most_stages;
  check(cudaFuncSetAttribute(kernels.rows, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(ring_bytes)),
        "cudaFuncSetAttribute of a kernel of row groups");
  auto scratch = allocate_scratch(static_cast<std::size_t>(blocks * 2 * p.cols) * sizeof(float));
  const RowPass pass{
      a.x, a.dy, a.mean, a.rstd, a.gamma, a.dx, static_cast<float*>(scratch.get()), p.rows, static_cast<int>(p.cols)};
  return [=, count = static_cast<int>(blocks), bytes = static_cast<std::size_t>(stages * stage_bytes),
          dgamma = a.dgamma, dbeta = a.dbeta, columns = partial_shape(p.cols),
          scratch = std::move(scratch)](StreamHandle stream) {
    launch_kernel(
        kernels.rows,
        {.grid = static_cast<unsigned>(count), .block = row_group_threads, .shared_bytes = bytes, .dependent = true},
        stream, pass, stages);
    launch_kernel(kernels.columns, {.grid = columns.grid, .block = columns.block, .dependent = true}, stream,
                  pass.partials, count, pass.cols, dgamma, dbeta);
  };
}

}  // namespace mage::layernorm_backward
#endif
