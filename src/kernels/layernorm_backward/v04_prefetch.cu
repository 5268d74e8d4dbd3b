// SPDX-License-Identifier: Apache-2.0
// v04_prefetch: the loads of a block's next row are issued as soon as this row's elements are in its sums, and stay in
// flight while it is reduced and stored. Parent v03_persistent: there an SM's memory pipe runs dry once a row.
// Expected: 32 KB in flight an SM at 4096 columns, most of a copy's speed. 16 columns a thread would spill: it ends
// at 8.
#include "kernels/layernorm_backward/row_sums.cuh"
#include "mage_bench/device_code.cuh"

namespace mage::layernorm_backward {

constexpr int v04_threads = 512;

__device__ inline float4 v04_load(const float4* address) {
  float4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(address));  // volatile: it stays where it is, above the reduction
  return v;
}

template <int vectors>
__global__ void __launch_bounds__(v04_threads) layernorm_backward_v04_prefetch(RowPass p) {
  constexpr int warps = v04_threads / 32;
  __shared__ Sums exchange[2][warps];
  const int thread = static_cast<int>(threadIdx.x), width = p.cols / 4;
  const auto *x = reinterpret_cast<const float4*>(p.x), *dy = reinterpret_cast<const float4*>(p.dy);
  const float scale = 1.0F / static_cast<float>(p.cols);
  float4 gamma[vectors]{}, dgamma[vectors]{}, dbeta[vectors]{};
#pragma unroll
  for (int k = 0; k < vectors; ++k) {
    const int c = thread + k * v04_threads;
    if (c < width) gamma[k] = reinterpret_cast<const float4*>(p.gamma)[c];
  }

  float4 xs[vectors]{}, dys[vectors]{};
  float next_mean = 0, next_rstd = 0;
  const auto load_row = [&](int64 row) {
    if (row >= p.rows) return;
    const int64 at = row * width + thread;
    next_mean = __ldg(p.mean + row);
    next_rstd = __ldg(p.rstd + row);
#pragma unroll
    for (int k = 0; k < vectors; ++k) {
      if (thread + k * v04_threads < width) {
        xs[k] = v04_load(x + at + k * v04_threads);
        dys[k] = v04_load(dy + at + k * v04_threads);
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
    // One barrier a row: who writes exchange[parity] again has passed the next row's barrier, behind all who read it.
    sum = warp_sum(sum);
    if (thread % 32 == 0) exchange[parity][thread / 32] = sum;
    __syncthreads();
    sum = warp_sum<warps>(exchange[parity][thread % warps]);
    const float c1 = sum.w * scale, c2 = sum.w_xhat * scale;
#pragma unroll
    for (int k = 0; k < vectors; ++k) {
      if (thread + k * v04_threads < width)
        __stcs(reinterpret_cast<float4*>(p.dx) + at + k * v04_threads,
               make_float4(e[4 * k].gradient(c1, c2, rstd), e[4 * k + 1].gradient(c1, c2, rstd),
                           e[4 * k + 2].gradient(c1, c2, rstd), e[4 * k + 3].gradient(c1, c2, rstd)));
    }
  }

  auto* partials = reinterpret_cast<float4*>(p.partials) + static_cast<int64>(blockIdx.x) * 2 * width;
#pragma unroll
  for (int k = 0; k < vectors; ++k) {
    const int c = thread + k * v04_threads;
    if (c < width) {
      partials[c] = dgamma[k];
      partials[width + c] = dbeta[k];
    }
  }
}

__global__ void __launch_bounds__(partial_threads, 1)
    layernorm_backward_v04_prefetch_columns(const float* partials, int count, int cols, float* dgamma, float* dbeta) {
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
          scratch = std::move(scratch)](StreamHandle handle) {
    const auto stream = cuda_stream(handle);
    layernorm_backward_v04_prefetch<vectors><<<static_cast<unsigned>(count), v04_threads, 0, stream>>>(pass);
    layernorm_backward_v04_prefetch_columns<<<columns.grid, columns.block, 0, stream>>>(pass.partials, count, pass.cols,
                                                                                        dgamma, dbeta);
  };
}

Launch prepare(const Problem& p, const Args& a) {
  const int64 vectors = ceil_div(p.cols / 4, v04_threads);
  return vectors <= 1 ? launch<1>(p, a) : launch<2>(p, a);
}

[[maybe_unused]] const Register<LayernormBackward> registered{{
    .parent = "v03_persistent",
    .note = "the next row's loads are in flight while this row is reduced and stored",
    .min_cc = 80,
    .accepts = [](const Problem& p) { return p.cols % 4 == 0 && p.offset % 4 == 0 && p.cols <= 8 * v04_threads; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::layernorm_backward
#endif
