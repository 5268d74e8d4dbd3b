// SPDX-License-Identifier: Apache-2.0
// Without a reference there is nothing to judge a variant by, so such a family can have no variants.
// expect: constraint
// expect note: required expression 'static_cast<.*& C::reference\)' is invalid
#include "sample_family.hpp"

namespace {

struct Unjudged {
  static constexpr const char* name = "unjudged";
  using Problem = sample::Problem;
  using Args = sample::Args;
  static mage::ProblemList<Problem> bench_problems();
  static mage::ProblemList<Problem> test_problems();
  static mage::Text print(const Problem& problem);
  static bool parse(const char* text, Problem& problem);
  static mage::Operands operands(const Problem& problem);
  static Args bind(const Problem& problem, const mage::Pointers& pointers);
#if MAGE_CONTROL
  static void reference(const Problem& problem, const mage::Pointers& host, mage::Expected& expected);
#endif
  static mage::Text tolerance(const Problem& problem);
  static mage::Work work(const Problem& problem);
};

[[maybe_unused]] const mage::Variant<Unjudged> variant{.parent = "v00_naive"};

}  // namespace
