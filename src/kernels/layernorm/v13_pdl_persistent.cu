// SPDX-License-Identifier: Apache-2.0
// v13_pdl_persistent: programmatic dependent launch of persistent blocks. Parent v06_persistent, whose blocks of a row
// each are many for it: dependent blocks seem to start at half the pace (v10_pdl). So a block has as many rows at a
// time as 256 or 320 threads hold, each with a barrier of its own, up to the 1024 columns at which starting matters.
// Expected by graph and cold: 5.4 and 11.2 us at 4096x1024, 11.6 and 15.0 at 8192x768, 2.7 and 5.8 at 1023x1000.
#include "kernels/layernorm/reductions.cuh"

namespace mage::layernorm {

/// The sum over the `Threads` threads of a row, by a barrier of these alone. `partials` is shared memory of this call's
/// and this row's own: it may be used again only behind another such barrier.
template <int Threads>
__device__ inline float v13_row_sum(float v, float* partials, int own) {
  v = lane_sum(v);
  if constexpr (Threads > 32) {
    if (threadIdx.x % 32 == 0) partials[threadIdx.x % Threads / 32] = v;
    // Barrier 0 is __syncthreads's. Not .aligned: the threads of a warp need not come together.
    asm volatile("barrier.sync %0, %1;" ::"r"(own + 1), "n"(Threads) : "memory");
    v = partials[0];
#pragma unroll
    for (int warp = 1; warp < Threads / 32; ++warp) v += partials[warp];
  }
  return v;
}

/// Threads of a block, and the least blocks of an SM, such that their registers hold the rows.
template <int Vectors>
constexpr int v13_block = Vectors == 4 ? 320 : 256;
template <int Vectors>
constexpr int v13_blocks = Vectors == 4 ? 2 : 3;

/// `Threads` of a block have a row: strides known to the compiler save a register a vector.
template <int Vectors, int Threads>
__global__ void __launch_bounds__(v13_block<Vectors>, v13_blocks<Vectors>)
    layernorm_v13_pdl_persistent(const float4* __restrict__ x, const float4* __restrict__ gamma,
                                 const float4* __restrict__ beta, float4* __restrict__ y, float* __restrict__ mean,
                                 float* __restrict__ rstd, int rows, int row_vectors, float inverse_cols) {
  constexpr int at_once = v13_block<Vectors> / Threads;  // rows of a block
  // Between two uses of one of these lies the other's barrier.
  __shared__ alignas(16) float sums[at_once][Threads / 32], squares[at_once][Threads / 32];
  const int own = static_cast<int>(threadIdx.x) / Threads, thread = static_cast<int>(threadIdx.x) % Threads;
  // Of the block, so that its threads leave the loop together. No step overflows 32 bits: rows has 31.
  uint32 first = blockIdx.x * at_once;
  const uint32 step = gridDim.x * at_once, end = static_cast<uint32>(rows);
  x += static_cast<int64>(first + own) * row_vectors + thread;
  float4 next[Vectors], g[Vectors], b[Vectors];
  const auto load = [&](float4(&to)[Vectors], const float4* from, bool needed) {
#pragma unroll
    for (int k = 0; k < Vectors; ++k) {
      const bool inside = thread + k * Threads < row_vectors;
      to[k] = inside && needed ? load_now(from + k * Threads) : float4{};
    }
  };
  wait_for_the_call_before();
  load(next, x, first + own < end);
  load(g, gamma + thread, true);
  load(b, beta + thread, true);

  for (; first < end; first += step) {
    const uint32 row = first + own;
    float4 v[Vectors];
    float sum = 0, square = 0;
#pragma unroll
    for (int k = 0; k < Vectors; ++k) {
      v[k] = next[k];
      sum += sum_of(v[k]);
    }
    x += static_cast<int64>(step) * row_vectors;
    load(next, x, row + step < end);
    const float m = v13_row_sum<Threads>(sum, sums[own], own) * inverse_cols;
#pragma unroll
    for (int k = 0; k < Vectors; ++k) {
      if (thread + k * Threads < row_vectors) square += centre(v[k], m);
    }
    const float r = rsqrtf(fmaf(v13_row_sum<Threads>(square, squares[own], own), inverse_cols, epsilon));
#pragma unroll
    for (int k = 0; k < Vectors; ++k) {
      const int i = thread + k * Threads;
      if (i < row_vectors && row < end) y[static_cast<int64>(row) * row_vectors + i] = affine(v[k], r, g[k], b[k]);
    }
    if (thread == 0 && row < end) {
      mean[row] = m;
      rstd[row] = r;
    }
  }
}

}  // namespace mage::layernorm

#if MAGE_HOST
#include "kernels/layernorm/layernorm.hpp"

namespace mage::layernorm {
namespace {

/// Blocks of this kernel that the current device holds at once.
template <class Kernel>
int64 resident_blocks(Kernel* kernel, int threads) {
  int device = 0, sms = 0, blocks = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, 0),
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  return int64{sms} * (blocks > 0 ? blocks : 1);
}

template <int Vectors, int Threads>
Launch launch(const Problem& p, const Args& a) {
  const auto* x = reinterpret_cast<const float4*>(a.x);
  const auto* gamma = reinterpret_cast<const float4*>(a.gamma);
  const auto* beta = reinterpret_cast<const float4*>(a.beta);
  auto* y = reinterpret_cast<float4*>(a.y);
  const auto rows = static_cast<int>(p.rows), row_vectors = static_cast<int>(p.cols / 4);
  const float inverse_cols = 1 / static_cast<float>(p.cols);
  constexpr int threads = v13_block<Vectors>, at_once = threads / Threads;
  const int64 resident = resident_blocks(layernorm_v13_pdl_persistent<Vectors, Threads>, threads);
  const int64 blocks = ceil_div(p.rows, at_once);
  const auto grid = static_cast<unsigned>(blocks < resident ? blocks : resident);
  return [=, mean = a.mean, rstd = a.rstd](StreamHandle stream) {
    launch_kernel(layernorm_v13_pdl_persistent<Vectors, Threads>, {.grid = grid, .block = threads, .dependent = true},
                  stream, x, gamma, beta, y, mean, rstd, rows, row_vectors, inverse_cols);
  };
}

Launch prepare(const Problem& p, const Args& a) {
  if (p.cols <= 128) return launch<1, 32>(p, a);
  if (p.cols <= 256) return launch<2, 32>(p, a);
  if (p.cols <= 384) return launch<3, 32>(p, a);
  if (p.cols <= 512) return launch<4, 32>(p, a);
  if (p.cols <= 768) return launch<3, 64>(p, a);
  return launch<4, 64>(p, a);
}

[[maybe_unused]] const Register<Layernorm> registered{{
    .parent = "v06_persistent",
    .note = "programmatic dependent launch of persistent blocks, several rows at a time in each so that they are few",
    .min_cc = 90,
    .accepts =
        [](const Problem& p) { return p.cols % 4 == 0 && p.offset % 4 == 0 && p.cols <= 1024 && p.rows <= 0x7fffffff; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::layernorm
#endif
