// SPDX-License-Identifier: Apache-2.0
// The parts that families print and parse their problems' names from: "5x32-tail-s7-o1".
#pragma once

#include <string>
#include <string_view>

#include "mage_bench/matrix_problem.hpp"
#include "mage_bench/operand.hpp"
#include "mage_bench/registry.hpp"

namespace mage {

/// Takes `literal` off the front of `text`; false, and nothing taken, where it isn't there.
[[nodiscard]] bool take(std::string_view& text, std::string_view literal);
/// Takes a decimal number in [0, at_most]: digits only, no leading zero.
[[nodiscard]] bool take_number(std::string_view& text, uint64 at_most, uint64& out);
/// Takes "<rows>x<cols>", both at least 1, of fewer than 2^50 elements: what hundreds of such tensors and their
/// expected values take is counted in 64 bits without a wrap.
[[nodiscard]] bool take_shape(std::string_view& text, int64& rows, int64& cols);
/// Takes "-<distribution>".
[[nodiscard]] bool take_distribution(std::string_view& text, Distribution& out);

[[nodiscard]] Text print_shape(int64 rows, int64 cols);

[[nodiscard]] Text print_matrix(const MatrixProblem& problem);
/// Refuses a name that print_matrix would not give: one problem has one name.
[[nodiscard]] bool parse_matrix(const char* text, MatrixProblem& problem);
/// A user's text as a message echoes it: cut behind 80 characters.
[[nodiscard]] std::string shortened(std::string_view text);
/// A user's text as a problem of the family. Throws std::invalid_argument that says what is wrong and what is right.
[[nodiscard]] AnyProblem read_problem(const Family& family, const std::string& text);
/// Test problems that any family of matrices needs: sizes around one element, the warp, the vector width, the tile and
/// the page; every distribution, offset and another seed, each with odd and with even columns.
[[nodiscard]] ProblemList<MatrixProblem> matrix_test_problems();

}  // namespace mage
