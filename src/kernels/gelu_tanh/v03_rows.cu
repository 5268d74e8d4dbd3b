// SPDX-License-Identifier: Apache-2.0
// v03_rows: a block owns some columns of rows that are aligned alike (every row, every second or every fourth, by
// cols mod 4), four of them in flight. Parent v02_sigmoid: any column count and any misalignment at the speed of
// 16-byte accesses; elements before a row's first vector and behind its last have threads of their own.
#include "mage_bench/device_code.cuh"

namespace mage::gelu_tanh {

constexpr int v03_in_flight = 4;  // rows a thread
constexpr int v03_threads = 256;

/// aligned: every row starts at a multiple of 16 bytes, and so does the bias. shifted: rows start anywhere, but x and y
/// alike. apart: x and y start differently, so x is read by elements.
enum class V03Rows { aligned, shifted, apart };

struct V03Layout {
  int64 rows, cols;
  int span;         // rows of `period` neighbouring blocks
  int log2_period;  // rows r and r + period start with the same alignment; the period is 1, 2 or 4
  int phase;        // elements by which row 0 of y starts behind a multiple of 16 bytes
};

/// Elements before the first vector of row `row`.
__host__ __device__ inline int v03_head(int row, int cols, int phase) {
  const int head = (4 - (phase + row * (cols & 3))) & 3;
  return head < cols ? head : cols;
}

// t / (1 + 2^e), e = -2 log2(e) sqrt(2 / pi) (t + 0.044715 t^3): (1 + tanh z) / 2 is 1 / (1 + exp(-2 z)).
__device__ inline float v03_gelu(float t) {
  float e = t * fmaf(t * t, -0x1.a5a7dp-4f, -0x1.26aec2p+1f);
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(e));
  float r = 1.0f + e;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(r));
  return t * r;
}

__device__ inline float4 v03_load(const float4* address) {
  float4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(address));
  return v;
}

template <V03Rows kind>
__global__ void __launch_bounds__(v03_threads)
    gelu_tanh_v03_rows(const float* __restrict__ x, const float* __restrict__ bias, float* __restrict__ y,
                       V03Layout l) {
  const int alike = static_cast<int>(blockIdx.y) & ((1 << l.log2_period) - 1);
  const int64 base = static_cast<int64>(blockIdx.y >> l.log2_period) * l.span;
  const int rows = static_cast<int>(min(l.rows - base, static_cast<int64>(l.span)));
  const int stride = static_cast<int>(blockDim.y) << l.log2_period;
  const int64 step = stride * l.cols;
  int row = alike + (static_cast<int>(threadIdx.y) << l.log2_period);

  const int cols = static_cast<int>(l.cols);
  const int head = kind == V03Rows::aligned ? 0 : v03_head(alike, cols, l.phase);
  const int vectors = (cols - head) / 4;
  const int index = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);

  if (index < vectors) {
    const int column = head + 4 * index;
    float4 b;
    if constexpr (kind == V03Rows::aligned) {
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
          if constexpr (kind == V03Rows::apart) {
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
                 make_float4(v03_gelu(v[k].x + b.x), v03_gelu(v[k].y + b.y), v03_gelu(v[k].z + b.z),
                             v03_gelu(v[k].w + b.w)));
        }
      }
      at += v03_in_flight * step;
    }
  } else if (kind != V03Rows::aligned && index - vectors < cols - 4 * vectors) {
    // The elements before a row's first vector and behind its last, one a thread.
    const int edge = index - vectors;
    const int column = edge < head ? edge : 4 * vectors + edge;
    const float b = __ldg(bias + column);
    for (int64 at = (base + row) * l.cols + column; row < rows; row += stride, at += step) {
      y[at] = v03_gelu(x[at] + b);
    }
  }
}

}  // namespace mage::gelu_tanh

#if MAGE_HOST
#include "kernels/gelu_tanh/gelu_tanh.hpp"

namespace mage::gelu_tanh {
namespace {

constexpr int64 ceil_div(int64 a, int64 b) { return (a + b - 1) / b; }

template <V03Rows kind>
Launch launch(const Args& a, const V03Layout& l, const dim3& grid, const dim3& block) {
  return [=](StreamHandle stream) {
    gelu_tanh_v03_rows<kind><<<grid, block, 0, cuda_stream(stream)>>>(a.x, a.bias, a.y, l);
  };
}

Launch prepare(const Problem& p, const Args& a) {
  const auto misaligned = [](const float* pointer) {
    return static_cast<int>(reinterpret_cast<uint64>(pointer) / sizeof(float) % 4);
  };
  const int log2_period = p.cols % 4 == 0 ? 0 : p.cols % 2 == 0 ? 1 : 2;
  const int64 period = int64{1} << log2_period;
  V03Layout l{.rows = p.rows, .cols = p.cols, .span = 0, .log2_period = log2_period, .phase = misaligned(a.y)};
  int64 slots = 0;  // threads for the row that needs most of them: one a vector, one an odd element
  for (int row = 0; row < period; ++row) {
    const int64 vectors = (p.cols - v03_head(row, static_cast<int>(p.cols), l.phase)) / 4;
    const int64 odd = p.cols - 4 * vectors;
    if (vectors + odd > slots) slots = vectors + odd;
  }

  int64 block_x = v03_threads, block_y = 1, grid_x = 1, grid_y = 1;
  while (block_x / 2 >= slots) block_x /= 2;
  // The widest block that leaves at most an eighth of its threads without a column, but a warp's width at least.
  while (block_x > 32 && ceil_div(slots, block_x) * block_x * 8 > slots * 9) block_x /= 2;
  block_y = v03_threads / block_x;
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
  const bool aligned = log2_period == 0 && l.phase == 0 && misaligned(a.x) == 0 && misaligned(a.bias) == 0;
  if (aligned) return launch<V03Rows::aligned>(a, l, grid, block);
  if (misaligned(a.x) == misaligned(a.y)) return launch<V03Rows::shifted>(a, l, grid, block);
  return launch<V03Rows::apart>(a, l, grid, block);
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
