// SPDX-License-Identifier: Apache-2.0
// Family gelu_tanh: y[r,c] = t (1 + tanh(sqrt(2/pi) (t + 0.044715 t^3))) / 2 with t = x[r,c] + bias[c], FP32,
// row-major.
#pragma once

#include "mage_bench/matrix_problem.hpp"

namespace mage::gelu_tanh {

using Problem = MatrixProblem;

/// x, y: [rows, cols]; bias: [cols]. No overlap.
struct Args {
  const float* x;
  const float* bias;
  float* y;
};

struct GeluTanh {
  static constexpr const char* name = "gelu_tanh";
  using Problem = MatrixProblem;
  using Args = gelu_tanh::Args;
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

}  // namespace mage::gelu_tanh
