// SPDX-License-Identifier: Apache-2.0
// v04_exp2: erfc(|t| / sqrt 2) as 2 to a polynomial, without a branch or a select: exp2_form.hpp. Parent v03_flat:
// less than half the instructions an element, which should help only where the data is in L2 or the clocks are low.
// Worst |err| / bound over every float t in [-20, 20], ex2.approx off by up to 2^-22 either way: 0.564, by
// tools/fit_gelu_exp2.py. +Inf gives +Inf, -Inf and NaN give NaN, as in the closed form.
#include "kernels/gelu/exp2_gelu.cuh"
#include "mage_bench/device_code.cuh"

namespace mage::gelu {

constexpr int v04_threads = 256;
constexpr int v04_unroll = 4;  // vectors in flight a thread
constexpr int v04_tile = v04_threads * v04_unroll;

/// Where the flat arrays are cut, and how to reduce an index modulo `cols` without a division.
struct V04Layout {
  int64 vectors;         // 16-byte vectors of y
  int head, edges;       // elements before the first vector; those and the ones behind the last
  uint32 cols, magic32;  // floor((2^32 - 1) / cols)
  uint64 magic64;        // floor((2^64 - 1) / cols)
};

__device__ inline float4 v04_load(const float4* address) {
  float4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(address));
  return v;
}

// Multiplying by a magic number gives the quotient or one less, so one conditional subtraction is left:
// r - cols wraps to a large number where r < cols.
__device__ inline uint32 v04_column(uint64 element, const V04Layout& l) {
  const auto r = static_cast<uint32>(element - __umul64hi(element, l.magic64) * l.cols);
  return min(r, r - l.cols);
}
__device__ inline uint32 v04_column(uint32 element, const V04Layout& l) {
  const uint32 r = element - __umulhi(element, l.magic32) * l.cols;
  return min(r, r - l.cols);
}

template <bool bias_vector>
__device__ inline float4 v04_bias(const float* __restrict__ bias, uint32 column, const V04Layout& l) {
  if constexpr (bias_vector) {
    return __ldg(reinterpret_cast<const float4*>(bias + column));
  } else {
    if (column + 3 < l.cols) {
      const float* b = bias + column;
      return make_float4(__ldg(b), __ldg(b + 1), __ldg(b + 2), __ldg(b + 3));
    }
    return make_float4(__ldg(bias + column), __ldg(bias + v04_column(column + 1, l)),
                       __ldg(bias + v04_column(column + 2, l)), __ldg(bias + v04_column(column + 3, l)));
  }
}

/// x_vector: x has y's alignment. bias_vector: no vector straddles two rows, and bias is 16-byte aligned.
template <bool x_vector, bool bias_vector>
__global__ void __launch_bounds__(v04_threads)
    gelu_v04_exp2(const float* __restrict__ x, const float* __restrict__ bias, float* __restrict__ y, V04Layout l) {
  const int64 first = static_cast<int64>(blockIdx.x) * v04_tile;
  const int lane = static_cast<int>(threadIdx.x);
  const int left = static_cast<int>(min(l.vectors - first, static_cast<int64>(v04_tile))) - lane;
  const int64 element = l.head + 4 * (first + lane);

  float4 v[v04_unroll];
#pragma unroll
  for (int k = 0; k < v04_unroll; ++k) {
    if (k * v04_threads < left) {
      const float* from = x + element + 4 * k * v04_threads;
      if constexpr (x_vector) {
        v[k] = v04_load(reinterpret_cast<const float4*>(from));
      } else {
        v[k] = make_float4(__ldg(from), __ldg(from + 1), __ldg(from + 2), __ldg(from + 3));
      }
    }
  }
  const uint32 column = v04_column(static_cast<uint64>(l.head + 4 * first), l) + 4 * threadIdx.x;
  float4 b[v04_unroll];
#pragma unroll
  for (int k = 0; k < v04_unroll; ++k) {
    if (k * v04_threads < left) b[k] = v04_bias<bias_vector>(bias, v04_column(column + 4 * k * v04_threads, l), l);
  }
#pragma unroll
  for (int k = 0; k < v04_unroll; ++k) {
    if (k * v04_threads < left) {
      __stcs(reinterpret_cast<float4*>(y + element + 4 * k * v04_threads),
             make_float4(exp2_gelu(v[k].x + b[k].x), exp2_gelu(v[k].y + b[k].y), exp2_gelu(v[k].z + b[k].z),
                         exp2_gelu(v[k].w + b[k].w)));
    }
  }

  if (blockIdx.x == 0 && lane < l.edges) {
    const int64 e = lane < l.head ? lane : 4 * l.vectors + lane;
    y[e] = exp2_gelu(x[e] + bias[v04_column(static_cast<uint64>(e), l)]);
  }
}

}  // namespace mage::gelu

#if MAGE_HOST
#include "kernels/gelu/gelu.hpp"

namespace mage::gelu {
namespace {

template <bool x_vector, bool bias_vector>
Launch launch(const Args& a, const V04Layout& l) {
  const auto grid = static_cast<unsigned>(l.vectors <= v04_tile ? 1 : ceil_div(l.vectors, v04_tile));
  return [=](StreamHandle stream) {
    gelu_v04_exp2<x_vector, bias_vector><<<grid, v04_threads, 0, cuda_stream(stream)>>>(a.x, a.bias, a.y, l);
  };
}

Launch prepare(const Problem& p, const Args& a) {
  const auto misaligned = [](const float* pointer) { return reinterpret_cast<uint64>(pointer) / sizeof(float) % 4; };
  const int64 elements = p.rows * p.cols;
  const auto head = static_cast<int64>((4 - misaligned(a.y)) % 4);
  V04Layout l{};
  l.head = static_cast<int>(head < elements ? head : elements);
  l.vectors = (elements - l.head) / 4;
  l.edges = static_cast<int>(elements - 4 * l.vectors);
  l.cols = static_cast<uint32>(p.cols);
  l.magic32 = ~uint32{0} / l.cols;
  l.magic64 = ~uint64{0} / l.cols;
  if (misaligned(a.x) != misaligned(a.y)) return launch<false, false>(a, l);
  if (l.head == 0 && p.cols % 4 == 0 && misaligned(a.bias) == 0) return launch<true, true>(a, l);
  return launch<true, false>(a, l);
}

[[maybe_unused]] const Register<Gelu> registered{{
    .parent = "v03_flat",
    .note = "erfc as exp2 of a polynomial, branch-free: fewer than half the instructions",
    .min_cc = 80,
    .accepts = [](const Problem& p) { return p.cols <= 0x7fffffff; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::gelu
#endif
