// SPDX-License-Identifier: Apache-2.0
// v09_few_rows: one kernel without partials. Some blocks take a row each for dx, the others some columns of all rows
// for dgamma and dbeta, side by side; both read x and dy, of which L2 holds a small problem's. Parent v06_pdl: with
// fewer rows than SMs most of those idle there, and a second kernel waits for the first. Expected: 64x1024 and 16x12288
// at little more than one launch and two round trips to memory; large problems lose, for they read 20 bytes an element.
#include "kernels/layernorm_backward/bulk_copy.cuh"
#include "kernels/layernorm_backward/own_columns.cuh"
#include "kernels/layernorm_backward/row_sums.cuh"
#include "mage_bench/device_code.cuh"

namespace mage::layernorm_backward {

constexpr int v09_most_threads = 1024;
constexpr int v09_chunk = 64;  // rows that a thread adds before they join its sum: bounds the error for many rows

struct V09Shape {
  int column_blocks;  // the first of the grid, since they take longest; the others take rows
  int units;          // vectors or single columns of a block of columns, a power of two
};

// volatile and not .nc, so that no compiler moves a load above the wait for the kernel before.
__device__ inline void v09_load(const float* from, float (&to)[4]) {
  asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
               : "l"(__cvta_generic_to_global(from)));
}
__device__ inline void v09_load(const float* from, float (&to)[1]) {
  asm volatile("ld.global.f32 %0, [%1];" : "=f"(to[0]) : "l"(__cvta_generic_to_global(from)));
}
__device__ inline float v09_load(const float* from) {
  float to[1];
  v09_load(from, to);
  return to[0];
}
__device__ inline void v09_store(float* to, const float (&from)[4]) {
  __stwb(reinterpret_cast<float4*>(to), make_float4(from[0], from[1], from[2], from[3]));  // = makes it four stores
}
__device__ inline void v09_store(float* to, const float (&from)[1]) { *to = from[0]; }

/// dx of one row by the whole block; the second pass finds the row in L1.
template <int unit>
__device__ inline void v09_row(const RowPass& p, int64 row, Sums (&exchange)[v09_most_threads / 32]) {
  constexpr int in_flight = unit == 4 ? 3 : 8;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const float *x = p.x + row * p.cols, *dy = p.dy + row * p.cols;
  const float mean = v09_load(p.mean + row), rstd = v09_load(p.rstd + row);
  Sums sum;
  for (int c = unit * thread; c < p.cols; c += in_flight * unit * threads) {
    float xs[in_flight][unit]{}, dys[in_flight][unit]{}, gammas[in_flight][unit]{};
#pragma unroll
    for (int i = 0; i < in_flight; ++i) {
      const int at = c + i * unit * threads;
      if (at >= p.cols) continue;
      v09_load(x + at, xs[i]);
      v09_load(dy + at, dys[i]);
      v09_load(p.gamma + at, gammas[i]);
    }
#pragma unroll
    for (int i = 0; i < in_flight; ++i)
#pragma unroll
      for (int k = 0; k < unit; ++k) {
        const float w = gammas[i][k] * dys[i][k];
        sum.w += w;
        sum.w_xhat = fmaf(w, (xs[i][k] - mean) * rstd, sum.w_xhat);
      }
  }
  sum = warp_sum(sum);
  if (thread % 32 == 0) exchange[thread / 32] = sum;
  __syncthreads();
  sum = thread % 32 < threads / 32 ? exchange[thread % 32] : Sums{};
  sum = warp_sum(sum);
  const float scale = 1.0F / static_cast<float>(p.cols), c1 = sum.w * scale, c2 = sum.w_xhat * scale;
#pragma unroll 4
  for (int c = unit * thread; c < p.cols; c += unit * threads) {
    float xs[unit], dys[unit], gammas[unit];
    v09_load(x + c, xs);
    v09_load(dy + c, dys);
    v09_load(p.gamma + c, gammas);
#pragma unroll
    for (int k = 0; k < unit; ++k) xs[k] = rstd * fmaf(-((xs[k] - mean) * rstd), c2, gammas[k] * dys[k] - c1);
    v09_store(p.dx + row * p.cols + c, xs);
  }
  __syncthreads();  // before the next row's sums
}

/// dgamma and dbeta of some columns: a thread adds every rows-th row, a tree the threads' sums.
template <int unit>
__device__ inline void v09_columns(const RowPass& p, float* dgamma, float* dbeta, int block, int units, float* sums) {
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  constexpr int in_flight = unit == 4 ? 2 : 4;
  const int rows = threads / units;
  const int64 c = static_cast<int64>(unit) * (block * static_cast<int64>(units) + thread % units);
  float gamma_sum[unit]{}, beta_sum[unit]{};
  if (c < p.cols) {
    for (int64 chunk = thread / units; chunk < p.rows; chunk += v09_chunk * static_cast<int64>(rows)) {
      const int64 end = min(p.rows, chunk + v09_chunk * static_cast<int64>(rows));
      float gamma_part[unit]{}, beta_part[unit]{};
      for (int64 row = chunk; row < end; row += in_flight * rows) {
        float xs[in_flight][unit]{}, dys[in_flight][unit]{}, mean[in_flight]{}, rstd[in_flight]{};
#pragma unroll
        for (int i = 0; i < in_flight; ++i) {
          const int64 at = row + i * rows;
          if (at >= end) continue;
          v09_load(p.x + at * p.cols + c, xs[i]);
          v09_load(p.dy + at * p.cols + c, dys[i]);
          mean[i] = v09_load(p.mean + at);
          rstd[i] = v09_load(p.rstd + at);
        }
#pragma unroll
        for (int i = 0; i < in_flight; ++i)
#pragma unroll
          for (int k = 0; k < unit; ++k) {
            gamma_part[k] = fmaf(dys[i][k], (xs[i][k] - mean[i]) * rstd[i], gamma_part[k]);
            beta_part[k] += dys[i][k];
          }
      }
#pragma unroll
      for (int k = 0; k < unit; ++k) {
        gamma_sum[k] += gamma_part[k];
        beta_sum[k] += beta_part[k];
      }
    }
  }
  // [2 unit][threads], so that neighbours are in different banks
  for (int half = threads / 2; half >= units; half /= 2) {
    if (thread >= half && thread < 2 * half) {
#pragma unroll
      for (int k = 0; k < unit; ++k) {
        sums[2 * k * threads + thread] = gamma_sum[k];
        sums[(2 * k + 1) * threads + thread] = beta_sum[k];
      }
    }
    __syncthreads();
    if (thread < half) {
#pragma unroll
      for (int k = 0; k < unit; ++k) {
        gamma_sum[k] += sums[2 * k * threads + thread + half];
        beta_sum[k] += sums[(2 * k + 1) * threads + thread + half];
      }
    }
  }
  if (thread < units && c < p.cols) {
    v09_store(dgamma + c, gamma_sum);
    v09_store(dbeta + c, beta_sum);
  }
}

template <Columns kind>
__global__ void __launch_bounds__(v09_most_threads, 1)
    layernorm_backward_v09_few_rows(RowPass p, float* dgamma, float* dbeta, V09Shape shape) {
  constexpr int unit = kind == Columns::vectors ? 4 : 1;
  extern __shared__ float v09_sums[];  // [2 unit][threads]
  __shared__ Sums exchange[v09_most_threads / 32];
  let_kernel_after_start();
  wait_for_kernel_before();
  const int block = static_cast<int>(blockIdx.x), row_blocks = static_cast<int>(gridDim.x) - shape.column_blocks;
  if (block < shape.column_blocks) {
    v09_columns<unit>(p, dgamma, dbeta, block, shape.units, v09_sums);
  } else {
    for (int64 row = block - shape.column_blocks; row < p.rows; row += row_blocks) v09_row<unit>(p, row, exchange);
  }
}

}  // namespace mage::layernorm_backward

#if MAGE_HOST
#include "kernels/layernorm_backward/layernorm_backward.hpp"

namespace mage::layernorm_backward {
namespace {

template <Columns kind>
Launch launch(const Problem& p, const Args& a) {
  constexpr int64 unit = kind == Columns::vectors ? 4 : 1;
  const int64 row_units = ceil_div(p.cols, unit);
  // A unit a thread of a row, up to 1024 of them.
  int64 threads = 256;
  while (threads < v09_most_threads && threads < row_units) threads *= 2;
  // 128 bytes of a row side by side; more where there are fewer rows than threads for them, less where there are few
  // columns.
  int64 units = 32 / unit;
  while (units < threads && threads / units > p.rows) units *= 2;
  while (units > 16 / unit && ceil_div(row_units, units) < sms / 2 && threads / units < p.rows) units /= 2;
  // One block an SM where that is enough.
  while (units < threads && ceil_div(row_units, units) > sms / 2 && ceil_div(row_units, units) + p.rows > sms &&
         p.rows < sms)
    units *= 2;
  constexpr int64 most_row_blocks = 1 << 20;
  const V09Shape shape{.column_blocks = static_cast<int>(ceil_div(row_units, units)), .units = static_cast<int>(units)};
  const auto grid = static_cast<unsigned>(shape.column_blocks + (p.rows < most_row_blocks ? p.rows : most_row_blocks));
  const auto bytes = static_cast<std::size_t>(2 * unit * threads) * sizeof(float);
  const RowPass pass{a.x, a.dy, a.mean, a.rstd, a.gamma, a.dx, nullptr, p.rows, static_cast<int>(p.cols)};
  return [=, dgamma = a.dgamma, dbeta = a.dbeta](StreamHandle stream) {
    launch_kernel(layernorm_backward_v09_few_rows<kind>,
                  {.grid = grid, .block = static_cast<unsigned>(threads), .shared_bytes = bytes, .dependent = true},
                  stream, pass, dgamma, dbeta, shape);
  };
}

Launch prepare(const Problem& p, const Args& a) {
  return rows_of_vectors(p, a) ? launch<Columns::vectors>(p, a) : launch<Columns::singles>(p, a);
}

[[maybe_unused]] const Register<LayernormBackward> registered{{
    .parent = "v06_pdl",
    .note = "one kernel: blocks of rows for dx beside blocks of columns for the sums, no partials",
    .min_cc = 90,
    .accepts = [](const Problem& p) { return p.cols <= 0x7fff0000; },  // a loop adds up to 4096 to a column
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::layernorm_backward
#endif
