// SPDX-License-Identifier: Apache-2.0
// What FP32 may err in a sum, once for all families. The evidence is in docs/decisions.md.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "mage_bench/contract.hpp"

namespace mage {

inline constexpr double unit_roundoff = 0x1p-24;
inline constexpr double half_subnormal_quantum = 0x1p-150;

/// What n roundings may do to a product or a sum at worst.
[[nodiscard]] constexpr double gamma_n(double n) { return n * unit_roundoff / (1 - n * unit_roundoff); }

/// The terms of a sum, as its bound sees them.
struct Terms {
  double sum = 0, magnitudes = 0, squares = 0;

  void add(double term) {
    sum += term;
    magnitudes += std::fabs(term);
    squares += term * term;
  }
  void add(const Terms& other) {
    sum += other.sum;
    magnitudes += other.magnitudes;
    squares += other.squares;
  }
};

/// What a bound allows to the roundings of partial sums that wander about zero, in units of u sqrt(count squares): of
/// one sum, and of the root mean square of many.
inline constexpr double swing_of_one = 8, swing_of_many = 1;

/// An addition errs by u times the partial sum it gives. What terms have in common, which is what their sum has beyond
/// two standard deviations of a random walk, makes partial sums grow, and their roundings may all have one sign: that
/// costs gamma_depth at worst. Of terms in random order, as every distribution makes them, what is left of partial sums
/// wanders, and so do its roundings, whatever the depth. Terms with a trend, which cancel only at the end, may exceed
/// this in a right sum of some ten thousand. Never more than gamma_depth of the magnitudes.
[[nodiscard]] inline double sum_error(const Terms& terms, double count, double depth, double swing = swing_of_one) {
  const double drift = std::max(0.0, std::fabs(terms.sum) - 2 * std::sqrt(terms.squares));
  const double wandering = swing * unit_roundoff * std::sqrt(count * terms.squares);
  return std::min(gamma_n(depth) * terms.magnitudes, gamma_n(depth) * drift + wandering);
}

/// Of the 2-norm of the errors of many sums, from what is typical of each. Few of them may all be untypical.
[[nodiscard]] inline double norm_bound(const std::vector<double>& typical) {
  double squares = 0;
  for (const double error : typical) squares += error * error;
  return std::sqrt(squares) * (1 + 3 / std::sqrt(static_cast<double>(typical.size())));
}

/// Additions on the longest way of an element into its row's sum: its thread's share, which is a warp's up to 4096
/// columns and that of 256 threads where it is more than 4096 columns give a warp, and then `merges`.
[[nodiscard]] constexpr int64 row_depth(int64 cols, int64 merges) {
  const int64 of_warp = (cols + 31) / 32, of_block = (cols + 255) / 256;
  return std::min(cols - 1, std::min(of_warp, std::max<int64>(4096 / 32, of_block)) + merges);
}

/// Of an element into its column's sum: lanes of rows and slabs of rows, up to 256 of each one after another, and a
/// share of the rows. First versions add row by row, which is deeper, and are inside by the random signs of dy alone.
[[nodiscard]] constexpr int64 column_depth(int64 rows) { return std::min(rows - 1, 512 + rows / 256); }

}  // namespace mage
