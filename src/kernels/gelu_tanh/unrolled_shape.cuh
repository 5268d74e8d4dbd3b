// SPDX-License-Identifier: Apache-2.0
// The grid and block of a kernel whose threads own four columns and walk down the rows: what v01_unrolled brought, for
// it and the variants that have its loop. Host only.
#pragma once

#include "mage_bench/device_code.cuh"

#if MAGE_HOST
#include "kernels/gelu_tanh/gelu_tanh.hpp"

namespace mage::gelu_tanh {
namespace {  // no two variant files define one symbol

struct Shape {
  int64 block_x, block_y = 1, grid_x = 1, grid_y = 1, rows_per_block = 1;

  [[nodiscard]] dim3 grid() const { return {static_cast<unsigned>(grid_x), static_cast<unsigned>(grid_y)}; }
  [[nodiscard]] dim3 block() const { return {static_cast<unsigned>(block_x), static_cast<unsigned>(block_y)}; }
};

inline Shape shape(const Problem& p, int threads, int rows_in_flight) {
  const int64 row_vectors = p.cols / 4;
  Shape s{.block_x = threads};
  // The widest block that leaves at most an eighth of its threads without a column.
  while (s.block_x > 1 && ceil_div(row_vectors, s.block_x) * s.block_x * 8 > row_vectors * 9) s.block_x /= 2;
  s.block_y = threads / s.block_x;
  const auto cover = [&] {
    s.rows_per_block = rows_in_flight * s.block_y;
    s.rows_per_block *= ceil_div(ceil_div(p.rows, s.rows_per_block), 65535);  // gridDim.y ends there
    s.grid_x = ceil_div(row_vectors, s.block_x);
    s.grid_y = ceil_div(p.rows, s.rows_per_block);
  };
  cover();
  // Few rows: smaller blocks reach more of an H200's 132 SMs.
  while (s.block_x * s.block_y > 64 && s.grid_x * s.grid_y < 2 * 132) {
    (s.block_y > 1 ? s.block_y : s.block_x) /= 2;
    cover();
  }
  return s;
}

}  // namespace
}  // namespace mage::gelu_tanh
#endif
