// SPDX-License-Identifier: Apache-2.0
// v07_groups: the 16 warps of a block form groups of 1, 2, 4, 8 or 16 by the number of columns; each group has its own
// rows, ring and barrier, and the groups' column sums meet in shared memory at the end. Parent v06_pdl: with 1024
// columns it leaves half of its threads without one, and keeps a single short row in flight at a time behind a barrier
// of 16 warps. Expected: 65536x256 from far behind to about 52 us; the same as the parent above 2048 columns.
#include "kernels/layernorm_backward/bulk_copy.cuh"
#include "kernels/layernorm_backward/row_sums.cuh"
#include "mage_bench/device_code.cuh"

namespace mage::layernorm_backward {

constexpr int v07_threads = 512;
constexpr int v07_most_stages = 6;

/// Of the threads of one group.
template <int warps>
__device__ inline void v07_sync(int group) {
  if constexpr (warps == 1) {
    __syncwarp();
  } else {
    // Not bar.sync, which is .aligned: the threads of a warp need not come together.
    asm volatile("barrier.sync %0, %1;" ::"r"(group + 1), "n"(32 * warps) : "memory");
  }
}

template <int warps, int vectors>
__global__ void __launch_bounds__(v07_threads) layernorm_backward_v07_groups(RowPass p, int stages) {
  constexpr int group_threads = 32 * warps, groups = v07_threads / group_threads;
  extern __shared__ __align__(128) float v07_ring[];  // [groups][stages][2][cols]: x, dy
  __shared__ uint64 all_full[groups * v07_most_stages];
  __shared__ Sums exchange[2][v07_threads / 32];
  const int group = static_cast<int>(threadIdx.x) / group_threads;
  const int thread = static_cast<int>(threadIdx.x) % group_threads, width = p.cols / 4;
  const float scale = 1.0F / static_cast<float>(p.cols);
  float* const ring = v07_ring + static_cast<int64>(group) * stages * 2 * p.cols;
  uint64* const full = all_full + group * v07_most_stages;
  const int64 first = blockIdx.x + static_cast<int64>(group) * gridDim.x, step = static_cast<int64>(groups) * gridDim.x;
  const auto fill = [&](int stage, int64 row) {
    const auto bytes = static_cast<uint32>(p.cols) * 4;
    float* to = ring + 2 * stage * p.cols;
    expect_bytes(&full[stage], 2 * bytes);
    bulk_copy(to, p.x + row * p.cols, bytes, &full[stage]);
    bulk_copy(to + p.cols, p.dy + row * p.cols, bytes, &full[stage]);
  };
  if (thread == 0) {
#pragma unroll 1
    for (int s = 0; s < stages; ++s) init_barrier(&full[s], 1);
    fence_barriers();
  }
  v07_sync<warps>(group);
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
    v07_sync<warps>(group);
    if (thread == 0 && row + stages * step < p.rows) fill(stage, row + stages * step);
    if constexpr (warps > 1) sum = warp_sum<warps>(exchange[parity][group * warps + thread % warps]);
    const float c1 = sum.w * scale, c2 = sum.w_xhat * scale;
    auto* dx = reinterpret_cast<float4*>(p.dx) + row * width + thread;
#pragma unroll
    for (int k = 0; k < vectors; ++k) {
      if (thread + k * group_threads < width)
        __stcs(dx + k * group_threads,
               make_float4(e[4 * k].gradient(c1, c2, rstd), e[4 * k + 1].gradient(c1, c2, rstd),
                           e[4 * k + 2].gradient(c1, c2, rstd), e[4 * k + 3].gradient(c1, c2, rstd)));
    }
    if (++stage == stages) {
      stage = 0;
      phase ^= 1;
    }
  }

  auto* partials = reinterpret_cast<float4*>(p.partials) + static_cast<int64>(blockIdx.x) * 2 * width;
  auto* sums = groups == 1 ? partials : reinterpret_cast<float4*>(v07_ring) + group * 2 * width;
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
    for (int c = static_cast<int>(threadIdx.x); c < 2 * width; c += v07_threads) {
      float4 sum{};
#pragma unroll
      for (int g = 0; g < groups; ++g) add(sum, reinterpret_cast<const float4*>(v07_ring)[g * 2 * width + c]);
      partials[c] = sum;
    }
  }
}

__global__ void __launch_bounds__(partial_threads, 1)
    layernorm_backward_v07_groups_columns(const float* partials, int count, int cols, float* dgamma, float* dbeta) {
  let_kernel_after_start();
  wait_for_kernel_before();
  add_partials(partials, count, cols, dgamma, dbeta);
}

}  // namespace mage::layernorm_backward

#if MAGE_HOST
#include "kernels/layernorm_backward/layernorm_backward.hpp"

namespace mage::layernorm_backward {
namespace {

constexpr int64 ring_bytes = 192 << 10;

template <int warps, int vectors>
Launch launch(const Problem& p, const Args& a) {
  constexpr int64 groups = v07_threads / (32 * warps);
  const int64 blocks = p.rows < sms ? p.rows : sms;
  const int64 stage_bytes = groups * 2 * p.cols * static_cast<int64>(sizeof(float));
  const int stages =
      ring_bytes / stage_bytes < v07_most_stages ? static_cast<int>(ring_bytes / stage_bytes) : v07_most_stages;
  check(cudaFuncSetAttribute(layernorm_backward_v07_groups<warps, vectors>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(ring_bytes)),
        "cudaFuncSetAttribute of layernorm_backward_v07_groups");
  auto scratch = allocate_scratch(static_cast<std::size_t>(blocks * 2 * p.cols) * sizeof(float));
  const RowPass pass{
      a.x, a.dy, a.mean, a.rstd, a.gamma, a.dx, static_cast<float*>(scratch.get()), p.rows, static_cast<int>(p.cols)};
  return
      [=, count = static_cast<int>(blocks), bytes = static_cast<std::size_t>(stages * stage_bytes), dgamma = a.dgamma,
       dbeta = a.dbeta, columns = partial_shape(p.cols), scratch = std::move(scratch)](StreamHandle stream) {
        launch_kernel(
            layernorm_backward_v07_groups<warps, vectors>,
            {.grid = static_cast<unsigned>(count), .block = v07_threads, .shared_bytes = bytes, .dependent = true},
            stream, pass, stages);
        launch_kernel(layernorm_backward_v07_groups_columns,
                      {.grid = columns.grid, .block = columns.block, .dependent = true}, stream, pass.partials, count,
                      pass.cols, dgamma, dbeta);
      };
}

Launch prepare(const Problem& p, const Args& a) {
  if (p.cols <= 256) return launch<1, 2>(p, a);
  if (p.cols <= 512) return launch<2, 2>(p, a);
  if (p.cols <= 1024) return launch<4, 2>(p, a);
  if (p.cols <= 2048) return launch<8, 2>(p, a);
  if (p.cols <= 4096) return launch<16, 2>(p, a);
  return launch<16, 4>(p, a);
}

[[maybe_unused]] const Register<LayernormBackward> registered{{
    .parent = "v06_pdl",
    .note = "1 to 16 warps a row by the column count: several short rows at once, each with its own ring",
    .min_cc = 90,
    .accepts = [](const Problem& p) { return p.cols % 4 == 0 && p.offset % 4 == 0 && p.cols <= 16 * v07_threads; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::layernorm_backward
#endif
