// SPDX-License-Identifier: Apache-2.0
// From round medians of two benchmarks to a verdict in a word. Used by mage_compare and by the self-test alike, so that
// the error rate which the self-test measures is that of the tool.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/statistics.hpp"
#include "bench/store_reader.hpp"

namespace mage {

enum class Word { faster, slower, equivalent, inconclusive, not_comparable };
[[nodiscard]] std::string_view to_string(Word word);

struct ComparisonOptions {
  double alpha = 0.05;
  double min_effect = 0.01;  ///< a difference is claimed where its whole claim interval is at least this far from none
  /// Of the interval behind a claim, which is stricter than the one that is shown: by that one, one or two of a
  /// thousand comparisons of an operation with itself would be claimed (docs/decisions.md).
  double claim_alpha = 0.001;
};

/// A candidate against a baseline. Where it is `not_comparable` the figures are as below.
struct Comparison {
  double baseline_us = 0, candidate_us = 0;            ///< medians of the round medians used
  double ratio = 1;                                    ///< candidate / baseline: above 1 is slower
  std::optional<statistics::Interval> interval;        ///< of the ratio, level 1 - alpha, not adjusted for the table
  std::optional<statistics::Interval> claim_interval;  ///< the same at level 1 - claim_alpha
  double hodges_lehmann_ratio = 1;                     ///< the same by ranks: a check on the former
  std::optional<double> p_value;                       ///< two-sided t test that the ratio is 1
  std::optional<double> wilcoxon_p_value;              ///< by ranks: a check. Signed-rank where paired, else rank-sum
  double adjusted_p_value = 1;                         ///< Holm over the table; set by decide()
  int rounds = 0;                                      ///< pairs of rounds, or the smaller count of unpaired ones
  bool paired = false;
  Word word = Word::inconclusive;  ///< set by decide()
  std::string why;                 ///< of `inconclusive` and `not_comparable`, in words
  bool barred = false;             ///< flags or too few rounds allow no verdict; `why` says which
  std::vector<std::string> notes;  ///< what a reader should know and what forbids no verdict
};

/// Paired by round number: t on log(candidate / baseline). Rounds that only one of the two has are left out.
/// The interval reaches at least half the clock's step of each (`quantum_us` / median) to either side of the ratio, and
/// where the rounds' ratios are equal, p is 1 within that reach and 0 beyond it.
/// Both functions: other inputs, another mode or a median that is no positive time are `not_comparable`; rounds that do
/// not ascend throw std::invalid_argument. The word is decide()'s otherwise.
[[nodiscard]] Comparison compare_paired(const StoredBenchmark& baseline, const StoredBenchmark& candidate,
                                        const ComparisonOptions& options);
/// Welch's t on the logarithms of the round medians; the interval as above. What moves between two runs is in no such
/// interval.
[[nodiscard]] Comparison compare_unpaired(const StoredBenchmark& baseline, const StoredBenchmark& candidate,
                                          const ComparisonOptions& options);

/// Gives every comparison of one table its word. Holm's adjustment over all that have a p-value; then
/// - `faster` / `slower`: adjusted p < alpha, and the claim interval excludes 1 and all of
///   (1 - min_effect, 1 + min_effect);
/// - `equivalent`: the interval lies inside (1 - min_effect, 1 + min_effect);
/// - `inconclusive` otherwise, and where a side is flagged `unstable`, `launch_bound` or has fewer than 3 rounds.
/// What is already `not_comparable` stays so and takes no part in Holm. Deciding again, with other options too, starts
/// afresh; only the intervals keep the alpha that they were made with.
void decide(std::span<Comparison> table, const ComparisonOptions& options);

}  // namespace mage
