// SPDX-License-Identifier: Apache-2.0
// v03_rows: a block owns some columns of rows that are aligned alike (every row, every second or every fourth, by
// cols mod 4), four of them in flight. Parent v02_sigmoid: any column count and any misalignment at the speed of
// 16-byte accesses; elements before a row's first vector and behind its last have threads of their own.
#include "kernels/gelu_tanh/alike_rows.cuh"
#include "kernels/gelu_tanh/sigmoid_form.cuh"
#include "mage_bench/device_code.cuh"

namespace mage::gelu_tanh {

constexpr int v03_in_flight = 4;  // rows a thread

__device__ inline float4 v03_load(const float4* address) {
  float4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(address));
  return v;
}

template <Rows kind>
__global__ void __launch_bounds__(alike_threads)
    gelu_tanh_v03_rows(const float* __restrict__ x, const float* __restrict__ bias, float* __restrict__ y, Layout l) {
  const int alike = static_cast<int>(blockIdx.y) & ((1 << l.log2_period) - 1);
  const int64 base = static_cast<int64>(blockIdx.y >> l.log2_period) * l.span;
  const int rows = static_cast<int>(min(l.rows - base, static_cast<int64>(l.span)));
  const int stride = static_cast<int>(blockDim.y) << l.log2_period;
  const int64 step = stride * l.cols;
  int row = alike + (static_cast<int>(threadIdx.y) << l.log2_period);

  const int cols = static_cast<int>(l.cols);
  const int head = kind == Rows::aligned ? 0 : row_head(alike, cols, l.phase);
  const int vectors = (cols - head) / 4;
  const int index = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);

  if (index < vectors) {
    const int column = head + 4 * index;
    float4 b;
    if constexpr (kind == Rows::aligned) {
      b = __ldg(reinterpret_cast<const float4*>(bias + column));
    } else {
      b = make_float4(__ldg(bias + column), __ldg(bias + column + 1), __ldg(bias + column + 2),
                      __ldg(bias + column + 3));
    }
    for (int64 at = (base + row) * l.cols + column; row < rows; row += v03_in_flight * stride) {
      float4 v[v03_in_flight];
#pragma unroll
      for (int k = 0; k < v03_in_flight; ++k) {
        if (row + k * stride < rows) {
          const float* from = x + at + k * step;
          if constexpr (kind == Rows::apart) {
            v[k] = make_float4(__ldcs(from), __ldcs(from + 1), __ldcs(from + 2), __ldcs(from + 3));
          } else {
            v[k] = v03_load(reinterpret_cast<const float4*>(from));
          }
        }
      }
#pragma unroll
      for (int k = 0; k < v03_in_flight; ++k) {
        if (row + k * stride < rows) {
          __stcs(reinterpret_cast<float4*>(y + at + k * step),
                 make_float4(sigmoid_gelu(v[k].x + b.x), sigmoid_gelu(v[k].y + b.y), sigmoid_gelu(v[k].z + b.z),
                             sigmoid_gelu(v[k].w + b.w)));
        }
      }
      at += v03_in_flight * step;
    }
  } else if (kind != Rows::aligned && index - vectors < cols - 4 * vectors) {
    // The elements before a row's first vector and behind its last, one a thread.
    const int edge = index - vectors;
    const int column = edge < head ? edge : 4 * vectors + edge;
    const float b = __ldg(bias + column);
    for (int64 at = (base + row) * l.cols + column; row < rows; row += stride, at += step) {
      y[at] = sigmoid_gelu(x[at] + b);
    }
  }
}

}  // namespace mage::gelu_tanh

#if MAGE_HOST
#include "kernels/gelu_tanh/gelu_tanh.hpp"

namespace mage::gelu_tanh {
namespace {

template <Rows kind>
Launch launch(const Args& a, const Layout& l, const dim3& grid, const dim3& block) {
  return [=](StreamHandle stream) {
    gelu_tanh_v03_rows<kind><<<grid, block, 0, cuda_stream(stream)>>>(a.x, a.bias, a.y, l);
  };
}

Launch prepare(const Problem& p, const Args& a) {
  const AlikeRows alike = alike_rows(p, a);
  const int64 period = alike.period(), slots = alike.slots;
  Layout l = alike.layout;

  int64 block_x = alike_threads, block_y = 1, grid_x = 1, grid_y = 1;
  while (block_x / 2 >= slots) block_x /= 2;
  // The widest block that leaves at most an eighth of its threads without a column, but a warp's width at least.
  while (block_x > 32 && ceil_div(slots, block_x) * block_x * 8 > slots * 9) block_x /= 2;
  block_y = alike_threads / block_x;
  const auto cover = [&] {
    const int64 span = period * v03_in_flight * block_y;
    const int64 steps = ceil_div(ceil_div(p.rows, span), 65535 / period);  // gridDim.y ends at 65535
    l.span = static_cast<int>(span * steps);
    grid_x = ceil_div(slots, block_x);
    grid_y = ceil_div(p.rows, l.span) * period;
  };
  cover();
  // Few rows: smaller blocks reach more of an H200's 132 SMs.
  while (block_x * block_y > 64 && grid_x * grid_y < 2 * 132) {
    (block_y > 1 ? block_y : block_x) /= 2;
    cover();
  }

  const dim3 grid{static_cast<unsigned>(grid_x), static_cast<unsigned>(grid_y)};
  const dim3 block{static_cast<unsigned>(block_x), static_cast<unsigned>(block_y)};
  if (alike.kind == Rows::aligned) return launch<Rows::aligned>(a, l, grid, block);
  if (alike.kind == Rows::shifted) return launch<Rows::shifted>(a, l, grid, block);
  return launch<Rows::apart>(a, l, grid, block);
}

[[maybe_unused]] const Register<GeluTanh> registered{{
    .parent = "v02_sigmoid",
    .note = "rows aligned alike share a block: bias in registers, no modulo, any column count",
    .min_cc = 80,
    .accepts = [](const Problem& p) { return p.cols <= 0x7fffffff; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::gelu_tanh
#endif
