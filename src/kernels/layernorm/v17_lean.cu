// SPDX-License-Identifier: Apache-2.0
// v17_lean: gamma and beta are loaded late, so that 32 registers are enough and an SM is full. Parent v15_wide, whose
// rows of two vectors a thread take 64 registers in blocks of up to 1024 threads: one row is at work on an SM at 8192
// columns, and two are at 4096, which is why it took 209 and 45 us. Expected by graph: 34 us at 4096x4096 and 129 at
// 8192x8192, where v11_pdl_block takes 33.9 and 130.3.
#include "kernels/layernorm/row_block.cuh"

namespace mage::layernorm {

/// A block a row. Vectors: 16-byte vectors a thread; Warps: the most of a block.
template <int Vectors, int Warps>
__global__ void __launch_bounds__(32 * Warps)
    layernorm_v17_lean(const float4* __restrict__ x, const float4* __restrict__ gamma, const float4* __restrict__ beta,
                       float4* __restrict__ y, float* __restrict__ mean, float* __restrict__ rstd, int row_vectors,
                       float inverse_cols) {
  row_block<Vectors, Warps, (Vectors == 1)>(x, gamma, beta, y, mean, rstd, row_vectors, inverse_cols);
}

}  // namespace mage::layernorm

#if MAGE_HOST
#include "kernels/layernorm/row_launch.cuh"

namespace mage::layernorm {
namespace {

struct Kernels {
  static constexpr bool dependent = true;
  template <int Vectors, int Warps>
  static constexpr auto* kernel = layernorm_v17_lean<Vectors, Warps>;
};

Launch prepare(const Problem& p, const Args& a) {
  const int64 vectors = p.cols / 4;
  // Few rows: a thread a vector, so that each row takes as short as it can.
  const bool few = p.rows <= 2 * 132;
  if (vectors <= (few ? 1024 : 32)) return launch_row_blocks<Kernels, 1>(p, a);
  if (vectors <= 2048) return launch_row_blocks<Kernels, 2>(p, a);
  return vectors <= 4096 ? launch_row_blocks<Kernels, 4>(p, a) : launch_row_blocks<Kernels, 8>(p, a);
}

[[maybe_unused]] const Register<Layernorm> registered{{
    .parent = "v15_wide",
    .note = "gamma and beta loaded late: 32 registers, so that twice the threads a row fill an SM",
    .min_cc = 90,
    .accepts = fits_a_block,
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::layernorm
#endif
