// SPDX-License-Identifier: Apache-2.0
// v10_plain: v07_pdl without its cache hints. Parent v07_pdl: from a clean cold L2 evict-first lines cost 2 % far
// beyond L2, and what overlapping calls save does not need them. Expected at 8192x16384: 254 us cold instead of 259,
// and 253 in a graph as before; at 4096x4096 33.6 cold instead of 34.6; smaller problems the same.
// What cost turned out to be the hint of the loads: by graph beyond 64x1024, cold from 4096x4096 on
// (docs/journal/0007).
#include "kernels/gelu/alike_rows.cuh"
#include "kernels/gelu/exp2_gelu.cuh"
#include "mage_bench/device_code.cuh"

namespace mage::gelu {

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

template <Rows kind, int in_flight>
__global__ void __launch_bounds__(alike_threads)
    gelu_v10_plain(const float* __restrict__ x, const float* __restrict__ bias, float* __restrict__ y, Layout l) {
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

#if __CUDA_ARCH__ >= 900  // a build for older devices compiles this file too; min_cc keeps it from running there
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  if (index < vectors) {
    const int column = head + 4 * index;
    float4 b;
    if constexpr (kind == Rows::aligned) {
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
          if constexpr (kind == Rows::apart) {
            v[k] = make_float4(v10_load(from), v10_load(from + 1), v10_load(from + 2), v10_load(from + 3));
          } else {
            v[k] = v10_load(reinterpret_cast<const float4*>(from));
          }
        }
      }
#pragma unroll
      for (int k = 0; k < in_flight; ++k) {
        if (row + k * stride < rows) {
          *reinterpret_cast<float4*>(y + at + k * step) = make_float4(exp2_gelu(v[k].x + b.x), exp2_gelu(v[k].y + b.y),
                                                                      exp2_gelu(v[k].z + b.z), exp2_gelu(v[k].w + b.w));
        }
      }
      at += in_flight * step;
    }
  } else if (kind != Rows::aligned && index - vectors < cols - 4 * vectors) {
    // The elements before a row's first vector and behind its last, one a thread.
    const int edge = index - vectors;
    const int column = edge < head ? edge : 4 * vectors + edge;
    const float b = v10_load(bias + column);
    for (int64 at = (base + row) * l.cols + column; row < rows; row += stride, at += step) {
      y[at] = exp2_gelu(v10_load(x + at) + b);
    }
  }
}

}  // namespace mage::gelu

#if MAGE_HOST
#include "kernels/gelu/gelu.hpp"

namespace mage::gelu {
namespace {

template <Rows kind, int in_flight>
Launch launch(const Args& a, const SizedRows& s) {
  return [=](StreamHandle stream) {
    launch_kernel(gelu_v10_plain<kind, in_flight>, {.grid = s.grid, .block = s.block, .dependent = true}, stream, a.x,
                  a.bias, a.y, s.layout);
  };
}

template <Rows kind>
Launch launch(const Args& a, const SizedRows& s) {
  if (s.in_flight == 1) return launch<kind, 1>(a, s);
  if (s.in_flight == 2) return launch<kind, 2>(a, s);
  return launch<kind, 4>(a, s);
}

Launch prepare(const Problem& p, const Args& a) {
  const SizedRows s = sized_rows(p, a);
  if (s.kind == Rows::aligned) return launch<Rows::aligned>(a, s);
  if (s.kind == Rows::shifted) return launch<Rows::shifted>(a, s);
  return launch<Rows::apart>(a, s);
}

[[maybe_unused]] const Register<Gelu> registered{{
    .parent = "v07_pdl",
    .note = "no cache hints: overlapping calls without what hints cost",
    .min_cc = 90,
    .accepts = [](const Problem& p) { return p.cols <= 0x7fffffff; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::gelu
#endif
