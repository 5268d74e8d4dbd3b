// SPDX-License-Identifier: Apache-2.0
// Family layernorm: y = (x - mean) rstd gamma + beta over each row of x, FP32, row-major, with the row's mean and
// rstd = 1 / sqrt(variance + 1e-5), the variance centred and biased.
#pragma once

#include "mage_bench/matrix_problem.hpp"

namespace mage::layernorm {

using Problem = MatrixProblem;

/// x, y: [rows, cols], starting alike behind a 16-byte boundary; gamma, beta: [cols], aligned; mean, rstd: [rows].
/// No overlap.
struct Args {
  const float* x;
  const float* gamma;
  const float* beta;
  float* y;
  float* mean;
  float* rstd;
};

struct Layernorm {
  static constexpr const char* name = "layernorm";
  using Problem = MatrixProblem;
  using Args = layernorm::Args;
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

}  // namespace mage::layernorm
