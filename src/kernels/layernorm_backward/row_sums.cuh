// SPDX-License-Identifier: Apache-2.0
// What variants of this family share: the arithmetic of an element, the two sums of a row within a warp, and the
// ordered sum of the columns' partial sums. Light: the device half compiles under NVRTC.
#pragma once

#include "mage_bench/device_code.cuh"

namespace mage::layernorm_backward {

/// A kernel's operands and sizes; partials is scratch of [blocks][2][padded]: dgamma, then dbeta.
struct RowPass {
  const float *x, *dy, *mean, *rstd, *gamma;
  float *dx, *partials;
  int64 rows;
  int cols;
};

/// Columns with room for whole float4s.
__host__ __device__ constexpr int padded(int cols) { return (cols + 3) / 4 * 4; }

#ifdef __CUDACC__

/// Sums over some columns of w and w xhat, w = gamma dy.
struct Sums {
  float w = 0, w_xhat = 0;
};

/// What an element leaves for the second pass over its row; adds it to the sums of its row and of its column.
struct Element {
  float xhat, w;
  __device__ Element(float x, float dy, float gamma, float mean, float rstd, Sums& row, float& dgamma, float& dbeta)
      : xhat{(x - mean) * rstd}, w{gamma * dy} {
    row.w += w;
    row.w_xhat = fmaf(w, xhat, row.w_xhat);
    dgamma = fmaf(dy, xhat, dgamma);
    dbeta += dy;
  }
  Element() = default;
  [[nodiscard]] __device__ float gradient(float c1, float c2, float rstd) const {
    return rstd * fmaf(-xhat, c2, w - c1);
  }
};

/// The sums over a warp, or over each aligned group of `lanes`, the same bits in every lane.
template <int lanes = 32>
__device__ inline Sums warp_sum(Sums v) {
#pragma unroll
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    v.w += __shfl_xor_sync(0xffffffffU, v.w, distance);
    v.w_xhat += __shfl_xor_sync(0xffffffffU, v.w_xhat, distance);
  }
  return v;
}

__device__ inline void add(float4& sum, const float4& v) {
  sum.x += v.x;
  sum.y += v.y;
  sum.z += v.z;
  sum.w += v.w;
}

constexpr int partial_threads = 256;

/// dgamma and dbeta from the partials of `count` blocks. A thread adds every blockDim.y-th block's in order, a tree
/// the threads' sums: the order is fixed, and so are the bits. Blocks of partial_threads, a float4 of columns a
/// thread.x.
__device__ inline void add_partials(const float* partials, int count, int cols, float* dgamma, float* dbeta) {
  __shared__ float4 sums[partial_threads];
  const int width = padded(cols) / 4;
  const int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  float4 sum{};
  if (column < 2 * width) {
    const auto* from = reinterpret_cast<const float4*>(partials) + column;
    const int height = static_cast<int>(blockDim.y);
    constexpr int in_flight = 8;
    for (int k = static_cast<int>(threadIdx.y); k < count; k += in_flight * height) {
      float4 v[in_flight];
#pragma unroll
      for (int i = 0; i < in_flight; ++i)
        v[i] = k + i * height < count ? __ldcg(from + (k + i * height) * 2LL * width) : float4{};
#pragma unroll
      for (int i = 0; i < in_flight; ++i) add(sum, v[i]);
    }
  }
  const int slot = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
  sums[slot] = sum;
  for (int half = static_cast<int>(blockDim.y) / 2; half > 0; half /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.y) < half) {
      add(sum, sums[slot + half * static_cast<int>(blockDim.x)]);
      sums[slot] = sum;
    }
  }
  if (threadIdx.y != 0 || column >= 2 * width) return;
  float* to = column < width ? dgamma + 4 * column : dbeta + 4 * (column - width);
  const int left = cols - 4 * (column < width ? column : column - width);
  if (left >= 4) {
    *reinterpret_cast<float4*>(to) = sum;  // vectors of a problem are aligned
  } else {
    to[0] = sum.x;
    if (left > 1) to[1] = sum.y;
    if (left > 2) to[2] = sum.z;
  }
}

#endif  // __CUDACC__

}  // namespace mage::layernorm_backward

#if MAGE_HOST
namespace mage::layernorm_backward {

constexpr int64 sms = 132;  // of an H200

/// The grid and block of a kernel that calls add_partials: narrow blocks where there are few columns.
struct PartialShape {
  dim3 grid, block;
};
constexpr PartialShape partial_shape(int64 cols) {
  const int64 vectors = 2 * ceil_div(cols, 4);
  int64 width = 32;  // float4s: 512 bytes; at least 64
  while (width > 4 && ceil_div(vectors, width) < 128) width /= 2;
  return {.grid = {static_cast<unsigned>(ceil_div(vectors, width)), 1, 1},
          .block = {static_cast<unsigned>(width), static_cast<unsigned>(256 / width), 1}};
}

}  // namespace mage::layernorm_backward
#endif
