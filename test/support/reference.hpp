// SPDX-License-Identifier: Apache-2.0
// What the tests of the oracles share.
#pragma once

#include <limits>
#include <vector>

#include "mage_bench/case.hpp"

namespace mage::test {

inline constexpr float infinity = std::numeric_limits<float>::infinity();
inline constexpr float nan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float sqrt_half = 0x1.6a09e6p-1F;

/// Whether the gate would take these values for one output.
[[nodiscard]] inline bool accepted(const std::vector<float>& y, const ExpectedTensor& expected) {
  const Operand operand{.name = "y", .role = Role::out, .rows = 1, .cols = static_cast<int64>(y.size())};
  return compare(operand, y.data(), expected, 0x7FABCDEFU).ok;
}

/// A value that is known for two inputs.
struct Point {
  float x, bias;
  double y;
};

}  // namespace mage::test
