// SPDX-License-Identifier: Apache-2.0
// v10_cluster: a cluster of 2, 4 or 8 blocks a row, each with its slice of the columns; the sums of all warps go to
// every member's shared memory, and one cluster barrier a row takes the place of the block's. Parent v08_any, which
// ends at 8192 columns: a wider row's elements and columns' sums fill an SM's registers and shared memory. Expected:
// 4096x16384 at about the speed of 8192x8192.
#include "kernels/layernorm_backward/bulk_copy.cuh"
#include "kernels/layernorm_backward/own_columns.cuh"
#include "kernels/layernorm_backward/row_sums.cuh"
#include "mage_bench/device_code.cuh"

namespace mage::layernorm_backward {

constexpr int v10_threads = 512;
constexpr int v10_most_stages = 6;

constexpr int v10_warps = v10_threads / 32;
constexpr int v10_vectors = 4;
constexpr int v10_most_members = 8;

// A build for older devices compiles these too; min_cc keeps them from running there.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
__device__ inline uint32 v10_rank() {
  uint32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
/// Of all threads of the cluster; what was written before it, here or there, can be read behind it. Not .aligned: the
/// threads of a warp need not come together.
__device__ inline void v10_sync() {
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}
/// Writes to the place of `own` in the shared memory of another member.
__device__ inline void v10_send(const Sums* own, uint32 member, const Sums& value) {
  uint32 there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(own)), "r"(member));
  asm volatile("st.shared::cluster.v2.f32 [%0], {%1, %2};" ::"r"(there), "f"(value.w), "f"(value.w_xhat) : "memory");
}
#else
__device__ inline uint32 v10_rank() { return 0; }
__device__ inline void v10_sync() {}
__device__ inline void v10_send(const Sums*, uint32, const Sums&) {}
#endif

template <Columns kind>
__global__ void __launch_bounds__(v10_threads)
    layernorm_backward_v10_cluster(RowPass p, int stages, int members, int slice) {
  constexpr int own_columns = 4 * v10_vectors;
  extern __shared__ __align__(128) float v10_ring[];  // [stages][2][slot]: x, dy
  __shared__ uint64 full[v10_most_stages];
  __shared__ Sums exchange[2][v10_most_members * v10_warps];
  const int thread = static_cast<int>(threadIdx.x), member = static_cast<int>(v10_rank());
  const OwnColumns<kind, own_columns> own{thread, v10_threads};
  const float scale = 1.0F / static_cast<float>(p.cols);
  const int slot = row_slot(kind, slice), width = padded(p.cols);
  const int begin = member * slice, cols = min(slice, p.cols - begin);  // of this member
  const int64 first = blockIdx.x / static_cast<unsigned>(members), step = gridDim.x / static_cast<unsigned>(members);
  const auto fill = [&](int stage, int64 row) {
    const float *x = p.x + row * p.cols + begin, *dy = p.dy + row * p.cols + begin;
    const int lead_x = lead(x), lead_dy = lead(dy);
    // No multiple of 16 bytes that holds an element lies outside an allocation.
    const auto bytes_x = static_cast<uint32>(padded(lead_x + cols)) * 4;
    const auto bytes_dy = static_cast<uint32>(padded(lead_dy + cols)) * 4;
    float* to = v10_ring + 2 * stage * slot;
    expect_bytes(&full[stage], bytes_x + bytes_dy);
    bulk_copy(to, x - lead_x, bytes_x, &full[stage]);
    bulk_copy(to + slot, dy - lead_dy, bytes_dy, &full[stage]);
  };
  if (thread == 0) {
#pragma unroll 1
    for (int s = 0; s < stages; ++s) init_barrier(&full[s], 1);
    fence_barriers();
  }
  v10_sync();                // every member runs: its shared memory may be written
  wait_for_kernel_before();  // all that follows is volatile, so that no compiler moves a load above it
  if (thread == 0) {
#pragma unroll 1
    for (int s = 0; s < stages; ++s)
      if (first + s * step < p.rows) fill(s, first + s * step);
  }
  float gamma[own_columns]{}, dgamma[own_columns]{}, dbeta[own_columns]{};
#pragma unroll
  for (int k = 0; k < own_columns; ++k)
    if (own.column(k) < cols) gamma[k] = __ldcg(p.gamma + begin + own.column(k));
  float next_mean = __ldcg(p.mean + first), next_rstd = __ldcg(p.rstd + first);

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
    const int64 at = row * p.cols + begin;
    const float* x = v10_ring + 2 * stage * slot;
    const float* dy = x + slot;
    if constexpr (kind == Columns::singles) {
      x += lead(p.x + at);
      dy += lead(p.dy + at);
    }
    wait(&full[stage], phase);
    float xs[own_columns], dys[own_columns];
    own.load(x, cols, xs);
    own.load(dy, cols, dys);
    Element e[own_columns];
    Sums sum;
#pragma unroll
    for (int k = 0; k < own_columns; ++k) e[k] = Element(xs[k], dys[k], gamma[k], mean, rstd, sum, dgamma[k], dbeta[k]);
    // One barrier a row. Behind it all of the block have read the stage, which may be filled again; and who writes a
    // member's exchange[parity] again has passed the next row's barrier, behind all there who read it. No member writes
    // to another behind the last row's barrier, so each may end.
    sum = warp_sum(sum);
    if (thread % 32 < members)
      v10_send(&exchange[parity][member * v10_warps + thread / 32], static_cast<uint32>(thread % 32), sum);
    v10_sync();
    if (thread == 0 && row + stages * step < p.rows) fill(stage, row + stages * step);
    sum = {};
    for (int k = thread % 32; k < members * v10_warps; k += 32) {
      sum.w += exchange[parity][k].w;
      sum.w_xhat += exchange[parity][k].w_xhat;
    }
    sum = warp_sum(sum);
    const float c1 = sum.w * scale, c2 = sum.w_xhat * scale;
    float dx[own_columns];
#pragma unroll
    for (int k = 0; k < own_columns; ++k) dx[k] = e[k].gradient(c1, c2, rstd);
    own.template store<true>(p.dx + at, cols, dx);
    if (++stage == stages) {
      stage = 0;
      phase ^= 1;
    }
  }

  float* partials = p.partials + first * 2 * width + begin;
  own.template store<false>(partials, padded(cols), dgamma);
  own.template store<false>(partials + width, padded(cols), dbeta);
}

__global__ void __launch_bounds__(partial_threads, 1)
    layernorm_backward_v10_cluster_columns(const float* partials, int count, int cols, float* dgamma, float* dbeta) {
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

constexpr int64 most_slice = 4 * v10_vectors * v10_threads;

template <Columns kind>
Launch launch(const Problem& p, const Args& a) {
  const auto kernel = layernorm_backward_v10_cluster<kind>;
  unsigned members = 2;
  while (members * most_slice < p.cols) members *= 2;
  const int cols = static_cast<int>(p.cols), slice = padded(static_cast<int>(ceil_div(p.cols, members)));
  const int64 stage_bytes = 2 * row_slot(kind, slice) * static_cast<int64>(sizeof(float));
  const int stages =
      ring_bytes / stage_bytes < v10_most_stages ? static_cast<int>(ring_bytes / stage_bytes) : v10_most_stages;
  const auto bytes = static_cast<std::size_t>(stages * stage_bytes);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(ring_bytes)),
        "cudaFuncSetAttribute of layernorm_backward_v10_cluster");

  // As many clusters as run at once: an H200's 132 SMs hold 66 of 2 blocks, of 4 and 8 fewer than they divide into.
  const int resident =
      resident_clusters(kernel, {.grid = members, .block = v10_threads, .shared_bytes = bytes, .cluster = members});
  const auto clusters = static_cast<unsigned>(p.rows < resident ? p.rows : resident < 1 ? 1 : resident);

  auto scratch = allocate_scratch(static_cast<std::size_t>(int64{clusters} * 2 * padded(cols)) * sizeof(float));
  const RowPass pass{a.x, a.dy, a.mean, a.rstd, a.gamma, a.dx, static_cast<float*>(scratch.get()), p.rows, cols};
  return [=, dgamma = a.dgamma, dbeta = a.dbeta, columns = partial_shape(p.cols),
          scratch = std::move(scratch)](StreamHandle stream) {
    launch_kernel(layernorm_backward_v10_cluster<kind>,
                  {.grid = clusters * members,
                   .block = v10_threads,
                   .shared_bytes = bytes,
                   .cluster = members,
                   .dependent = true},
                  stream, pass, stages, static_cast<int>(members), slice);
    launch_kernel(layernorm_backward_v10_cluster_columns,
                  {.grid = columns.grid, .block = columns.block, .dependent = true}, stream, pass.partials,
                  static_cast<int>(clusters), cols, dgamma, dbeta);
  };
}

Launch prepare(const Problem& p, const Args& a) {
  return rows_of_vectors(p, a) ? launch<Columns::vectors>(p, a) : launch<Columns::singles>(p, a);
}

[[maybe_unused]] const Register<LayernormBackward> registered{{
    .parent = "v08_any",
    .note = "a cluster of 2, 4 or 8 blocks a row: rows of up to 65536 columns, sums by distributed shared memory",
    .min_cc = 90,
    .accepts = [](const Problem& p) { return p.cols > most_slice && p.cols <= v10_most_members * most_slice; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::layernorm_backward
#endif
