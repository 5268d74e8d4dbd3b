// SPDX-License-Identifier: Apache-2.0
// How a matrix is cut into strips of columns and slabs of rows, a block each. A unit is what a thread owns of a row:
// four columns or one. Host only.
#pragma once

#include "kernels/gelu_backward/gelu_backward.hpp"
#include "kernels/gelu_backward/slab_sums.cuh"

namespace mage::gelu_backward {
namespace {  // no two variant files define one symbol

struct Shape {
  int row_units = 0, strips = 0, slabs = 0, block_x = 0, block_y = 0;
  int64 rows_per_slab = 0;

  [[nodiscard]] dim3 grid() const { return {static_cast<unsigned>(strips), static_cast<unsigned>(slabs)}; }
  [[nodiscard]] dim3 block() const { return {static_cast<unsigned>(block_x), static_cast<unsigned>(block_y)}; }
  /// Partial sums, a unit each.
  [[nodiscard]] std::size_t partials() const {
    return static_cast<std::size_t>(slabs) * static_cast<std::size_t>(row_units);
  }
  [[nodiscard]] std::size_t counter_bytes() const { return sizeof(unsigned) * static_cast<std::size_t>(strips); }
  /// Of a kernel that sums the slabs' partial sums: 8 units of columns a block, 32 lanes of slabs.
  [[nodiscard]] dim3 sum_grid() const { return {static_cast<unsigned>(ceil_div(row_units, 8))}; }
};

const dim3 sum_block{8, 32};

/// Slabs of two batches of rows in flight or more: as many as give no more than eight waves of four blocks an SM on an
/// H200's 132 SMs, so that partial sums are a small part of the traffic and no SM waits long for the last block.
inline Shape shape(int64 rows, int64 row_units, int rows_in_flight, int widest) {
  constexpr int64 blocks_at_most = 8 * 4 * 132;
  Shape s{.row_units = static_cast<int>(row_units), .block_x = widest};
  // The widest block that leaves at most an eighth of its threads without a column.
  while (s.block_x > 1 && ceil_div(row_units, s.block_x) * s.block_x * 8 > row_units * 9) s.block_x /= 2;
  s.block_y = slab_threads / s.block_x;
  s.strips = static_cast<int>(ceil_div(row_units, s.block_x));
  s.rows_per_slab = int64{2} * rows_in_flight * s.block_y;
  while (s.rows_per_slab < rows && s.strips * ceil_div(rows, s.rows_per_slab) > blocks_at_most) s.rows_per_slab *= 2;
  s.slabs = static_cast<int>(ceil_div(rows, s.rows_per_slab));
  return s;
}

/// The shape of the variants whose threads own four columns and have four rows in flight.
inline Shape float4_shape(const Problem& p) { return shape(p.rows, p.cols / 4, 4, 64); }

/// Of v08_sized and variants behind it. Up to 128 rows: one slab, many lanes of rows over 128 bytes of columns, and no
/// sum of slabs. Beyond: slabs of two batches of rows in flight, or of one where that leaves SMs without a block.
inline Shape sized_shape(int64 rows, int64 row_units, int in_flight, int widest, int narrowest) {
  constexpr int64 sms = 132, rows_of_one_slab = 128;
  if (rows > rows_of_one_slab) {
    Shape s = shape(rows, row_units, in_flight, widest);
    if (s.strips * int64{s.slabs} < sms) {
      s.rows_per_slab /= 2;
      s.slabs = static_cast<int>(ceil_div(rows, s.rows_per_slab));
    }
    return s;
  }
  Shape s{.row_units = static_cast<int>(row_units), .slabs = 1, .block_y = 1, .rows_per_slab = rows};
  while (s.block_y < rows && s.block_y < slab_threads / narrowest) s.block_y *= 2;
  s.block_x = slab_threads / s.block_y;
  while (s.block_x / 2 >= row_units) s.block_x /= 2;
  s.strips = static_cast<int>(ceil_div(row_units, s.block_x));
  return s;
}

/// Counters that wrap to 0, one a strip. The first launch finds them at 0, and every launch leaves them there.
inline void zero_counters(unsigned* counters, const Shape& s) {
  check(cudaMemset(counters, 0, s.counter_bytes()), "cudaMemset of counters");
  check(cudaDeviceSynchronize(), "cudaMemset of counters");  // streams that do not wait for the default one
}

}  // namespace
}  // namespace mage::gelu_backward
