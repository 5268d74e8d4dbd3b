// SPDX-License-Identifier: Apache-2.0
// v00_float4: one 16-byte vector a thread, the odd elements at the end one a thread. The first version: frozen.
#include "mage_bench/device_code.cuh"

namespace mage::copy {

__global__ void copy_v00_float4(const float* __restrict__ x, float* __restrict__ y, int64 vectors, int64 elements) {
  const int64 i = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < vectors) {
    reinterpret_cast<float4*>(y)[i] = reinterpret_cast<const float4*>(x)[i];
  } else {
    const int64 rest = 3 * vectors + i;  // thread `vectors` takes element 4 * vectors
    if (rest < elements) y[rest] = x[rest];
  }
}

}  // namespace mage::copy

#if MAGE_HOST
#include "kernels/copy/copy.hpp"

namespace mage::copy {
namespace {

constexpr int64 threads = 256;

int64 blocks(const Problem& p) {
  const int64 elements = p.rows * p.cols;
  return (elements / 4 + elements % 4 + threads - 1) / threads;
}

Launch prepare(const Problem& p, const Args& a) {
  const int64 elements = p.rows * p.cols, vectors = elements / 4;
  const auto grid = static_cast<unsigned>(blocks(p));
  return [=](StreamHandle stream) {
    copy_v00_float4<<<grid, threads, 0, cuda_stream(stream)>>>(a.x, a.y, vectors, elements);
  };
}

[[maybe_unused]] const Register<Copy> registered{{
    .parent = "",
    .note = "one float4 a thread",
    .min_cc = 80,
    .accepts = [](const Problem& p) { return blocks(p) <= 0x7fffffff; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::copy
#endif
