// SPDX-License-Identifier: Apache-2.0
// The problem of families that work on a row-major matrix. Light: kernel files see it.
#pragma once

#include "mage_bench/contract.hpp"

namespace mage {

enum class Distribution;

/// "ROWSxCOLS[-DISTRIBUTION][-sSEED][-oOFFSET]"; printed and parsed in problem_text.hpp.
struct MatrixProblem {
  int64 rows = 0, cols = 0;
  Distribution distribution{};  ///< of the matrix that the family is about; its other inputs are normal
  uint64 seed = 0;
  int64 offset = 0;  ///< elements by which the matrices start behind a 256-byte boundary
  bool operator==(const MatrixProblem&) const = default;
};

}  // namespace mage
