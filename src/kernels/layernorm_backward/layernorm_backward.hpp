// SPDX-License-Identifier: Apache-2.0
// Family layernorm_backward: the gradients of layer normalisation from the saved mean and rstd, FP32, row-major.
// xhat = (x - mean) rstd, w = gamma dy, c1 = mean(w), c2 = mean(w xhat) over a row; dx = rstd (w - c1 - xhat c2),
// dgamma[c] = sum of dy xhat over the rows, dbeta[c] = sum of dy.
#pragma once

#include "mage_bench/matrix_problem.hpp"

namespace mage::layernorm_backward {

using Problem = MatrixProblem;

/// x, dy, dx: [rows, cols]; mean, rstd: [rows]; gamma, dgamma, dbeta: [cols]. No overlap.
struct Args {
  const float *x, *dy, *mean, *rstd, *gamma;
  float *dx, *dgamma, *dbeta;
};

struct LayernormBackward {
  static constexpr const char* name = "layernorm_backward";
  using Problem = MatrixProblem;
  using Args = layernorm_backward::Args;
  static ProblemList<Problem> bench_problems();
  static ProblemList<Problem> test_problems();
  static Text print(const Problem& problem);
  static bool parse(const char* text, Problem& problem);
  static Operands operands(const Problem& problem);
  static Args bind(const Problem& problem, const Pointers& pointers);
  static void derive(const Problem& problem, const Pointers& host);
  static void reference(const Problem& problem, const Pointers& host, Expected& expected);
  static Text tolerance(const Problem& problem);
  static Work work(const Problem& problem);
};

}  // namespace mage::layernorm_backward
