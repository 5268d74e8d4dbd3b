// SPDX-License-Identifier: Apache-2.0
// Family gelu: y[r,c] = t (1 + erf(t / sqrt 2)) / 2 with t = x[r,c] + bias[c], FP32, row-major.
#pragma once

#include "mage_bench/contract.hpp"

namespace mage {
enum class Distribution;
}

namespace mage::gelu {

struct Problem {
  int64 rows = 0, cols = 0;
  Distribution distribution{};  ///< of x; the bias is always normal
  uint64 seed = 0;
  int64 offset = 0;  ///< elements by which x and y start behind a 256-byte boundary
  bool operator==(const Problem&) const = default;
};

/// x, y: [rows, cols]; bias: [cols]. No overlap.
struct Args {
  const float* x;
  const float* bias;
  float* y;
};

struct Gelu {
  static constexpr const char* name = "gelu";
  using Problem = gelu::Problem;
  using Args = gelu::Args;
  static ProblemList<Problem> bench_problems();
  static ProblemList<Problem> test_problems();
  static Text print(const Problem& problem);
  static bool parse(const char* text, Problem& problem);
  static Operands operands(const Problem& problem);
  static Args bind(const Problem& problem, const Pointers& pointers);
  static void reference(const Problem& problem, const Pointers& host, Expected& expected);
  static Text tolerance(const Problem& problem);
  static Work work(const Problem& problem);
};

}  // namespace mage::gelu
