// SPDX-License-Identifier: Apache-2.0
// v15_early: v04_prefetch with programmatic dependent launch. Parent v04_prefetch: the fastest at 4096x4096 on an H200
// (55.1 us), and the one of the fast ones whose columns kernel starts only when all of its blocks have ended. Expected:
// 54 us by graph, where calls overlap too, and 54.5 cold.
#include "kernels/layernorm_backward/bulk_copy.cuh"
#include "kernels/layernorm_backward/row_sums.cuh"
#include "mage_bench/device_code.cuh"

namespace mage::layernorm_backward {

constexpr int v15_threads = 512;

__device__ inline float4 v15_load(const float4* address) {
  float4 v;
  asm volatile("ld.global.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(address));  // volatile: it stays where it is, above the reduction, and behind the wait
  return v;
}

template <int vectors>
__global__ void __launch_bounds__(v15_threads) layernorm_backward_v15_early(RowPass p) {
  constexpr int warps = v15_threads / 32;
  __shared__ Sums exchange[2][warps];
  const int thread = static_cast<int>(threadIdx.x), width = p.cols / 4;
  const auto *x = reinterpret_cast<const float4*>(p.x), *dy = reinterpret_cast<const float4*>(p.dy);
  const float scale = 1.0F / static_cast<float>(p.cols);
  float4 gamma[vectors]{}, dgamma[vectors]{}, dbeta[vectors]{};
  wait_for_kernel_before();
#pragma unroll
  for (int k = 0; k < vectors; ++k) {
    const int c = thread + k * v15_threads;
    if (c < width) gamma[k] = __ldcg(reinterpret_cast<const float4*>(p.gamma) + c);
  }

  float4 xs[vectors]{}, dys[vectors]{};
  float next_mean = 0, next_rstd = 0;
  const auto load_row = [&](int64 row) {
    if (row >= p.rows) return;
    const int64 at = row * width + thread;
    next_mean = __ldcg(p.mean + row);
    next_rstd = __ldcg(p.rstd + row);
#pragma unroll
    for (int k = 0; k < vectors; ++k) {
      if (thread + k * v15_threads < width) {
        xs[k] = v15_load(x + at + k * v15_threads);
        dys[k] = v15_load(dy + at + k * v15_threads);
      }
    }
  };
  load_row(blockIdx.x);

  int parity = 0;
  for (int64 row = blockIdx.x; row < p.rows; row += gridDim.x, parity ^= 1) {
    const int64 at = row * width + thread;
    const float mean = next_mean, rstd = next_rstd;
    Element e[4 * vectors];
    Sums sum;
#pragma unroll
    for (int k = 0; k < vectors; ++k) {
      e[4 * k] = Element(xs[k].x, dys[k].x, gamma[k].x, mean, rstd, sum, dgamma[k].x, dbeta[k].x);
      e[4 * k + 1] = Element(xs[k].y, dys[k].y, gamma[k].y, mean, rstd, sum, dgamma[k].y, dbeta[k].y);
      e[4 * k + 2] = Element(xs[k].z, dys[k].z, gamma[k].z, mean, rstd, sum, dgamma[k].z, dbeta[k].z);
      e[4 * k + 3] = Element(xs[k].w, dys[k].w, gamma[k].w, mean, rstd, sum, dgamma[k].w, dbeta[k].w);
    }
    load_row(row + gridDim.x);
    if (row + gridDim.x >= p.rows) let_kernel_after_start();
    // One barrier a row: who writes exchange[parity] again has passed the next row's barrier, behind all who read it.
    sum = warp_sum(sum);
    if (thread % 32 == 0) exchange[parity][thread / 32] = sum;
    __syncthreads();
    sum = warp_sum<warps>(exchange[parity][thread % warps]);
    const float c1 = sum.w * scale, c2 = sum.w_xhat * scale;
#pragma unroll
    for (int k = 0; k < vectors; ++k) {
      if (thread + k * v15_threads < width)
        __stcs(reinterpret_cast<float4*>(p.dx) + at + k * v15_threads,
               make_float4(e[4 * k].gradient(c1, c2, rstd), e[4 * k + 1].gradient(c1, c2, rstd),
                           e[4 * k + 2].gradient(c1, c2, rstd), e[4 * k + 3].gradient(c1, c2, rstd)));
    }
  }

  auto* partials = reinterpret_cast<float4*>(p.partials) + static_cast<int64>(blockIdx.x) * 2 * width;
#pragma unroll
  for (int k = 0; k < vectors; ++k) {
    const int c = thread + k * v15_threads;
    if (c < width) {
      partials[c] = dgamma[k];
      partials[width + c] = dbeta[k];
    }
  }
}

__global__ void __launch_bounds__(partial_threads, 1)
    layernorm_backward_v15_early_columns(const float* partials, int count, int cols, float* dgamma, float* dbeta) {
  let_kernel_after_start();
  wait_for_kernel_before();
  add_partials(partials, count, cols, dgamma, dbeta);
}

}  // namespace mage::layernorm_backward

#if MAGE_HOST
#include "kernels/layernorm_backward/layernorm_backward.hpp"

namespace mage::layernorm_backward {
namespace {

template <int vectors>
Launch launch(const Problem& p, const Args& a) {
  const int64 blocks = p.rows < sms ? p.rows : sms;
  auto scratch = allocate_scratch(static_cast<std::size_t>(blocks * 2 * p.cols) * sizeof(float));
  const RowPass pass{
      a.x, a.dy, a.mean, a.rstd, a.gamma, a.dx, static_cast<float*>(scratch.get()), p.rows, static_cast<int>(p.cols)};
  return [=, count = static_cast<int>(blocks), dgamma = a.dgamma, dbeta = a.dbeta, columns = partial_shape(p.cols),
          scratch = std::move(scratch)](StreamHandle stream) {
    launch_kernel(layernorm_backward_v15_early<vectors>,
                  {.grid = static_cast<unsigned>(count), .block = v15_threads, .dependent = true}, stream, pass);
    launch_kernel(layernorm_backward_v15_early_columns,
                  {.grid = columns.grid, .block = columns.block, .dependent = true}, stream, pass.partials, count,
                  pass.cols, dgamma, dbeta);
  };
}

Launch prepare(const Problem& p, const Args& a) {
  const int64 vectors = ceil_div(p.cols / 4, v15_threads);
  return vectors <= 1 ? launch<1>(p, a) : launch<2>(p, a);
}

[[maybe_unused]] const Register<LayernormBackward> registered{{
    .parent = "v04_prefetch",
    .note = "programmatic dependent launch: the columns kernel and the next call start while the rows end",
    .min_cc = 90,
    .accepts = [](const Problem& p) { return p.cols % 4 == 0 && p.offset % 4 == 0 && p.cols <= 8 * v15_threads; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::layernorm_backward
#endif
