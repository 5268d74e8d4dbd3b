// SPDX-License-Identifier: Apache-2.0
// v10_pdl: programmatic dependent launch. Parent v09_cluster: back to back on a stream or in a graph, the blocks of one
// call start while the call before it ends, and wait for it before their first access to memory. Expected: 0.5 us less
// a call by graph at 64x1024, 16x12288, 33x4097 and 1023x1000; nothing for a call that stands alone, which modes event
// and event_cold may favour nevertheless, as its launch can overlap the stamp before it.
// Measured by graph: 0.45 us less at 64x1024, 0.4 and 0.9 more at 16x12288 and 33x4097 (experiments/memory-bound).
#include "kernels/layernorm/cluster.cuh"
#include "kernels/layernorm/peeled.cuh"

namespace mage::layernorm {

/// `blocks` blocks a row, of which each takes `part` neighbouring vectors.
template <int Vectors, int Warps, bool Aligned, bool Clustered>
__global__ void __launch_bounds__(32 * Warps)
    layernorm_v10_pdl(const float* __restrict__ x, const float* __restrict__ gamma, const float* __restrict__ beta,
                      float* __restrict__ y, float* __restrict__ mean, float* __restrict__ rstd, int cols, int phase,
                      float inverse_cols, int blocks, int part) {
  constexpr int most = Clustered ? most_cluster_blocks * Warps : Warps;
  __shared__ alignas(16) float sums[most], squares[most];
  __shared__ uint64 arrived[2];
  int rank = 0;
  int64 row = blockIdx.x;
  if constexpr (Clustered) {
    const ClusterPlace place = cluster_place();
    rank = place.rank;
    row = place.cluster;
    const auto bytes = static_cast<uint32>(blocks * (blockDim.x / 32) * sizeof(float));
    if (threadIdx.x == 0) {
      expect_bytes(arrived, bytes);
      expect_bytes(arrived + 1, bytes);
    }
    cluster_ready();
  }
  wait_for_the_call_before();
  x += row * cols;
  y += row * cols;
  const int shift = Aligned ? 0 : static_cast<int>((phase + row * cols) & 3);
  const auto first = [&](int k) {
    const auto i = static_cast<int>(threadIdx.x + k * blockDim.x);
    return i < part ? 4 * (rank * part + i) - shift : cols;  // behind the part is another block's
  };

  constexpr bool early = Vectors <= 2;
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
  if constexpr (Clustered) {
    wait_for_cluster();
    sum = cluster_sum<Warps>(sum, sums, arrived, blocks, rank);
  } else {
    sum = block_sum<Warps>(sum, sums);
  }
  const float m = sum * inverse_cols;
#pragma unroll
  for (int k = 0; k < Vectors; ++k) square += centre_peeled<Aligned>(v[k], m, first(k), cols);
  if constexpr (Clustered) {
    square = cluster_sum<Warps>(square, squares, arrived + 1, blocks, rank);
  } else {
    square = block_sum<Warps>(square, squares);
  }
  const float r = rsqrtf(fmaf(square, inverse_cols, epsilon));
#pragma unroll
  for (int k = 0; k < Vectors; ++k) {
    if constexpr (!early) {
      g[k] = load_affine<Aligned>(gamma, first(k), cols);
      b[k] = load_affine<Aligned>(beta, first(k), cols);
    }
    store_peeled<Aligned>(y, first(k), cols, affine(v[k], r, g[k], b[k]));
  }
  if (threadIdx.x == 0 && rank == 0) {
    mean[row] = m;
    rstd[row] = r;
  }
}

}  // namespace mage::layernorm

#if MAGE_HOST
#include "kernels/layernorm/layernorm.hpp"

namespace mage::layernorm {
namespace {

template <int Vectors, int Warps, bool Aligned, bool Clustered>
Launch launch(const Problem& p, const Args& a) {
  const int64 n = blocks(p), part = ceil_div(slots(p), n);
  const auto grid = static_cast<unsigned>(n * p.rows);
  const auto threads = static_cast<unsigned>(32 * ceil_div(ceil_div(part, Vectors), 32));
  const auto cols = static_cast<int>(p.cols), phase = static_cast<int>(p.offset % 4);
  const float inverse_cols = 1 / static_cast<float>(cols);
  return [=, size = static_cast<int>(n), vectors = static_cast<int>(part)](StreamHandle stream) {
    launch_kernel(layernorm_v10_pdl<Vectors, Warps, Aligned, Clustered>,
                  {.grid = grid, .block = threads, .cluster = static_cast<unsigned>(size), .dependent = true}, stream,
                  a.x, a.gamma, a.beta, a.y, a.mean, a.rstd, cols, phase, inverse_cols, size, vectors);
  };
}

template <int Vectors, int Warps>
Launch launch(const Problem& p, const Args& a) {
  if (blocks(p) == 1) {
    return aligned(p) ? launch<Vectors, Warps, true, false>(p, a) : launch<Vectors, Warps, false, false>(p, a);
  }
  return aligned(p) ? launch<Vectors, Warps, true, true>(p, a) : launch<Vectors, Warps, false, true>(p, a);
}

Launch prepare(const Problem& p, const Args& a) {
  const int64 part = ceil_div(slots(p), blocks(p));
  const bool few = p.rows * blocks(p) <= 2 * 132;
  if (part <= (few ? 256 : 32)) return launch<1, 8>(p, a);
  if (few && part <= 1024) return launch<1, 32>(p, a);
  if (part <= 64) return launch<2, 8>(p, a);
  if (part <= 1024) return launch<4, 8>(p, a);
  if (part <= 2048 && !few) return launch<8, 8>(p, a);
  return few ? launch<4, 32>(p, a) : launch<8, 16>(p, a);
}

[[maybe_unused]] const Register<Layernorm> registered{{
    .parent = "v09_cluster",
    .note = "programmatic dependent launch: the next call starts while this one ends",
    .min_cc = 90,
    .accepts =
        [](const Problem& p) {
          return slots(p) <= most_cluster_blocks * 8 * 512 && most_cluster_blocks * p.rows <= 0x7fffffff;
        },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::layernorm
#endif
