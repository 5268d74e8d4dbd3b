// SPDX-License-Identifier: Apache-2.0
// How variants are launched whose blocks hold a row each in registers: their sizes, by the row's length.
#pragma once

#include "mage_bench/device_code.cuh"

#if MAGE_HOST
#include "kernels/layernorm/layernorm.hpp"

namespace mage::layernorm {

/// Rows of whole vectors that 1024 threads of 8 vectors can hold. Static: no two variants share a function.
[[maybe_unused]] static bool fits_a_block(const Problem& p) {
  return p.cols % 4 == 0 && p.offset % 4 == 0 && p.cols <= 32768 && p.rows <= 0x7fffffff;
}

/// Kernels is the variant's: `kernel<Vectors, Warps>` for that many vectors a thread in blocks of up to so many warps,
/// and whether they are `dependent` (LaunchShape).
template <class Kernels, int Vectors, int Warps>
Launch launch_row_blocks(const Problem& p, const Args& a) {
  const auto* x = reinterpret_cast<const float4*>(a.x);
  const auto* gamma = reinterpret_cast<const float4*>(a.gamma);
  const auto* beta = reinterpret_cast<const float4*>(a.beta);
  auto* y = reinterpret_cast<float4*>(a.y);
  const auto grid = static_cast<unsigned>(p.rows);
  const auto row_vectors = static_cast<int>(p.cols / 4);
  const float inverse_cols = 1 / static_cast<float>(p.cols);
  const auto threads = static_cast<unsigned>(32 * ceil_div(ceil_div(row_vectors, Vectors), 32));
  return [=, mean = a.mean, rstd = a.rstd](StreamHandle stream) {
    launch_kernel(Kernels::template kernel<Vectors, Warps>,
                  {.grid = grid, .block = threads, .dependent = Kernels::dependent}, stream, x, gamma, beta, y, mean,
                  rstd, row_vectors, inverse_cols);
  };
}

/// The smallest class of blocks that holds a row.
template <class Kernels, int Vectors>
Launch launch_row_blocks(const Problem& p, const Args& a) {
  const int64 threads = ceil_div(p.cols / 4, Vectors);
  if (threads <= 32) return launch_row_blocks<Kernels, Vectors, 1>(p, a);
  if (threads <= 256) return launch_row_blocks<Kernels, Vectors, 8>(p, a);
  return launch_row_blocks<Kernels, Vectors, 32>(p, a);
}

/// Few rows: a thread a vector, so that each row takes as short as it can. Else the bytes in flight count: four vectors
/// a thread for rows of up to `four` vectors, eight beyond.
template <class Kernels, int four = 2048>
Launch prepare_row_blocks(const Problem& p, const Args& a) {
  const int64 vectors = p.cols / 4;
  const bool few = p.rows <= 2 * 132;
  if (vectors <= (few ? 1024 : 32)) return launch_row_blocks<Kernels, 1>(p, a);
  if (vectors <= (few ? 2048 : 64)) return launch_row_blocks<Kernels, 2>(p, a);
  if (vectors <= (few ? 4096 : four)) return launch_row_blocks<Kernels, 4>(p, a);
  return launch_row_blocks<Kernels, 8>(p, a);
}

}  // namespace mage::layernorm
#endif
