// SPDX-License-Identifier: Apache-2.0
// Every registered variant and problem as test parameters, read from the registry alone.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <ostream>
#include <string>
#include <vector>

#include "mage_bench/case.hpp"
#include "mage_bench/registry.hpp"

namespace mage::test {

struct VariantParam {
  const Family* family = nullptr;
  const VariantInfo* variant = nullptr;
  AnyProblem problem;  ///< empty name: the test goes through all problems itself
};

inline void PrintTo(const VariantParam& param, std::ostream* out) {
  *out << param.family->name() << '/' << param.variant->name << '/' << param.problem.name;
}

/// A GoogleTest name: letters, digits and underscores only.
[[nodiscard]] inline std::string test_name(const testing::TestParamInfo<VariantParam>& info) {
  std::string name = std::string{info.param.family->name()} + "_" + info.param.variant->name;
  if (!info.param.problem.name.empty()) name += "_" + info.param.problem.name;
  for (auto& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
}

/// Device and host memory of a problem beyond which only the tests of large problems run it.
inline constexpr std::size_t small_problem_bytes = std::size_t{256} << 20U;

[[nodiscard]] inline bool is_large(const Family& family, const AnyProblem& problem) {
  return Case::device_bytes(family.operands(problem)) > small_problem_bytes;
}

/// Whether a family makes something of rows and columns: what has one input copies it, what has no such problem
/// measures the machine.
[[nodiscard]] inline bool computes(const Family& family) {
  const auto problem = family.parse("2x2");
  if (!problem) return false;
  int inputs = 0;
  for (const auto& operand : family.operands(*problem)) inputs += operand.role == Role::in ? 1 : 0;
  return inputs >= 2;
}

/// How often a call is repeated. Under compute-sanitizer, where one costs a hundred times as much, MAGE_FLAKE_RUNS
/// lowers it.
[[nodiscard]] inline int flake_runs(int usual) {
  const char* text = std::getenv("MAGE_FLAKE_RUNS");
  return text == nullptr ? usual : std::max(1, static_cast<int>(std::strtol(text, nullptr, 10)));
}

enum class Where { host, cuda };

[[nodiscard]] inline std::vector<VariantParam> variants(Where where) {
  std::vector<VariantParam> params;
  for (const auto* family : families())
    for (const auto& variant : family->variants())
      if (!variant.skipped && variant.on_host() == (where == Where::host)) params.push_back({family, &variant, {}});
  return params;
}

[[nodiscard]] inline std::vector<VariantParam> variants_and_problems(Where where) {
  std::vector<VariantParam> params;
  for (const auto& param : variants(where))
    for (const auto& problem : param.family->test_problems())
      if (!is_large(*param.family, problem)) params.push_back({param.family, param.variant, problem});
  return params;
}

}  // namespace mage::test
