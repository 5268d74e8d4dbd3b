// SPDX-License-Identifier: Apache-2.0
// v08_any: any number of columns and any misalignment. Parent v07_groups: where a row does not start at a multiple of
// 16 bytes, the multiples of 16 bytes around it are copied, and each thread owns single columns a group's width apart,
// so that its loads from shared memory and its stores are whole lines of a warp. Expected: 4096x4097 like 4096x4096.
#include "kernels/layernorm_backward/bulk_copy.cuh"
#include "kernels/layernorm_backward/own_columns.cuh"
#include "kernels/layernorm_backward/row_sums.cuh"
#include "mage_bench/device_code.cuh"

namespace mage::layernorm_backward {

constexpr int v08_threads = 512;
constexpr int v08_most_stages = 6;

/// Of the threads of one group.
template <int warps>
__device__ inline void v08_sync(int group) {
  if constexpr (warps == 1) {
    __syncwarp();
  } else {
    // Not bar.sync, which is .aligned: the threads of a warp need not come together.
    asm volatile("barrier.sync %0, %1;" ::"r"(group + 1), "n"(32 * warps) : "memory");
  }
}

template <int warps, int vectors, Columns kind>
__global__ void __launch_bounds__(v08_threads) layernorm_backward_v08_any(RowPass p, int stages) {
  constexpr int group_threads = 32 * warps, groups = v08_threads / group_threads, own_columns = 4 * vectors;
  extern __shared__ __align__(128) float v08_ring[];  // [groups][stages][2][slot]: x, dy
  __shared__ uint64 all_full[groups * v08_most_stages];
  __shared__ Sums exchange[2][v08_threads / 32];
  const int group = static_cast<int>(threadIdx.x) / group_threads;
  const int thread = static_cast<int>(threadIdx.x) % group_threads;
  const OwnColumns<kind, own_columns> own{thread, group_threads};
  const float scale = 1.0F / static_cast<float>(p.cols);
  const int slot = row_slot(kind, p.cols), width = padded(p.cols);
  float* const ring = v08_ring + static_cast<int64>(group) * stages * 2 * slot;
  uint64* const full = all_full + group * v08_most_stages;
  const int64 first = blockIdx.x + static_cast<int64>(group) * gridDim.x, step = static_cast<int64>(groups) * gridDim.x;
  const auto fill = [&](int stage, int64 row) {
    const float *x = p.x + row * p.cols, *dy = p.dy + row * p.cols;
    const int lead_x = lead(x), lead_dy = lead(dy);
    // No multiple of 16 bytes that holds an element lies outside an allocation.
    const auto bytes_x = static_cast<uint32>(padded(lead_x + p.cols)) * 4;
    const auto bytes_dy = static_cast<uint32>(padded(lead_dy + p.cols)) * 4;
    float* to = ring + 2 * stage * slot;
    expect_bytes(&full[stage], bytes_x + bytes_dy);
    bulk_copy(to, x - lead_x, bytes_x, &full[stage]);
    bulk_copy(to + slot, dy - lead_dy, bytes_dy, &full[stage]);
  };
  if (thread == 0) {
#pragma unroll 1
    for (int s = 0; s < stages; ++s) init_barrier(&full[s], 1);
    fence_barriers();
  }
  v08_sync<warps>(group);
  wait_for_kernel_before();  // all that follows is volatile, so that no compiler moves a load above it
  if (thread == 0) {
#pragma unroll 1
    for (int s = 0; s < stages; ++s)
      if (first + s * step < p.rows) fill(s, first + s * step);
  }
  float gamma[own_columns]{}, dgamma[own_columns]{}, dbeta[own_columns]{};
#pragma unroll
  for (int k = 0; k < own_columns; ++k)
    if (own.column(k) < p.cols) gamma[k] = __ldcg(p.gamma + own.column(k));
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
    const int64 at = row * p.cols;
    const float* x = ring + 2 * stage * slot;
    const float* dy = x + slot;
    if constexpr (kind == Columns::singles) {
      x += lead(p.x + at);
      dy += lead(p.dy + at);
    }
    wait(&full[stage], phase);
    float xs[own_columns], dys[own_columns];
    own.load(x, p.cols, xs);
    own.load(dy, p.cols, dys);
    Element e[own_columns];
    Sums sum;
#pragma unroll
    for (int k = 0; k < own_columns; ++k) e[k] = Element(xs[k], dys[k], gamma[k], mean, rstd, sum, dgamma[k], dbeta[k]);
    // One barrier a row. Behind it all of the group have read the stage, which may be filled again; and who writes
    // exchange[parity] again has passed the next row's barrier, behind all who read it.
    sum = warp_sum(sum);
    if (warps > 1 && thread % 32 == 0) exchange[parity][threadIdx.x / 32] = sum;
    v08_sync<warps>(group);
    if (thread == 0 && row + stages * step < p.rows) fill(stage, row + stages * step);
    if constexpr (warps > 1) sum = warp_sum<warps>(exchange[parity][group * warps + thread % warps]);
    const float c1 = sum.w * scale, c2 = sum.w_xhat * scale;
    float dx[own_columns];
#pragma unroll
    for (int k = 0; k < own_columns; ++k) dx[k] = e[k].gradient(c1, c2, rstd);
    own.template store<true>(p.dx + at, p.cols, dx);
    if (++stage == stages) {
      stage = 0;
      phase ^= 1;
    }
  }

  float* partials = p.partials + static_cast<int64>(blockIdx.x) * 2 * width;
  float* sums = groups == 1 ? partials : v08_ring + group * 2 * width;
  if constexpr (groups > 1) __syncthreads();  // the rings are empty
  own.template store<false>(sums, width, dgamma);
  own.template store<false>(sums + width, width, dbeta);
  if constexpr (groups > 1) {
    __syncthreads();
    for (int c = static_cast<int>(threadIdx.x); c < 2 * width / 4; c += v08_threads) {
      float4 sum{};
#pragma unroll
      for (int g = 0; g < groups; ++g) add(sum, reinterpret_cast<const float4*>(v08_ring + g * 2 * width)[c]);
      reinterpret_cast<float4*>(partials)[c] = sum;
    }
  }
}

__global__ void __launch_bounds__(partial_threads, 1)
    layernorm_backward_v08_any_columns(const float* partials, int count, int cols, float* dgamma, float* dbeta) {
  let_kernel_after_start();
  wait_for_kernel_before();
  add_partials(partials, count, cols, dgamma, dbeta);
}

}  // namespace mage::layernorm_backward

#if MAGE_HOST
#include "kernels/layernorm_backward/layernorm_backward.hpp"

namespace mage::layernorm_backward {
namespace {

constexpr int64 ring_bytes = 200 << 10;

template <int warps, int vectors, Columns kind>
Launch launch(const Problem& p, const Args& a) {
  constexpr int64 groups = v08_threads / (32 * warps);
  const int cols = static_cast<int>(p.cols);
  const int64 blocks = p.rows < sms ? p.rows : sms;
  const int64 stage_bytes = groups * 2 * row_slot(kind, cols) * static_cast<int64>(sizeof(float));
  const int stages =
      ring_bytes / stage_bytes < v08_most_stages ? static_cast<int>(ring_bytes / stage_bytes) : v08_most_stages;
  check(cudaFuncSetAttribute(layernorm_backward_v08_any<warps, vectors, kind>,
                             cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(ring_bytes)),
        "cudaFuncSetAttribute of layernorm_backward_v08_any");
  auto scratch = allocate_scratch(static_cast<std::size_t>(blocks * 2 * padded(cols)) * sizeof(float));
  const RowPass pass{a.x, a.dy, a.mean, a.rstd, a.gamma, a.dx, static_cast<float*>(scratch.get()), p.rows, cols};
  return [=, count = static_cast<int>(blocks), bytes = static_cast<std::size_t>(stages * stage_bytes),
          dgamma = a.dgamma, dbeta = a.dbeta, columns = partial_shape(p.cols),
          scratch = std::move(scratch)](StreamHandle stream) {
    launch_kernel(
        layernorm_backward_v08_any<warps, vectors, kind>,
        {.grid = static_cast<unsigned>(count), .block = v08_threads, .shared_bytes = bytes, .dependent = true}, stream,
        pass, stages);
    launch_kernel(layernorm_backward_v08_any_columns, {.grid = columns.grid, .block = columns.block, .dependent = true},
                  stream, pass.partials, count, pass.cols, dgamma, dbeta);
  };
}

template <Columns kind>
Launch launch(const Problem& p, const Args& a) {
  if (p.cols <= 256) return launch<1, 2, kind>(p, a);
  if (p.cols <= 512) return launch<2, 2, kind>(p, a);
  if (p.cols <= 1024) return launch<4, 2, kind>(p, a);
  if (p.cols <= 2048) return launch<8, 2, kind>(p, a);
  if (p.cols <= 4096) return launch<16, 2, kind>(p, a);
  return launch<16, 4, kind>(p, a);
}

Launch prepare(const Problem& p, const Args& a) {
  return rows_of_vectors(p, a) ? launch<Columns::vectors>(p, a) : launch<Columns::singles>(p, a);
}

[[maybe_unused]] const Register<LayernormBackward> registered{{
    .parent = "v07_groups",
    .note = "any column count and misalignment: copies of what holds the row, single columns a thread",
    .min_cc = 90,
    .accepts = [](const Problem& p) { return p.cols <= 16 * v08_threads; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::layernorm_backward
#endif
