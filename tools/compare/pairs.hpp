// SPDX-License-Identifier: Apache-2.0
// Which benchmark stands against which.
#pragma once

#include <string>
#include <vector>

#include "bench/comparison.hpp"
#include "tools/compare/options.hpp"
#include "tools/compare/selection.hpp"

namespace mage::compare {

struct Pair {
  const StoredBenchmark* candidate = nullptr;
  const StoredBenchmark* baseline = nullptr;  ///< null where the group has none
};

/// One table: the words need all of it, by Holm.
struct Table {
  std::vector<Pair> pairs;
  std::vector<Comparison> comparisons;  ///< one a pair

  void add(const Pair& pair, Comparison comparison);
  /// Gives every comparison its word, by decide().
  void decide_all(const ComparisonOptions& options);
  [[nodiscard]] int tests() const;  ///< rows that Holm's adjustment is over
};

/// Each selected variant against the baseline of its group.
[[nodiscard]] Table pairs_in(const StoreContents& store, const Options& options);

/// The same benchmarks of two stores; `only_*` are those that the other store has no time for.
struct TwoStores {
  Table table;
  std::vector<const StoredBenchmark*> only_before, only_after;
};
[[nodiscard]] TwoStores pairs_across(const StoreContents& before, const StoreContents& after, const Options& options);

/// "GPU: A, then B" for each thing that makes two machines different; empty where they are the same.
[[nodiscard]] std::vector<std::string> machine_differences(const StoreContents& before, const StoreContents& after);

/// What a reader should know of the row beside its figures.
[[nodiscard]] std::vector<std::string> notes_on(const Pair& pair, const Comparison& comparison,
                                                const ComparisonOptions& options);

}  // namespace mage::compare
