// SPDX-License-Identifier: Apache-2.0
// The columns of a row that a thread owns, for rows that start at multiples of 16 bytes and for rows that need not.
#pragma once

#include "mage_bench/device_code.cuh"

namespace mage::layernorm_backward {

/// vectors: rows and vectors of 4 columns start at multiples of 16 bytes, and a thread owns such vectors. singles: it
/// owns single columns.
enum class Columns { vectors, singles };

#ifdef __CUDACC__

template <Columns kind, int count>
struct OwnColumns {
  int thread, threads;  // of the group
  [[nodiscard]] __device__ int column(int k) const {
    return kind == Columns::vectors ? 4 * (thread + k / 4 * threads) + k % 4 : thread + k * threads;
  }
  /// The thread's columns of a row, 0 behind the last.
  __device__ void load(const float* row, int cols, float (&to)[count]) const {
#pragma unroll
    for (int k = 0; k < count; k += kind == Columns::vectors ? 4 : 1) {
      const int c = column(k);
      if constexpr (kind == Columns::vectors) {
        const float4 v = c < cols ? *reinterpret_cast<const float4*>(row + c) : float4{};
        to[k] = v.x;
        to[k + 1] = v.y;
        to[k + 2] = v.z;
        to[k + 3] = v.w;
      } else {
        to[k] = c < cols ? row[c] : 0.0F;
      }
    }
  }
  /// streaming: to global memory, and not soon read again.
  template <bool streaming>
  __device__ void store(float* row, int cols, const float (&from)[count]) const {
#pragma unroll
    for (int k = 0; k < count; k += kind == Columns::vectors ? 4 : 1) {
      const int c = column(k);
      if (c >= cols) continue;
      if constexpr (kind == Columns::vectors) {
        const float4 v = make_float4(from[k], from[k + 1], from[k + 2], from[k + 3]);
        auto* to = reinterpret_cast<float4*>(row + c);
        streaming ? __stcs(to, v) : static_cast<void>(*to = v);
      } else {
        streaming ? __stcs(row + c, from[k]) : static_cast<void>(row[c] = from[k]);
      }
    }
  }
};

/// Elements by which a pointer is behind a multiple of 16 bytes.
__device__ inline int lead(const float* pointer) {
  return static_cast<int>(reinterpret_cast<uint64>(pointer) / sizeof(float) % 4);
}

/// Room for a row and what is copied around it.
__host__ __device__ constexpr int row_slot(Columns kind, int cols) {
  return kind == Columns::vectors ? cols : (cols + 6) / 4 * 4;
}

#endif  // __CUDACC__

}  // namespace mage::layernorm_backward

#if MAGE_HOST
#include "kernels/layernorm_backward/layernorm_backward.hpp"

namespace mage::layernorm_backward {

/// Static: no two variants share a function.
[[maybe_unused]] static bool rows_of_vectors(const Problem& p, const Args& a) {
  const auto addresses =
      reinterpret_cast<uint64>(a.x) | reinterpret_cast<uint64>(a.dy) | reinterpret_cast<uint64>(a.dx);
  return p.cols % 4 == 0 && addresses % 16 == 0;
}

}  // namespace mage::layernorm_backward
#endif
