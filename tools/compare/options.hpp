// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/comparison.hpp"
#include "bench/options.hpp"
#include "tools/compare/selection.hpp"

namespace mage::compare {

enum class Action { compare, rank, decompose };
enum class Format { table, markdown, json, csv };

/// What the process returns to its caller.
namespace exit_code {
inline constexpr int compared = 0;
inline constexpr int regression = 1;
inline constexpr int usage = 2;  ///< also a store that cannot be read, and an output that cannot be written
inline constexpr int nothing = 3;
}  // namespace exit_code

struct Options {
  std::vector<std::string> stores;  ///< one, or the old and the new one
  Action action = Action::compare;
  Selection selection;
  std::optional<std::string> baseline;  ///< a variant's name, or an expression that one name matches
  ComparisonOptions comparison;
  Format format = Format::table;
  Color color = Color::automatic;
  std::string out;  ///< empty: standard output
  bool allow_different_machines = false;
  bool no_fail = false;
};

/// Either options, or an exit code with what to print (help and version on 0, a usage error on 2).
struct ParsedOptions {
  std::optional<Options> options;
  int exit = 0;
  std::string message;
};
[[nodiscard]] ParsedOptions parse_options(const std::vector<std::string>& argv);

}  // namespace mage::compare
