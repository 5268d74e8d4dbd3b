// SPDX-License-Identifier: Apache-2.0
// Inputs are functions of (seed, stream, index): the same bits on any machine, in any order, by any number of threads.
#pragma once

#include <array>
#include <cstdint>

#include "mage_bench/operand.hpp"

namespace mage {

/// Philox 4x32-10 (Salmon et al., SC'11): 128 random bits for a counter and a key.
[[nodiscard]] std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                                  std::array<std::uint32_t, 2> key);

/// The first 64 of them.
[[nodiscard]] std::uint64_t random_bits(const std::array<std::uint32_t, 4>& counter, std::uint64_t key);

/// Standard normal quantile of p in (0, 1), from IEEE +, -, x, / and sqrt only, so that no libm can change a bit.
[[nodiscard]] double normal_quantile(double p);

/// Fills `data` (operand.elements() values of operand.dtype) by the operand's distribution, in parallel.
/// `stream` separates the operands of one problem.
void generate(const Operand& operand, std::uint32_t stream, void* data);

}  // namespace mage
