// SPDX-License-Identifier: Apache-2.0
// v08_peeled: any column count and misalignment. Parent v02_block: a row is cut where its memory is 16-byte aligned,
// and only its first and last vector go by elements. Expected: 33x4097 within a tenth of 33x4096; the parent's times
// where the parent takes the problem.
#include "kernels/layernorm/peeled.cuh"

namespace mage::layernorm {

/// A block a row. phase: elements by which row 0 starts behind a multiple of 16 bytes.
template <int Vectors, int Warps, bool Aligned>
__global__ void __launch_bounds__(32 * Warps)
    layernorm_v08_peeled(const float* __restrict__ x, const float* __restrict__ gamma, const float* __restrict__ beta,
                         float* __restrict__ y, float* __restrict__ mean, float* __restrict__ rstd, int cols, int phase,
                         float inverse_cols) {
  __shared__ alignas(16) float sums[Warps], squares[Warps];
  const int64 row = blockIdx.x;
  x += row * cols;
  y += row * cols;
  const int shift = Aligned ? 0 : static_cast<int>((phase + row * cols) & 3);
  const auto first = [&](int k) { return 4 * static_cast<int>(threadIdx.x + k * blockDim.x) - shift; };

  constexpr bool early = Vectors <= 2;  // there are registers to load gamma and beta while the sums are on their way
  float4 v[Vectors], g[Vectors], b[Vectors];
  float sum = 0, square = 0;
#pragma unroll
  for (int k = 0; k < Vectors; ++k) v[k] = load_peeled<Aligned>(x, first(k), cols);
#pragma unroll
  for (int k = 0; early && k < Vectors; ++k) {
    g[k] = load_affine<Aligned>(gamma, first(k), cols);
    b[k] = load_affine<Aligned>(beta, first(k), cols);
  }
#pragma unroll
  for (int k = 0; k < Vectors; ++k) sum += sum_of(v[k]);
  const float m = block_sum<Warps>(sum, sums) * inverse_cols;
#pragma unroll
  for (int k = 0; k < Vectors; ++k) square += centre_peeled<Aligned>(v[k], m, first(k), cols);
  const float r = rsqrtf(fmaf(block_sum<Warps>(square, squares), inverse_cols, epsilon));
#pragma unroll
  for (int k = 0; k < Vectors; ++k) {
    if constexpr (!early) {
      g[k] = load_affine<Aligned>(gamma, first(k), cols);
      b[k] = load_affine<Aligned>(beta, first(k), cols);
    }
    store_peeled<Aligned>(y, first(k), cols, affine(v[k], r, g[k], b[k]));
  }
  if (threadIdx.x == 0) {
    mean[row] = m;
    rstd[row] = r;
  }
}

}  // namespace mage::layernorm

#if MAGE_HOST
#include "kernels/layernorm/layernorm.hpp"

namespace mage::layernorm {
namespace {

/// Vectors that a row touches, wherever it starts.
int64 slots(const Problem& p) { return ceil_div(p.cols + (p.cols % 4 == 0 && p.offset % 4 == 0 ? 0 : 3), 4); }

template <int Vectors, int Warps, bool Aligned>
Launch launch(const Problem& p, const Args& a) {
  const auto grid = static_cast<unsigned>(p.rows);
  const auto threads = static_cast<unsigned>(32 * ceil_div(ceil_div(slots(p), Vectors), 32));
  const auto cols = static_cast<int>(p.cols), phase = static_cast<int>(p.offset % 4);
  const float inverse_cols = 1 / static_cast<float>(cols);
  return [=](StreamHandle stream) {
    layernorm_v08_peeled<Vectors, Warps, Aligned><<<grid, threads, 0, cuda_stream(stream)>>>(
        a.x, a.gamma, a.beta, a.y, a.mean, a.rstd, cols, phase, inverse_cols);
  };
}

template <int Vectors, int Warps>
Launch launch(const Problem& p, const Args& a) {
  const bool aligned = p.cols % 4 == 0 && p.offset % 4 == 0;
  return aligned ? launch<Vectors, Warps, true>(p, a) : launch<Vectors, Warps, false>(p, a);
}

Launch prepare(const Problem& p, const Args& a) {
  const int64 vectors = slots(p);
  const bool few = p.rows <= 2 * 132;
  if (vectors <= (few ? 256 : 32)) return launch<1, 8>(p, a);
  if (few && vectors <= 1024) return launch<1, 32>(p, a);
  if (vectors <= 64) return launch<2, 8>(p, a);
  if (vectors <= 1024) return launch<4, 8>(p, a);
  if (vectors <= 2048) return launch<4, 32>(p, a);
  return few ? launch<4, 32>(p, a) : launch<8, 16>(p, a);
}

[[maybe_unused]] const Register<Layernorm> registered{{
    .parent = "v02_block",
    .note = "rows cut where memory is 16-byte aligned: vectors for any column count and offset",
    .min_cc = 80,
    .accepts = [](const Problem& p) { return slots(p) <= 8 * 512 && p.rows <= 0x7fffffff; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::layernorm
#endif
