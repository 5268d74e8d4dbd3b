// SPDX-License-Identifier: Apache-2.0
// v08_any_columns: tiles of memory for any number of columns: the four of a vector may lie in two rows. Parent
// v07_tiles, which needs rows of whole vectors. Expected, as v07_tiles and v06_plain compare at 1024x4096: 11.4 us cold
// at 1023x4097, where v06_plain takes 12.0, and 6.3 by graph instead of 6.1.
#include "kernels/gelu_tanh/sigmoid_form.cuh"
#include "mage_bench/device_code.cuh"
#include "mage_bench/remainder.cuh"

namespace mage::gelu_tanh {

constexpr int v08_threads = 128;
constexpr int v08_tile = 2 * v08_threads;  // vectors of a block, two a thread

// The loads are volatile and not .nc, so that no compiler moves one above the wait for the call before.
__device__ inline float v08_load(const float* address) {
  float v;
  asm volatile("ld.global.f32 %0, [%1];" : "=f"(v) : "l"(address) : "memory");
  return v;
}

__device__ inline float4 v08_load_vector(const float* address) {
  float4 v;
  asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(address)
               : "memory");
  return v;
}

/// Of element i and the three behind it.
__device__ inline float4 v08_load_bias(const float* bias, uint32 i, Divisor row) {
  const uint32 first = remainder(i, row);
  const auto at = [&](uint32 k) { return bias + (first + k < row.divisor ? first + k : first + k - row.divisor); };
  return make_float4(v08_load(at(0)), v08_load(at(1)), v08_load(at(2)), v08_load(at(3)));
}

__device__ inline float4 v08_gelu(const float4& x, const float4& bias) {
  return make_float4(sigmoid_gelu(x.x + bias.x), sigmoid_gelu(x.y + bias.y), sigmoid_gelu(x.z + bias.z),
                     sigmoid_gelu(x.w + bias.w));
}

/// `head` elements lie before the first vector of x and of y, and `count` in all.
__global__ void __launch_bounds__(v08_threads, 2048 / v08_threads)
    gelu_tanh_v08_any_columns(const float* __restrict__ x, const float* __restrict__ bias, float* __restrict__ y,
                              uint32 head, uint32 vectors, uint32 count, Divisor row) {
  const uint32 i = blockIdx.x * v08_tile + threadIdx.x, j = i + v08_threads;
#if __CUDA_ARCH__ >= 900  // a build for older devices compiles this file too; min_cc keeps it from running there
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  if (blockIdx.x == 0 && threadIdx.x < count - 4 * vectors) {
    const uint32 odd = threadIdx.x < head ? threadIdx.x : 4 * vectors + threadIdx.x;
    y[odd] = sigmoid_gelu(v08_load(x + odd) + v08_load(bias + remainder(odd, row)));
  }
  if (i >= vectors) return;
  const uint32 at = head + 4 * i, then = head + 4 * min(j, vectors - 1);  // no branch: both are on their way at once
  const float4 u = v08_load_vector(x + at);
  const float4 v = v08_load_vector(x + then);
  const float4 b = v08_load_bias(bias, at, row);
  const float4 c = v08_load_bias(bias, then, row);
  *reinterpret_cast<float4*>(y + at) = v08_gelu(u, b);
  if (j < vectors) *reinterpret_cast<float4*>(y + then) = v08_gelu(v, c);
}

}  // namespace mage::gelu_tanh

#if MAGE_HOST
#include "kernels/gelu_tanh/gelu_tanh.hpp"

namespace mage::gelu_tanh {
namespace {

Launch prepare(const Problem& p, const Args& a) {
  const auto count = static_cast<uint32>(p.rows * p.cols), head = static_cast<uint32>(-p.offset & 3);
  const uint32 vectors = (count - head) / 4;
  const auto grid = static_cast<unsigned>(vectors > 0 ? ceil_div(vectors, v08_tile) : 1);
  const Divisor row = divisor_of(static_cast<uint32>(p.cols));
  return [=](StreamHandle stream) {
    launch_kernel(gelu_tanh_v08_any_columns, {.grid = grid, .block = v08_threads, .dependent = true}, stream, a.x,
                  a.bias, a.y, head, vectors, count, row);
  };
}

[[maybe_unused]] const Register<GeluTanh> registered{{
    .parent = "v07_tiles",
    .note = "tiles of memory for any number of columns: no row is peeled, and a vector may lie in two rows",
    .min_cc = 90,
    .accepts = [](const Problem& p) { return p.cols >= 4 && p.rows * p.cols <= 0x7fffffff; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::gelu_tanh
#endif
