// SPDX-License-Identifier: Apache-2.0
// Rows that are aligned alike (every row, every second or every fourth, by cols mod 4) share their blocks, for any
// column count and misalignment: what a kernel is told, and the grid, the block and the rows in flight that
// v04_pdl chooses by the size of the problem, for it and all behind it.
#pragma once

#include "mage_bench/device_code.cuh"

namespace mage::gelu_tanh {

constexpr int alike_threads = 256;  // of a block, at most

/// aligned: every row starts at a multiple of 16 bytes, and so does the bias. shifted: rows start anywhere, but x and y
/// alike. apart: x and y start differently, so x is read by elements.
enum class Rows { aligned, shifted, apart };

struct Layout {
  int64 rows, cols;
  int span;         // rows of `period` neighbouring blocks
  int log2_period;  // rows r and r + period start with the same alignment; the period is 1, 2 or 4
  int phase;        // elements by which row 0 of y starts behind a multiple of 16 bytes
};

/// Elements before the first vector of row `row`.
__host__ __device__ inline int row_head(int row, int cols, int phase) {
  const int head = (4 - (phase + row * (cols & 3))) & 3;
  return head < cols ? head : cols;
}

}  // namespace mage::gelu_tanh

#if MAGE_HOST
#include "kernels/gelu_tanh/gelu_tanh.hpp"

namespace mage::gelu_tanh {
namespace {  // no two variant files define one symbol

struct AlikeRows {
  Rows kind;
  Layout layout;  // its span is the variant's to choose
  int64 slots;    // threads for the row that needs most of them: one a vector, one an odd element

  [[nodiscard]] int64 period() const { return int64{1} << layout.log2_period; }
};

inline AlikeRows alike_rows(const Problem& p, const Args& a) {
  const auto misaligned = [](const float* pointer) {
    return static_cast<int>(reinterpret_cast<uint64>(pointer) / sizeof(float) % 4);
  };
  const int log2_period = p.cols % 4 == 0 ? 0 : p.cols % 2 == 0 ? 1 : 2, phase = misaligned(a.y);
  const bool aligned = log2_period == 0 && phase == 0 && misaligned(a.x) == 0 && misaligned(a.bias) == 0;
  AlikeRows s{.kind = aligned                    ? Rows::aligned
                      : misaligned(a.x) == phase ? Rows::shifted
                                                 : Rows::apart,
              .layout = {.rows = p.rows, .cols = p.cols, .span = 0, .log2_period = log2_period, .phase = phase},
              .slots = 0};
  for (int row = 0; row < s.period(); ++row) {
    const int64 vectors = (p.cols - row_head(row, static_cast<int>(p.cols), phase)) / 4;
    const int64 odd = p.cols - 4 * vectors;
    if (vectors + odd > s.slots) s.slots = vectors + odd;
  }
  return s;
}

struct SizedRows {
  Rows kind;
  Layout layout;
  int in_flight;  // rows a thread: 1, 2 or 4
  dim3 grid, block;
};

inline SizedRows sized_rows(const Problem& p, const Args& a) {
  constexpr int64 sms = 132;          // of an H200: what the sizes below aim at
  constexpr int64 wave = sms * 2048;  // threads that are resident at once, at best
  const AlikeRows alike = alike_rows(p, a);
  const int64 period = alike.period(), slots = alike.slots;
  Layout l = alike.layout;

  // Everything in one wave of one row a thread; else more loads in flight while several waves remain.
  const int64 work = p.rows * slots;
  const int in_flight = work <= wave ? 1 : work < 8 * wave ? 2 : 4;

  int64 block_x = alike_threads, block_y = 1, grid_x = 1, grid_y = 1;
  while (block_x / 2 >= slots) block_x /= 2;
  // The widest block that leaves at most an eighth of its threads without a column, but a warp's width at least.
  while (block_x > 32 && ceil_div(slots, block_x) * block_x * 8 > slots * 9) block_x /= 2;
  block_y = alike_threads / block_x;
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
  return {.kind = alike.kind,
          .layout = l,
          .in_flight = in_flight,
          .grid = {static_cast<unsigned>(grid_x), static_cast<unsigned>(grid_y)},
          .block = {static_cast<unsigned>(block_x), static_cast<unsigned>(block_y)}};
}

}  // namespace
}  // namespace mage::gelu_tanh
#endif
