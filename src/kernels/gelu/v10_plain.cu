// SPDX-License-Identifier: Apache-2.0
// v10_plain: v07_pdl without its cache hints. Parent v07_pdl: from a clean cold L2 evict-first lines cost 2 % far
// beyond L2, and what overlapping calls save does not need them. Expected at 8192x16384: 254 us cold instead of 259,
// and 253 in a graph as before; at 4096x4096 33.6 cold instead of 34.6; smaller problems the same.
#include "kernels/gelu/exp2_form.hpp"
#include "mage_bench/device_code.cuh"

namespace mage::gelu {

constexpr int v10_threads = 256;

/// aligned: every row starts at a multiple of 16 bytes, and so does the bias. shifted: rows start anywhere, but x and y
/// alike. apart: x and y start differently, so x is read by elements.
enum class V10Rows { aligned, shifted, apart };

struct V10Layout {
  int64 rows, cols;
  int span;         // rows of `period` neighbouring blocks
  int log2_period;  // rows r and r + period start with the same alignment; the period is 1, 2 or 4
  int phase;        // elements by which row 0 of y starts behind a multiple of 16 bytes
};

/// Elements before the first vector of row `row`.
__host__ __device__ inline int v10_head(int row, int cols, int phase) {
  const int head = (4 - (phase + row * (cols & 3))) & 3;
  return head < cols ? head : cols;
}

__device__ inline float v10_gelu(float t) {
  const float h = 0.5f * t;
  const float a = fminf(fabsf(h), exp2_end);
  float e = exp2_q5;
  e = fmaf(e, a, exp2_q4);
  e = fmaf(e, a, exp2_q3);
  e = fmaf(e, a, exp2_q2);
  e = fmaf(e, a, exp2_q1);
  e = fmaf(e, a, exp2_q0) * a;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(e));
  return fmaf(-a, e, h + fabsf(h));  // h + |h| is 2 max(h, 0), but NaN for -Inf
}

// The loads are volatile and not .nc, so that no compiler moves one above the wait for the call before.
__device__ inline float4 v10_load(const float4* address) {
  float4 v;
  asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(address)
               : "memory");
  return v;
}
__device__ inline float v10_load(const float* address) {
  float v;
  asm volatile("ld.global.f32 %0, [%1];" : "=f"(v) : "l"(address) : "memory");
  return v;
}

template <V10Rows kind, int in_flight>
__global__ void __launch_bounds__(v10_threads)
    gelu_v10_plain(const float* __restrict__ x, const float* __restrict__ bias, float* __restrict__ y, V10Layout l) {
  const int alike = static_cast<int>(blockIdx.y) & ((1 << l.log2_period) - 1);
  const int64 base = static_cast<int64>(blockIdx.y >> l.log2_period) * l.span;
  const int rows = static_cast<int>(min(l.rows - base, static_cast<int64>(l.span)));
  const int stride = static_cast<int>(blockDim.y) << l.log2_period;
  const int64 step = stride * l.cols;
  int row = alike + (static_cast<int>(threadIdx.y) << l.log2_period);

  const int cols = static_cast<int>(l.cols);
  const int head = kind == V10Rows::aligned ? 0 : v10_head(alike, cols, l.phase);
  const int vectors = (cols - head) / 4;
  const int index = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);

#if __CUDA_ARCH__ >= 900  // a build for older devices compiles this file too; min_cc keeps it from running there
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  if (index < vectors) {
    const int column = head + 4 * index;
    float4 b;
    if constexpr (kind == V10Rows::aligned) {
      b = v10_load(reinterpret_cast<const float4*>(bias + column));
    } else {
      b = make_float4(v10_load(bias + column), v10_load(bias + column + 1), v10_load(bias + column + 2),
                      v10_load(bias + column + 3));
    }
    for (int64 at = (base + row) * l.cols + column; row < rows; row += in_flight * stride) {
      float4 v[in_flight];
#pragma unroll
      for (int k = 0; k < in_flight; ++k) {
        if (row + k * stride < rows) {
          const float* from = x + at + k * step;
          if constexpr (kind == V10Rows::apart) {
            v[k] = make_float4(v10_load(from), v10_load(from + 1), v10_load(from + 2), v10_load(from + 3));
          } else {
            v[k] = v10_load(reinterpret_cast<const float4*>(from));
          }
        }
      }
#pragma unroll
      for (int k = 0; k < in_flight; ++k) {
        if (row + k * stride < rows) {
          *reinterpret_cast<float4*>(y + at + k * step) = make_float4(v10_gelu(v[k].x + b.x), v10_gelu(v[k].y + b.y),
                                                                      v10_gelu(v[k].z + b.z), v10_gelu(v[k].w + b.w));
        }
      }
      at += in_flight * step;
    }
  } else if (kind != V10Rows::aligned && index - vectors < cols - 4 * vectors) {
    // The elements before a row's first vector and behind its last, one a thread.
    const int edge = index - vectors;
    const int column = edge < head ? edge : 4 * vectors + edge;
    const float b = v10_load(bias + column);
    for (int64 at = (base + row) * l.cols + column; row < rows; row += stride, at += step) {
      y[at] = v10_gelu(v10_load(x + at) + b);
    }
  }
}

}  // namespace mage::gelu

#if MAGE_HOST
#include "kernels/gelu/gelu.hpp"

namespace mage::gelu {
namespace {

constexpr int64 ceil_div(int64 a, int64 b) { return (a + b - 1) / b; }

constexpr int64 sms = 132;          // of an H200: what the sizes below aim at
constexpr int64 wave = sms * 2048;  // threads that are resident at once, at best

template <V10Rows kind, int in_flight>
Launch launch(const Args& a, const V10Layout& l, const dim3& grid, const dim3& block) {
  return [=](StreamHandle stream) {
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = grid;
    config.blockDim = block;
    config.stream = cuda_stream(stream);
    config.attrs = &attribute;
    config.numAttrs = 1;
    check(cudaLaunchKernelEx(&config, gelu_v10_plain<kind, in_flight>, a.x, a.bias, a.y, l), "cudaLaunchKernelEx");
  };
}

template <V10Rows kind>
Launch launch(int64 in_flight, const Args& a, const V10Layout& l, const dim3& grid, const dim3& block) {
  if (in_flight == 1) return launch<kind, 1>(a, l, grid, block);
  if (in_flight == 2) return launch<kind, 2>(a, l, grid, block);
  return launch<kind, 4>(a, l, grid, block);
}

Launch prepare(const Problem& p, const Args& a) {
  const auto misaligned = [](const float* pointer) {
    return static_cast<int>(reinterpret_cast<uint64>(pointer) / sizeof(float) % 4);
  };
  const int log2_period = p.cols % 4 == 0 ? 0 : p.cols % 2 == 0 ? 1 : 2;
  const int64 period = int64{1} << log2_period;
  V10Layout l{.rows = p.rows, .cols = p.cols, .span = 0, .log2_period = log2_period, .phase = misaligned(a.y)};
  int64 slots = 0;  // threads for the row that needs most of them: one a vector, one an odd element
  for (int row = 0; row < period; ++row) {
    const int64 vectors = (p.cols - v10_head(row, static_cast<int>(p.cols), l.phase)) / 4;
    const int64 odd = p.cols - 4 * vectors;
    if (vectors + odd > slots) slots = vectors + odd;
  }

  // Everything in one wave of one row a thread; else more loads in flight while several waves remain.
  const int64 work = p.rows * slots;
  const int64 in_flight = work <= wave ? 1 : work < 8 * wave ? 2 : 4;

  int64 block_x = v10_threads, block_y = 1, grid_x = 1, grid_y = 1;
  while (block_x / 2 >= slots) block_x /= 2;
  // The widest block that leaves at most an eighth of its threads without a column, but a warp's width at least.
  while (block_x > 32 && ceil_div(slots, block_x) * block_x * 8 > slots * 9) block_x /= 2;
  block_y = v10_threads / block_x;
  const auto cover = [&] {
    const int64 span = period * in_flight * block_y;
    const int64 steps = ceil_div(ceil_div(p.rows, span), 65535 / period);  // gridDim.y ends at 65535
    l.span = static_cast<int>(span * steps);
    grid_x = ceil_div(slots, block_x);
    grid_y = ceil_div(p.rows, l.span) * period;
  };
  cover();
  // Smaller blocks until they reach three quarters of the SMs.
  while (block_x * block_y > 64 && 4 * grid_x * grid_y < 3 * sms) {
    (block_y > 1 ? block_y : block_x) /= 2;
    cover();
  }

  const dim3 grid{static_cast<unsigned>(grid_x), static_cast<unsigned>(grid_y)};
  const dim3 block{static_cast<unsigned>(block_x), static_cast<unsigned>(block_y)};
  const bool aligned = log2_period == 0 && l.phase == 0 && misaligned(a.x) == 0 && misaligned(a.bias) == 0;
  if (aligned) return launch<V10Rows::aligned>(in_flight, a, l, grid, block);
  if (misaligned(a.x) == misaligned(a.y)) return launch<V10Rows::shifted>(in_flight, a, l, grid, block);
  return launch<V10Rows::apart>(in_flight, a, l, grid, block);
}

[[maybe_unused]] const Register<Gelu> registered{{
    .parent = "v07_pdl",
    .note = "no cache hints: overlapping calls without the cost of evict-first lines in a cold L2",
    .min_cc = 90,
    .accepts = [](const Problem& p) { return p.cols <= 0x7fffffff; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::gelu
#endif
