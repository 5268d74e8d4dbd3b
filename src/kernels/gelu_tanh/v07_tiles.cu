// SPDX-License-Identifier: Apache-2.0
// v07_tiles: a block owns 4 KB that lie together in memory, a thread two vectors of them, and no more. Parent
// v06_plain, whose blocks own rows far apart: what is in flight lies within 9 MB that move through memory, and the code
// is short, which a cold instruction cache notices. Expected: 252 us at 8192x16384 and 33.0 at 4096x4096 in both
// modes, 44.0 at 2048x11008, and 3.9 cold at 64x1024 instead of 4.0.
#include "kernels/gelu_tanh/sigmoid_form.cuh"
#include "mage_bench/device_code.cuh"
#include "mage_bench/remainder.cuh"

namespace mage::gelu_tanh {

constexpr int v07_threads = 128;
constexpr int v07_tile = 2 * v07_threads;  // vectors of a block, two a thread

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
  return make_float4(sigmoid_gelu(x.x + bias.x), sigmoid_gelu(x.y + bias.y), sigmoid_gelu(x.z + bias.z),
                     sigmoid_gelu(x.w + bias.w));
}

__global__ void __launch_bounds__(v07_threads, 2048 / v07_threads)
    gelu_tanh_v07_tiles(const float4* __restrict__ x, const float4* __restrict__ bias, float4* __restrict__ y,
                        uint32 vectors, Divisor row) {
  const uint32 i = blockIdx.x * v07_tile + threadIdx.x, j = i + v07_threads;
#if __CUDA_ARCH__ >= 900  // a build for older devices compiles this file too; min_cc keeps it from running there
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  if (i >= vectors) return;
  const float4 u = v07_load(x + i);
  const float4 v = v07_load(x + min(j, vectors - 1));  // no branch: both are on their way at once
  const float4 b = v07_load(bias + remainder(i, row));
  const float4 c = v07_load(bias + remainder(j, row));
  y[i] = v07_gelu(u, b);
  if (j < vectors) y[j] = v07_gelu(v, c);
}

}  // namespace mage::gelu_tanh

#if MAGE_HOST
#include "kernels/gelu_tanh/gelu_tanh.hpp"

namespace mage::gelu_tanh {
namespace {

constexpr int64 most_vectors = 0x7fffffff - v07_tile;  // so that 32 bits count them, and those behind a block's last

Launch prepare(const Problem& p, const Args& a) {
  const auto vectors = static_cast<uint32>(p.rows * p.cols / 4);
  const auto grid = static_cast<unsigned>(ceil_div(vectors, v07_tile));
  const Divisor row = divisor_of(static_cast<uint32>(p.cols / 4));
  const auto* x = reinterpret_cast<const float4*>(a.x);
  const auto* bias = reinterpret_cast<const float4*>(a.bias);
  auto* y = reinterpret_cast<float4*>(a.y);
  return [=](StreamHandle stream) {
    launch_kernel(gelu_tanh_v07_tiles, {.grid = grid, .block = v07_threads, .dependent = true}, stream, x, bias, y,
                  vectors, row);
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
