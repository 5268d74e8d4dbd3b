// SPDX-License-Identifier: Apache-2.0
// A complete contract for the cases of this folder to get wrong.
#pragma once

#include "mage_bench/contract.hpp"

namespace sample {

struct Problem {
  int size = 0;
  bool operator==(const Problem&) const = default;
};

struct Args {
  const float* x;
  float* y;
};

struct Sample {
  static constexpr const char* name = "sample";
  using Problem = sample::Problem;
  using Args = sample::Args;
  static mage::ProblemList<Problem> bench_problems();
  static mage::ProblemList<Problem> test_problems();
  static mage::Text print(const Problem& problem);
  static bool parse(const char* text, Problem& problem);
  static mage::Operands operands(const Problem& problem);
  static Args bind(const Problem& problem, const mage::Pointers& pointers);
  static void reference(const Problem& problem, const mage::Pointers& host, mage::Expected& expected);
  static mage::Text tolerance(const Problem& problem);
  static mage::Work work(const Problem& problem);
};

}  // namespace sample
