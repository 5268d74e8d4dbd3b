// SPDX-License-Identifier: Apache-2.0
// v07_bulk: rows come by bulk copies (cp.async.bulk) into two to eight stages of shared memory. Parent v06_persistent:
// the rows in flight cost no registers, one thread asks for a whole row, and rows of 16384 columns fit too. Expected:
// 32.7 us at 4096x4096, 130 us at 4096x16384.
#include "kernels/layernorm/reductions.cuh"

namespace mage::layernorm {

constexpr int v07_most_stages = 8;

__device__ inline uint32 v07_shared(const void* pointer) {
  return static_cast<uint32>(__cvta_generic_to_shared(pointer));
}

/// A phase of the barrier ends when the one thread has arrived, and the bytes that it announced are there.
__device__ inline void v07_init(uint64* barrier) {
#if __CUDA_ARCH__ >= 900  // a build for older devices compiles this file too; min_cc keeps it from running there
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(v07_shared(barrier)) : "memory");
#endif
}

/// Makes initialised barriers known to the unit that copies.
__device__ inline void v07_publish_barriers() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

__device__ inline void v07_copy(float4* to, const float4* from, uint32 bytes, uint64* barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(v07_shared(barrier)), "r"(bytes)
               : "memory");
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(v07_shared(to)),
      "l"(from), "r"(bytes), "r"(v07_shared(barrier))
      : "memory");
#endif
}

__device__ inline void v07_wait(uint64* barrier, uint32 parity) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}\n" ::"r"(v07_shared(barrier)),
      "r"(parity)
      : "memory");
#endif
}

/// A block has exactly `Threads`.
template <int Vectors, int Threads>
__global__ void __launch_bounds__(Threads)
    layernorm_v07_bulk(const float4* __restrict__ x, const float4* __restrict__ gamma, const float4* __restrict__ beta,
                       float4* __restrict__ y, float* __restrict__ mean, float* __restrict__ rstd, int rows,
                       int row_vectors, float inverse_cols, int stages) {
  constexpr int warps = Threads <= 128 ? 4 : Threads / 32;
  extern __shared__ float4 v07_rows[];  // stages x row_vectors
  __shared__ uint64 full[v07_most_stages];
  __shared__ alignas(16) float sums[warps], squares[warps];
  const auto bytes = static_cast<uint32>(row_vectors * sizeof(float4));

  if (threadIdx.x == 0) {
    for (int s = 0; s < stages; ++s) v07_init(full + s);
    v07_publish_barriers();
    for (int s = 0; s < stages; ++s) {
      const int64 row = blockIdx.x + static_cast<int64>(s) * gridDim.x;
      if (row < rows) v07_copy(v07_rows + s * row_vectors, x + row * row_vectors, bytes, full + s);
    }
  }
  float4 g[Vectors], b[Vectors];
#pragma unroll
  for (int k = 0; k < Vectors; ++k) {
    const int i = static_cast<int>(threadIdx.x) + k * Threads;
    g[k] = i < row_vectors ? load_now(gamma + i) : float4{};
    b[k] = i < row_vectors ? load_now(beta + i) : float4{};
  }
  __syncthreads();  // the barriers are initialised

  int stage = 0;
  uint32 parity = 0;
  for (int64 row = blockIdx.x; row < rows; row += gridDim.x) {
    v07_wait(full + stage, parity);
    float4* const held = v07_rows + stage * row_vectors;
    float4 v[Vectors];
    float sum = 0, square = 0;
#pragma unroll
    for (int k = 0; k < Vectors; ++k) {
      const int i = static_cast<int>(threadIdx.x) + k * Threads;
      v[k] = i < row_vectors ? held[i] : float4{};
      sum += sum_of(v[k]);
    }
    // The sum holds a barrier, behind which every thread has read its part of the stage: it may be filled again.
    static_assert(warps > 1);
    const float m = block_sum<warps>(sum, sums) * inverse_cols;
    if (threadIdx.x == 0) {
      const int64 later = row + static_cast<int64>(stages) * gridDim.x;
      if (later < rows) v07_copy(held, x + later * row_vectors, bytes, full + stage);
    }
    if (++stage == stages) {
      stage = 0;
      parity ^= 1;
    }
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

constexpr int64 stage_bytes = 200 << 10;  // of the 227 KB that an SM of an H200 gives to its blocks

template <int Vectors, int Threads>
Launch launch(const Problem& p, const Args& a) {
  const auto kernel = layernorm_v07_bulk<Vectors, Threads>;
  const auto* x = reinterpret_cast<const float4*>(a.x);
  const auto* gamma = reinterpret_cast<const float4*>(a.gamma);
  const auto* beta = reinterpret_cast<const float4*>(a.beta);
  auto* y = reinterpret_cast<float4*>(a.y);
  const auto rows = static_cast<int>(p.rows), row_vectors = static_cast<int>(p.cols / 4);
  const float inverse_cols = 1 / static_cast<float>(p.cols);

  // As many blocks as the registers hold, then as many stages as the shared memory gives to each of them.
  int device = 0, sms = 0, by_registers = 0, resident = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&by_registers, kernel, Threads, 0),
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  const int64 row_bytes = 4 * p.cols;
  const int64 fit = stage_bytes / (row_bytes * (by_registers > 0 ? by_registers : 1));
  const auto stages = static_cast<int>(fit < 2 ? 2 : fit > v07_most_stages ? v07_most_stages : fit);
  const auto dynamic = static_cast<std::size_t>(stages * row_bytes);
  // The same for every problem: a later prepare must not take it from this Launch.
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(stage_bytes)),
        "cudaFuncSetAttribute");
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, Threads, dynamic),
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  const int64 blocks = int64{sms} * (resident > 0 ? resident : 1);
  const auto grid = static_cast<unsigned>(rows < blocks ? rows : blocks);
  return [=, mean = a.mean, rstd = a.rstd](StreamHandle stream) {
    layernorm_v07_bulk<Vectors, Threads><<<grid, Threads, dynamic, cuda_stream(stream)>>>(
        x, gamma, beta, y, mean, rstd, rows, row_vectors, inverse_cols, stages);
  };
}

Launch prepare(const Problem& p, const Args& a) {
  if (p.cols <= 128) return launch<1, 32>(p, a);
  if (p.cols <= 256) return launch<2, 32>(p, a);
  if (p.cols <= 512) return launch<4, 32>(p, a);
  if (p.cols <= 1024) return launch<4, 64>(p, a);
  if (p.cols <= 2048) return launch<4, 128>(p, a);
  if (p.cols <= 4096) return launch<4, 256>(p, a);
  if (p.cols <= 8192) return launch<8, 256>(p, a);
  return launch<8, 512>(p, a);
}

[[maybe_unused]] const Register<Layernorm> registered{{
    .parent = "v06_persistent",
    .note = "rows by bulk copies into stages of shared memory: more bytes in flight, fewer registers",
    .min_cc = 90,
    // gamma and beta fill the registers of 512 threads, and three rows of 64 KB an SM's shared memory.
    .accepts =
        [](const Problem& p) {
          return p.cols % 4 == 0 && p.offset % 4 == 0 && p.cols <= 16384 && p.rows <= 0x7fffffff;
        },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::layernorm
#endif
