// SPDX-License-Identifier: Apache-2.0
// v06_persistent: as many blocks as are resident, each walking over rows; gamma and beta stay in registers, and the
// next row is on its way while this one is reduced. Parent v02_block: there gamma and beta cost a block twice the bytes
// of its row from L1 or L2, and a block's loads pause while it reduces. Expected: 33.5 us at 4096x4096; less sure below
// 1k columns, where the registers leave fewer rows in flight.
#include "kernels/layernorm/reductions.cuh"

namespace mage::layernorm {

/// A block has exactly `Threads`: strides known to the compiler save a register a vector.
template <int Vectors, int Threads>
__global__ void __launch_bounds__(Threads, Threads == 256 ? 3 : 1)
    layernorm_v06_persistent(const float4* __restrict__ x, const float4* __restrict__ gamma,
                             const float4* __restrict__ beta, float4* __restrict__ y, float* __restrict__ mean,
                             float* __restrict__ rstd, int rows, int row_vectors, float inverse_cols) {
  constexpr int warps = Threads <= 32 ? 1 : Threads <= 128 ? 4 : Threads / 32;
  // Between two uses of one of these lies the other's barrier.
  __shared__ alignas(16) float sums[warps], squares[warps];
  float4 next[Vectors], g[Vectors], b[Vectors];
  const auto load = [&](float4(&to)[Vectors], const float4* from) {
#pragma unroll
    for (int k = 0; k < Vectors; ++k) {
      const int i = static_cast<int>(threadIdx.x) + k * Threads;
      to[k] = i < row_vectors ? load_now(from + i) : float4{};
    }
  };
  load(next, x + static_cast<int64>(blockIdx.x) * row_vectors);
  load(g, gamma);
  load(b, beta);

  for (int64 row = blockIdx.x; row < rows; row += gridDim.x) {
    float4 v[Vectors];
    float sum = 0, square = 0;
#pragma unroll
    for (int k = 0; k < Vectors; ++k) {
      v[k] = next[k];
      sum += sum_of(v[k]);
    }
    if (row + gridDim.x < rows) load(next, x + (row + gridDim.x) * row_vectors);
    const float m = block_sum<warps>(sum, sums) * inverse_cols;
#pragma unroll
    for (int k = 0; k < Vectors; ++k) {
      if (static_cast<int>(threadIdx.x) + k * Threads < row_vectors) square += centre(v[k], m);
    }
    const float r = rsqrtf(fmaf(block_sum<warps>(square, squares), inverse_cols, epsilon));
#pragma unroll
    for (int k = 0; k < Vectors; ++k) {
      const int i = static_cast<int>(threadIdx.x) + k * Threads;
      if (i < row_vectors) y[row * row_vectors + i] = affine(v[k], r, g[k], b[k]);
    }
    if (threadIdx.x == 0) {
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
  const int64 resident = resident_blocks(layernorm_v06_persistent<Vectors, Threads>, Threads);
  const auto grid = static_cast<unsigned>(rows < resident ? rows : resident);
  return [=, mean = a.mean, rstd = a.rstd](StreamHandle stream) {
    layernorm_v06_persistent<Vectors, Threads>
        <<<grid, Threads, 0, cuda_stream(stream)>>>(x, gamma, beta, y, mean, rstd, rows, row_vectors, inverse_cols);
  };
}

Launch prepare(const Problem& p, const Args& a) {
  if (p.cols <= 128) return launch<1, 32>(p, a);
  if (p.cols <= 256) return launch<2, 32>(p, a);
  if (p.cols <= 512) return launch<4, 32>(p, a);
  if (p.cols <= 1024) return launch<4, 64>(p, a);
  if (p.cols <= 2048) return launch<4, 128>(p, a);
  if (p.cols <= 4096) return launch<4, 256>(p, a);
  return launch<4, 512>(p, a);
}

[[maybe_unused]] const Register<Layernorm> registered{{
    .parent = "v02_block",
    .note = "persistent: gamma and beta in registers, the next row loaded while this one is reduced",
    .min_cc = 80,
    // A row, the next one, gamma and beta fill the registers of 512 threads.
    .accepts =
        [](const Problem& p) { return p.cols % 4 == 0 && p.offset % 4 == 0 && p.cols <= 8192 && p.rows <= 0x7fffffff; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::layernorm
#endif
