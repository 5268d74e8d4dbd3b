// SPDX-License-Identifier: Apache-2.0
// v01_float4: 16-byte loads and stores. Parent v00_naive: same arithmetic, a quarter of the memory instructions
// and of the modulos, and four times the bytes in flight a thread.
#include "mage_bench/device_code.cuh"

namespace mage::gelu {

__device__ inline float v01_gelu(float t) { return 0.5f * t * (1.0f + erff(t * 0.70710678f)); }

__global__ void gelu_v01_float4(const float4* __restrict__ x, const float4* __restrict__ bias, float4* __restrict__ y,
                                int64 vectors, int64 row_vectors) {
  const int64 i = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < vectors) {
    const float4 in = x[i];
    const float4 b = bias[i % row_vectors];
    y[i] = make_float4(v01_gelu(in.x + b.x), v01_gelu(in.y + b.y), v01_gelu(in.z + b.z), v01_gelu(in.w + b.w));
  }
}

}  // namespace mage::gelu

#if MAGE_HOST
#include "kernels/gelu/gelu.hpp"

namespace mage::gelu {
namespace {

constexpr int64 threads = 256;

int64 blocks(const Problem& p) { return ceil_div(p.rows * p.cols / 4, threads); }

Launch prepare(const Problem& p, const Args& a) {
  const int64 vectors = p.rows * p.cols / 4, row_vectors = p.cols / 4;
  const auto grid = static_cast<unsigned>(blocks(p));
  const auto* x = reinterpret_cast<const float4*>(a.x);
  const auto* bias = reinterpret_cast<const float4*>(a.bias);
  auto* y = reinterpret_cast<float4*>(a.y);
  return [=](StreamHandle stream) {
    gelu_v01_float4<<<grid, threads, 0, cuda_stream(stream)>>>(x, bias, y, vectors, row_vectors);
  };
}

[[maybe_unused]] const Register<Gelu> registered{{
    .parent = "v00_naive",
    .note = "float4 loads and stores: a quarter of the memory instructions",
    .min_cc = 80,
    .accepts = [](const Problem& p) { return p.cols % 4 == 0 && p.offset % 4 == 0 && blocks(p) <= 0x7fffffff; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::gelu
#endif
