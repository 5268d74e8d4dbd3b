// SPDX-License-Identifier: Apache-2.0
// A family's right first version, spoilt in one way: what the gate must catch, whatever the family.
#pragma once

#include <string>
#include <vector>

#include "mage_bench/case.hpp"
#include "mage_bench/device.hpp"
#include "mage_bench/registry.hpp"
#include "test/mutants/tools.hpp"

namespace mage::test {

enum class Mutation {
  none,                 ///< the control, which must pass
  copies_input,         ///< the first input's bytes instead of an output
  all_zeros,            ///< in an output
  last_tile_unwritten,  ///< of an output
  one_past_the_end,     ///< of an output
  one_nan,              ///< in the middle of an output
  operand_of_zeros,     ///< an input is taken for zeros: a bias, an affine or an edge skipped
  operand_of_ones,
  last_row_skipped,  ///< the operation on one row less: a sum over rows misses one, and the row's own outputs are there
  last_column_skipped,  ///< the last column of an input is taken for zeros, and its own outputs are there: sums miss it
  tf32_inputs,          ///< the operation on inputs rounded to 10 bits of mantissa
  input_zeroed,         ///< after it was read
  first_call_only,      ///< right on the first call, then an output is the input's bytes
  nothing_written,
};

/// One mutation of one operand of one family.
struct Mutant {
  const Family* family = nullptr;
  Mutation mutation{};
  std::size_t operand = 0;

  /// "layernorm_last_tile_unwritten_mean"
  [[nodiscard]] std::string name() const;
  /// What it must be caught on: among them, where the mutation is a term left out of a sum, the longest such sum of the
  /// family's test problems that is not large.
  [[nodiscard]] std::vector<AnyProblem> problems() const;
  /// Part of the verdict's reason; empty for the control.
  [[nodiscard]] const char* must_say() const;
};

/// Every mutant of every family that computes something of rows and columns.
[[nodiscard]] std::vector<Mutant> mutants();

/// The mutant's operation on the operands at `pointers`, made of the family's first version on that device.
[[nodiscard]] Launch make_mutant(const Mutant& mutant, Device& device, const Tools& tools, const AnyProblem& problem,
                                 const Pointers& pointers);

}  // namespace mage::test
