// SPDX-License-Identifier: Apache-2.0
// A signature that only nearly fits is refused where the family is used, with the concept named.
// expect: constraint
// expect note: required expression 'static_cast<.*& C::tolerance\)' is invalid
#include "sample_family.hpp"

namespace {

struct Loose {
  static constexpr const char* name = "loose";
  using Problem = sample::Problem;
  using Args = sample::Args;
  static mage::ProblemList<Problem> bench_problems();
  static mage::ProblemList<Problem> test_problems();
  static mage::Text print(const Problem& problem);
  static bool parse(const char* text, Problem& problem);
  static mage::Operands operands(const Problem& problem);
  static Args bind(const Problem& problem, const mage::Pointers& pointers);
  static void reference(const Problem& problem, const mage::Pointers& host, mage::Expected& expected);
#if MAGE_CONTROL
  static mage::Text tolerance(const Problem& problem);
#else
  static double tolerance(const Problem& problem);
#endif
  static mage::Work work(const Problem& problem);
};

[[maybe_unused]] const mage::Variant<Loose> variant{.parent = "v00_naive"};

}  // namespace
