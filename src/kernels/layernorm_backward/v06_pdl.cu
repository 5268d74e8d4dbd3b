// SPDX-License-Identifier: Apache-2.0
// v06_pdl: both kernels by programmatic dependent launch. Parent v05_bulk: the blocks that add the partials are
// resident when the last row ends, and in a graph the next call's blocks set up their barriers meanwhile; each waits
// before its first access to memory. Expected: 1 to 2 us less a call by graph, which is most for small problems.
#include "kernels/layernorm_backward/bulk_copy.cuh"
#include "kernels/layernorm_backward/row_sums.cuh"
#include "mage_bench/device_code.cuh"

namespace mage::layernorm_backward {

constexpr int v06_threads = 512;
constexpr int v06_most_stages = 6;

template <int vectors>
__global__ void __launch_bounds__(v06_threads) layernorm_backward_v06_pdl(RowPass p, int stages) {
  constexpr int warps = v06_threads / 32;
  extern __shared__ __align__(128) float v06_ring[];  // [stages][2][cols]: x, dy
  __shared__ uint64 full[v06_most_stages];
  __shared__ Sums exchange[2][warps];
  const int thread = static_cast<int>(threadIdx.x), width = p.cols / 4;
  const float scale = 1.0F / static_cast<float>(p.cols);
  const auto fill = [&](int stage, int64 row) {
    const auto bytes = static_cast<uint32>(p.cols) * 4;
    float* to = v06_ring + 2 * stage * p.cols;
    expect_bytes(&full[stage], 2 * bytes);
    bulk_copy(to, p.x + row * p.cols, bytes, &full[stage]);
    bulk_copy(to + p.cols, p.dy + row * p.cols, bytes, &full[stage]);
  };
  if (thread == 0) {
#pragma unroll 1
    for (int s = 0; s < stages; ++s) init_barrier(&full[s], 1);
    fence_barriers();
  }
  wait_for_kernel_before();  // all that follows is volatile, so that no compiler moves a load above it
  if (thread == 0) {
#pragma unroll 1
    for (int s = 0; s < stages; ++s) {
      const int64 row = blockIdx.x + static_cast<int64>(s) * gridDim.x;
      if (row < p.rows) fill(s, row);
    }
  }
  float4 gamma[vectors]{}, dgamma[vectors]{}, dbeta[vectors]{};
#pragma unroll
  for (int k = 0; k < vectors; ++k) {
    const int c = thread + k * v06_threads;
    if (c < width) gamma[k] = __ldcg(reinterpret_cast<const float4*>(p.gamma) + c);
  }
  float next_mean = __ldcg(p.mean + blockIdx.x), next_rstd = __ldcg(p.rstd + blockIdx.x);
  __syncthreads();

  int stage = 0;
  uint32 phase = 0, parity = 0;
  for (int64 row = blockIdx.x; row < p.rows; row += gridDim.x, parity ^= 1) {
    const float mean = next_mean, rstd = next_rstd;
    if (row + gridDim.x < p.rows) {
      next_mean = __ldcg(p.mean + row + gridDim.x);
      next_rstd = __ldcg(p.rstd + row + gridDim.x);
    } else {
      let_kernel_after_start();  // not before the last row: its blocks would only wait, and CUPTI count that as theirs
    }
    wait(&full[stage], phase);
    const auto* x = reinterpret_cast<const float4*>(v06_ring + 2 * stage * p.cols);
    Element e[4 * vectors];
    Sums sum;
#pragma unroll
    for (int k = 0; k < vectors; ++k) {
      const int c = thread + k * v06_threads;
      const float4 xs = c < width ? x[c] : float4{}, dys = c < width ? x[width + c] : float4{};
      e[4 * k] = Element(xs.x, dys.x, gamma[k].x, mean, rstd, sum, dgamma[k].x, dbeta[k].x);
      e[4 * k + 1] = Element(xs.y, dys.y, gamma[k].y, mean, rstd, sum, dgamma[k].y, dbeta[k].y);
      e[4 * k + 2] = Element(xs.z, dys.z, gamma[k].z, mean, rstd, sum, dgamma[k].z, dbeta[k].z);
      e[4 * k + 3] = Element(xs.w, dys.w, gamma[k].w, mean, rstd, sum, dgamma[k].w, dbeta[k].w);
    }
    // One barrier a row. Behind it all have read the stage, which may be filled again; and who writes exchange[parity]
    // again has passed the next row's barrier, behind all who read it.
    sum = warp_sum(sum);
    if (thread % 32 == 0) exchange[parity][thread / 32] = sum;
    __syncthreads();
    if (thread == 0 && row + static_cast<int64>(stages) * gridDim.x < p.rows)
      fill(stage, row + static_cast<int64>(stages) * gridDim.x);
    sum = warp_sum<warps>(exchange[parity][thread % warps]);
    const float c1 = sum.w * scale, c2 = sum.w_xhat * scale;
    auto* dx = reinterpret_cast<float4*>(p.dx) + row * width + thread;
#pragma unroll
    for (int k = 0; k < vectors; ++k) {
      if (thread + k * v06_threads < width)
        __stcs(dx + k * v06_threads,
               make_float4(e[4 * k].gradient(c1, c2, rstd), e[4 * k + 1].gradient(c1, c2, rstd),
                           e[4 * k + 2].gradient(c1, c2, rstd), e[4 * k + 3].gradient(c1, c2, rstd)));
    }
    if (++stage == stages) {
      stage = 0;
      phase ^= 1;
    }
  }

  auto* partials = reinterpret_cast<float4*>(p.partials) + static_cast<int64>(blockIdx.x) * 2 * width;
#pragma unroll
  for (int k = 0; k < vectors; ++k) {
    const int c = thread + k * v06_threads;
    if (c < width) {
      partials[c] = dgamma[k];
      partials[width + c] = dbeta[k];
    }
  }
}

__global__ void __launch_bounds__(partial_threads, 1)
    layernorm_backward_v06_pdl_columns(const float* partials, int count, int cols, float* dgamma, float* dbeta) {
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

template <int vectors>
Launch launch(const Problem& p, const Args& a) {
  const int64 blocks = p.rows < sms ? p.rows : sms, stage_bytes = 2 * p.cols * static_cast<int64>(sizeof(float));
  const int stages =
      ring_bytes / stage_bytes < v06_most_stages ? static_cast<int>(ring_bytes / stage_bytes) : v06_most_stages;
  check(cudaFuncSetAttribute(layernorm_backward_v06_pdl<vectors>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(ring_bytes)),
        "cudaFuncSetAttribute of layernorm_backward_v06_pdl");
  auto scratch = allocate_scratch(static_cast<std::size_t>(blocks * 2 * p.cols) * sizeof(float));
  const RowPass pass{
      a.x, a.dy, a.mean, a.rstd, a.gamma, a.dx, static_cast<float*>(scratch.get()), p.rows, static_cast<int>(p.cols)};
  return [=, count = static_cast<int>(blocks), bytes = static_cast<std::size_t>(stages * stage_bytes),
          dgamma = a.dgamma, dbeta = a.dbeta, columns = partial_shape(p.cols),
          scratch = std::move(scratch)](StreamHandle stream) {
    launch_kernel(
        layernorm_backward_v06_pdl<vectors>,
        {.grid = static_cast<unsigned>(count), .block = v06_threads, .shared_bytes = bytes, .dependent = true}, stream,
        pass, stages);
    launch_kernel(layernorm_backward_v06_pdl_columns, {.grid = columns.grid, .block = columns.block, .dependent = true},
                  stream, pass.partials, count, pass.cols, dgamma, dbeta);
  };
}

Launch prepare(const Problem& p, const Args& a) {
  const int64 vectors = ceil_div(p.cols / 4, v06_threads);
  if (vectors <= 1) return launch<1>(p, a);
  if (vectors <= 2) return launch<2>(p, a);
  return launch<4>(p, a);
}

[[maybe_unused]] const Register<LayernormBackward> registered{{
    .parent = "v05_bulk",
    .note = "programmatic dependent launch: each kernel starts while the one before ends",
    .min_cc = 90,
    .accepts = [](const Problem& p) { return p.cols % 4 == 0 && p.offset % 4 == 0 && p.cols <= 16 * v06_threads; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::layernorm_backward
#endif
