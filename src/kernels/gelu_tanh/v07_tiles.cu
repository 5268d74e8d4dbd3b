// SPDX-License-Identifier: Apache-2.0
// v07_tiles: a block owns 4 KB that lie together in memory, a thread two vectors of them, and no more. Parent
// v06_plain, whose blocks own rows far apart: what is in flight lies within 9 MB that move through memory, and the code
// is short, which a cold instruction cache notices. Expected: 252 us at 8192x16384 and 33.0 at 4096x4096 in both
// modes, 44.0 at 2048x11008, and 3.9 cold at 64x1024 instead of 4.0.
#include "mage_bench/device_code.cuh"

namespace mage::gelu_tanh {

constexpr int v07_threads = 128;
constexpr int v07_tile = 2 * v07_threads;  // vectors of a block, two a thread

// t / (1 + 2^e), e = -2 log2(e) sqrt(2 / pi) (t + 0.044715 t^3): (1 + tanh z) / 2 is 1 / (1 + exp(-2 z)).
__device__ inline float v07_gelu(float t) {
  float e = t * fmaf(t * t, -0x1.a5a7dp-4f, -0x1.26aec2p+1f);
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(e));
  float r = 1.0f + e;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(r));
  return t * r;
}

/// i % vectors = i - vectors * floor(2 i * magic / 2^(32 + shift)) for i < 2^31: no division ahead of the loads.
struct V07Row {
  uint32 vectors, magic, shift;
};

__device__ inline uint32 v07_column(uint32 i, V07Row row) {
  return i - row.vectors * (__umulhi(2 * i, row.magic) >> row.shift);
}

// The loads are volatile and not .nc, so that no compiler moves one above the wait for the call before.
__device__ inline float4 v07_load(const float4* address) {
  float4 v;
  asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(address)
               : "memory");
  return v;
}

__device__ inline float4 v07_gelu(const float4& x, const float4& bias) {
  return make_float4(v07_gelu(x.x + bias.x), v07_gelu(x.y + bias.y), v07_gelu(x.z + bias.z), v07_gelu(x.w + bias.w));
}

__global__ void __launch_bounds__(v07_threads, 2048 / v07_threads)
    gelu_tanh_v07_tiles(const float4* __restrict__ x, const float4* __restrict__ bias, float4* __restrict__ y,
                        uint32 vectors, V07Row row) {
  const uint32 i = blockIdx.x * v07_tile + threadIdx.x, j = i + v07_threads;
#if __CUDA_ARCH__ >= 900  // a build for older devices compiles this file too; min_cc keeps it from running there
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  if (i >= vectors) return;
  const float4 u = v07_load(x + i);
  const float4 v = v07_load(x + min(j, vectors - 1));  // no branch: both are on their way at once
  const float4 b = v07_load(bias + v07_column(i, row));
  const float4 c = v07_load(bias + v07_column(j, row));
  y[i] = v07_gelu(u, b);
  if (j < vectors) y[j] = v07_gelu(v, c);
}

}  // namespace mage::gelu_tanh

#if MAGE_HOST
#include "kernels/gelu_tanh/gelu_tanh.hpp"

namespace mage::gelu_tanh {
namespace {

constexpr int64 most_vectors = 0x7fffffff - v07_tile;  // so that 32 bits count them, and those behind a block's last

V07Row row_of(uint32 vectors) {
  uint32 log2 = 0;  // rounded up
  while (uint64{1} << log2 < vectors) ++log2;
  return {.vectors = vectors, .magic = static_cast<uint32>((uint64{1} << (31 + log2)) / vectors + 1), .shift = log2};
}

Launch prepare(const Problem& p, const Args& a) {
  const auto vectors = static_cast<uint32>(p.rows * p.cols / 4);
  const V07Row row = row_of(static_cast<uint32>(p.cols / 4));
  const auto* x = reinterpret_cast<const float4*>(a.x);
  const auto* bias = reinterpret_cast<const float4*>(a.bias);
  auto* y = reinterpret_cast<float4*>(a.y);
  return [=](StreamHandle stream) {
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = (vectors + v07_tile - 1) / v07_tile;
    config.blockDim = v07_threads;
    config.stream = cuda_stream(stream);
    config.attrs = &attribute;
    config.numAttrs = 1;
    check(cudaLaunchKernelEx(&config, gelu_tanh_v07_tiles, x, bias, y, vectors, row), "cudaLaunchKernelEx");
  };
}

[[maybe_unused]] const Register<GeluTanh> registered{{
    .parent = "v06_plain",
    .note =
        "4 KB of memory a block, two vectors a thread: short code, and neighbouring blocks write neighbouring lines",
    .min_cc = 90,
    .accepts =
        [](const Problem& p) { return p.cols % 4 == 0 && p.offset % 4 == 0 && p.rows * p.cols / 4 <= most_vectors; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::gelu_tanh
#endif
