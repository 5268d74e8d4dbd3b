// SPDX-License-Identifier: Apache-2.0
// v08_single: one vector a thread, and no cache hint. Parent v04_exp2: the copy of that form is the fastest on an H200,
// the one with four vectors and hints the slowest (experiments/foundation), so blocks that retire fast should beat
// loads that are many and in flight together.
#include "kernels/gelu/exp2_gelu.cuh"
#include "mage_bench/device_code.cuh"

namespace mage::gelu {

constexpr int v08_threads = 256;

/// Where the flat arrays are cut, and how to reduce an index modulo `cols` without a division.
struct v08_Layout {
  int64 vectors;         // 16-byte vectors of y
  int head, edges;       // elements before the first vector; those and the ones behind the last
  uint32 cols, magic32;  // floor((2^32 - 1) / cols)
  uint64 magic64;        // floor((2^64 - 1) / cols)
};

// Multiplying by a magic number gives the quotient or one less, so one conditional subtraction is left:
// r - cols wraps to a large number where r < cols.
__device__ inline uint32 v08_column(uint64 element, const v08_Layout& l) {
  const auto r = static_cast<uint32>(element - __umul64hi(element, l.magic64) * l.cols);
  return min(r, r - l.cols);
}
__device__ inline uint32 v08_column(uint32 element, const v08_Layout& l) {
  const uint32 r = element - __umulhi(element, l.magic32) * l.cols;
  return min(r, r - l.cols);
}

template <bool bias_vector>
__device__ inline float4 v08_bias(const float* __restrict__ bias, uint32 column, const v08_Layout& l) {
  if constexpr (bias_vector) {
    return __ldg(reinterpret_cast<const float4*>(bias + column));
  } else {
    if (column + 3 < l.cols) {
      const float* b = bias + column;
      return make_float4(__ldg(b), __ldg(b + 1), __ldg(b + 2), __ldg(b + 3));
    }
    return make_float4(__ldg(bias + column), __ldg(bias + v08_column(column + 1, l)),
                       __ldg(bias + v08_column(column + 2, l)), __ldg(bias + v08_column(column + 3, l)));
  }
}

/// x_vector: x has y's alignment. bias_vector: no vector straddles two rows, and bias is 16-byte aligned.
template <bool x_vector, bool bias_vector>
__global__ void __launch_bounds__(v08_threads)
    gelu_v08_single(const float* __restrict__ x, const float* __restrict__ bias, float* __restrict__ y, v08_Layout l) {
  const int64 first = static_cast<int64>(blockIdx.x) * v08_threads;
  const int64 vector = first + threadIdx.x;
  if (vector < l.vectors) {
    const int64 element = l.head + 4 * vector;
    float4 v;
    if constexpr (x_vector) {
      v = *reinterpret_cast<const float4*>(x + element);
    } else {
      v = make_float4(x[element], x[element + 1], x[element + 2], x[element + 3]);
    }
    const uint32 column = v08_column(static_cast<uint64>(l.head + 4 * first), l) + 4 * threadIdx.x;
    const float4 b = v08_bias<bias_vector>(bias, v08_column(column, l), l);
    *reinterpret_cast<float4*>(y + element) =
        make_float4(exp2_gelu(v.x + b.x), exp2_gelu(v.y + b.y), exp2_gelu(v.z + b.z), exp2_gelu(v.w + b.w));
  }
  const int lane = static_cast<int>(threadIdx.x);
  if (blockIdx.x == 0 && lane < l.edges) {
    const int64 e = lane < l.head ? lane : 4 * l.vectors + lane;
    y[e] = exp2_gelu(x[e] + bias[v08_column(static_cast<uint64>(e), l)]);
  }
}

}  // namespace mage::gelu

#if MAGE_HOST
#include "kernels/gelu/gelu.hpp"

namespace mage::gelu {
namespace {

int64 blocks(int64 vectors) { return vectors <= v08_threads ? 1 : ceil_div(vectors, v08_threads); }

template <bool x_vector, bool bias_vector>
Launch launch(const Args& a, const v08_Layout& l) {
  const auto grid = static_cast<unsigned>(blocks(l.vectors));
  return [=](StreamHandle stream) {
    gelu_v08_single<x_vector, bias_vector><<<grid, v08_threads, 0, cuda_stream(stream)>>>(a.x, a.bias, a.y, l);
  };
}

Launch prepare(const Problem& p, const Args& a) {
  const auto misaligned = [](const float* pointer) { return reinterpret_cast<uint64>(pointer) / sizeof(float) % 4; };
  const int64 elements = p.rows * p.cols;
  const auto head = static_cast<int64>((4 - misaligned(a.y)) % 4);
  v08_Layout l{};
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
    .parent = "v04_exp2",
    .note = "one vector a thread and no cache hint: blocks retire fast, as in the fastest copy",
    .min_cc = 80,
    .accepts = [](const Problem& p) { return p.cols <= 0x7fffffff && blocks(p.rows * p.cols / 4) <= 0x7fffffff; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::gelu
#endif
