// SPDX-License-Identifier: Apache-2.0
// All variants of a problem and mode against the fastest of them.
#include <fmt/format.h>
#include <algorithm>
#include <set>

#include "tools/compare/pairs.hpp"
#include "tools/compare/report.hpp"
#include "tools/compare/words.hpp"

namespace mage::compare {
namespace {

/// Part of a table: the rows of one group, of which the first is the best and stands in no comparison.
struct Ranked {
  Kind kind = Kind::gpu;
  std::vector<const StoredBenchmark*> best_first;
  std::size_t first_comparison = 0;
};

Row row_of(const Ranked& ranked, std::size_t place, const Table& table, const ComparisonOptions& options) {
  const auto& benchmark = *ranked.best_first[place];
  const auto& best = *ranked.best_first.front();
  const bool is_best = place == 0;
  Comparison comparison;
  std::vector<std::string> notes;
  if (!is_best) {
    comparison = table.comparisons[ranked.first_comparison + place - 1];
    notes = notes_on(comparison, options);
  }
  const bool has_ratio = is_best || comparison.word != Word::not_comparable;
  const auto word = is_best ? std::string{"best"} : std::string{to_string(comparison.word)};
  const auto limits = has_ratio ? comparison.interval : std::nullopt;
  const auto adjusted = has_ratio && comparison.p_value ? std::optional{comparison.adjusted_p_value} : std::nullopt;
  const auto ratio_to_best = has_ratio ? std::optional{comparison.ratio} : std::nullopt;

  Row row;
  row.tone = is_best ? Tone::good : Tone::plain;
  row.cells = {word,
               std::to_string(place + 1),
               benchmark.variant,
               microseconds(median_us(benchmark)),
               ratio(ratio_to_best),
               interval(limits),
               probability(adjusted),
               is_best ? "-" : std::to_string(comparison.rounds),
               join(benchmark.flags, " "),
               join(notes, "; ")};
  auto& fields = row.fields;
  fields["name"] = benchmark.name;
  fields["family"] = benchmark.family;
  fields["problem"] = benchmark.problem;
  fields["mode"] = benchmark.mode;
  fields["kind"] = to_string(ranked.kind);
  fields["rank"] = place + 1;
  fields["variant"] = benchmark.variant;
  fields["best"] = best.variant;
  fields["word"] = word;
  fields["median_us"] = number(median_us(benchmark));
  fields["ratio"] = number(ratio_to_best);
  fields["ratio_low"] = number(limits ? std::optional{limits->low} : std::nullopt);
  fields["ratio_high"] = number(limits ? std::optional{limits->high} : std::nullopt);
  fields["adjusted_p_value"] = number(adjusted);
  fields["rounds"] = is_best ? Json(nullptr) : Json(comparison.rounds);
  fields["flags"] = benchmark.flags;
  fields["notes"] = notes;
  fields["boundary"] = boundary(benchmark.mode);
  return row;
}

}  // namespace

Report rank(const StoreContents& store, const Options& options) {
  Table table;
  std::vector<Ranked> ranking;
  std::set<std::string> modes;
  for (const auto& group : groups_of(store, options.selection)) {
    std::vector<std::pair<double, const StoredBenchmark*>> by_median;
    for (const auto* benchmark : group.benchmarks)
      if (options.selection.variant(benchmark->variant)) by_median.emplace_back(median_us(*benchmark), benchmark);
    if (by_median.empty()) continue;
    std::ranges::stable_sort(by_median, {}, &std::pair<double, const StoredBenchmark*>::first);
    Ranked ranked{group.kind, {}, table.pairs.size()};
    for (const auto& [median, benchmark] : by_median) ranked.best_first.push_back(benchmark);
    for (std::size_t k = 1; k < ranked.best_first.size(); ++k) {
      const Pair pair{ranked.best_first[k], ranked.best_first.front()};
      table.add(pair, compare_paired(*pair.baseline, *pair.candidate, options.comparison));
    }
    modes.insert(ranked.best_first.front()->mode);
    ranking.push_back(std::move(ranked));
  }
  table.decide_all(options.comparison);

  Report report;
  report.head = head_of("ranking", {&store});
  report.head["alpha"] = options.comparison.alpha;
  report.head["min_effect"] = options.comparison.min_effect;
  report.intro = {describe(store),
                  "paired by round with the fastest. It was chosen by these same rounds, so its lead is flattered: "
                  "confirm it in another run"};
  report.columns = {{"word"},
                    {"rank", true},
                    {"variant"},
                    {"us", true},
                    {"ratio", true},
                    {fmt::format("{:g} % interval", 100 * (1 - options.comparison.alpha)), true},
                    {"adjusted p", true},
                    {"rounds", true},
                    {"flags"},
                    {"notes"}};
  report.fields = {"name",   "family", "problem",   "mode",    "kind",      "rank",       "variant",
                   "best",   "word",   "median_us", "ratio",   "ratio_low", "ratio_high", "adjusted_p_value",
                   "rounds", "flags",  "notes",     "boundary"};
  for (const auto& ranked : ranking) {
    const auto& best = *ranked.best_first.front();
    auto& section = report.sections.emplace_back();
    section.title = fmt::format("{}/*/{}/{}{}", best.family, best.problem, best.mode,
                                ranked.kind == Kind::host ? " (host variants)" : "");
    for (std::size_t place = 0; place < ranked.best_first.size(); ++place)
      section.rows.push_back(row_of(ranked, place, table, options.comparison));
  }
  report.legend = boundaries(modes);
  report.closing = {fmt::format("{} rankings; Holm's adjustment over {} rows, alpha {:g}, minimum effect {:g} %",
                                ranking.size(), table.tests(), options.comparison.alpha,
                                100 * options.comparison.min_effect)};
  report.tail["holm_rows"] = table.tests();
  report.comparable = static_cast<int>(ranking.size());
  return report;
}

}  // namespace mage::compare
