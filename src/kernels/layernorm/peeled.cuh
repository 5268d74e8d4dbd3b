// SPDX-License-Identifier: Apache-2.0
// Four neighbouring elements of a row that may start anywhere: element `first` of the row is at a multiple of 16 bytes,
// and first may be negative or less than four from the end, where the row begins or ends inside the vector.
// Aligned: no vector of any row does that, and gamma and beta are cut like x.
#pragma once

#include "kernels/layernorm/reductions.cuh"

namespace mage::layernorm {

__device__ inline bool inside(int c, int cols) { return static_cast<uint32>(c) < static_cast<uint32>(cols); }

template <bool Aligned>
__device__ inline bool whole(int first, int cols) {
  return Aligned ? first < cols : first >= 0 && first + 4 <= cols;
}

__device__ inline float4 load_elements(const float* row, int first, int cols) {
  return make_float4(
      inside(first, cols) ? load_now(row + first) : 0, inside(first + 1, cols) ? load_now(row + first + 1) : 0,
      inside(first + 2, cols) ? load_now(row + first + 2) : 0, inside(first + 3, cols) ? load_now(row + first + 3) : 0);
}

/// Zeros outside of the row.
template <bool Aligned>
__device__ inline float4 load_peeled(const float* row, int first, int cols) {
  if (whole<Aligned>(first, cols)) return load_now(reinterpret_cast<const float4*>(row + first));
  if constexpr (Aligned) return float4{};
  return load_elements(row, first, cols);
}

/// Of gamma or beta, whose own vectors are aligned: element by element where x is cut otherwise.
template <bool Aligned>
__device__ inline float4 load_affine(const float* vector, int first, int cols) {
  if constexpr (Aligned) return load_peeled<true>(vector, first, cols);
  return load_elements(vector, first, cols);
}

/// As centre(); what is outside of the row stays 0 and adds nothing.
template <bool Aligned>
__device__ inline float centre_peeled(float4& v, float mean, int first, int cols) {
  if (whole<Aligned>(first, cols)) return centre(v, mean);
  if constexpr (!Aligned) {
    const float4 m = make_float4(inside(first, cols) ? mean : 0, inside(first + 1, cols) ? mean : 0,
                                 inside(first + 2, cols) ? mean : 0, inside(first + 3, cols) ? mean : 0);
    v = make_float4(v.x - m.x, v.y - m.y, v.z - m.z, v.w - m.w);
    return fmaf(v.x, v.x, v.y * v.y) + fmaf(v.z, v.z, v.w * v.w);
  }
  return 0;
}

template <bool Aligned>
__device__ inline void store_peeled(float* row, int first, int cols, const float4& v) {
  if (whole<Aligned>(first, cols)) {
    // Not by an assignment: the compiler merges its parts with the stores below, and none of 16 bytes is left.
    asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(row + first), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)
                 : "memory");
  } else if constexpr (!Aligned) {
    if (inside(first, cols)) row[first] = v.x;
    if (inside(first + 1, cols)) row[first + 1] = v.y;
    if (inside(first + 2, cols)) row[first + 2] = v.z;
    if (inside(first + 3, cols)) row[first + 3] = v.w;
  }
}

}  // namespace mage::layernorm
