// SPDX-License-Identifier: Apache-2.0
// Family copy: y = x, bit for bit, FP32. The ceiling beside which memory-bound families are read.
#pragma once

#include "mage_bench/contract.hpp"

namespace mage::copy {

struct Problem {
  int64 rows = 0, cols = 0;
  bool operator==(const Problem&) const = default;
};

/// x, y: [rows, cols], both 16-byte aligned. No overlap.
struct Args {
  const float* x;
  float* y;
};

struct Copy {
  static constexpr const char* name = "copy";
  using Problem = copy::Problem;
  using Args = copy::Args;
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

}  // namespace mage::copy
