// SPDX-License-Identifier: Apache-2.0
// Family gelu_backward: with t = x[r,c] + bias[c], dx[r,c] = dy[r,c] (Phi(t) + t phi(t)), the gradient of exact GELU,
// and dbias[c] = sum over r of dx[r,c]. Phi and phi are the standard normal distribution and density. FP32, row-major.
#pragma once

#include "mage_bench/matrix_problem.hpp"

namespace mage::gelu_backward {

using Problem = MatrixProblem;

/// x, dy, dx: [rows, cols]; bias, dbias: [cols]. No overlap.
struct Args {
  const float* x;
  const float* bias;
  const float* dy;
  float* dx;
  float* dbias;
};

struct GeluBackward {
  static constexpr const char* name = "gelu_backward";
  using Problem = MatrixProblem;
  using Args = gelu_backward::Args;
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

}  // namespace mage::gelu_backward
