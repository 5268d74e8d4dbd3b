// SPDX-License-Identifier: Apache-2.0
// Which benchmarks of a store take part.
#pragma once

#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "bench/store_reader.hpp"

namespace mage::compare {

/// A regular expression with --benchmark_filter's semantics: search, and a leading '-' negates. By default it takes
/// all.
class NameFilter {
 public:
  NameFilter() = default;
  /// Throws std::regex_error.
  explicit NameFilter(const std::string& text);
  /// Throws std::runtime_error for a name that is too long to be searched.
  [[nodiscard]] bool operator()(const std::string& name) const;

 private:
  std::optional<std::regex> regex_;
  bool negated_ = false;
};

/// std::regex recurses a level a character, of the expression and of what is searched.
inline constexpr std::size_t longest_searched = 1000;

struct Selection {
  NameFilter family, variant, problem, mode;
};

/// GPU variants and host variants are not ordered among each other in a run, so each kind is a comparison of its own.
enum class Kind { gpu, host };
[[nodiscard]] std::string_view to_string(Kind kind);
/// By the naming rule: `reference` and `cpu_*` run on the host.
[[nodiscard]] Kind kind_of(const std::string& variant);
/// `reference` is what every variant's output is checked against: written to be right, not fast.
[[nodiscard]] bool is_oracle(const std::string& variant);

/// The variants of one kind on one problem in one mode; in the order of their names.
struct Group {
  Kind kind = Kind::gpu;
  std::vector<const StoredBenchmark*> benchmarks;
};

/// By family, problem, mode and kind. All variants are in: --variant selects candidates, not baselines.
[[nodiscard]] std::vector<Group> groups_of(const StoreContents& store, const Selection& selection);
[[nodiscard]] bool selects(const Selection& selection, const StoredBenchmark& benchmark);

/// For a selection that left nothing: the families, variants, problems and modes that the store holds.
[[nodiscard]] std::string what_it_holds(const StoreContents& store);

}  // namespace mage::compare
