// SPDX-License-Identifier: Apache-2.0
// All variants of a problem and mode against the fastest of them.
#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <set>
#include <utility>

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

/// What a row is made of.
struct Facts {
  Kind kind;
  std::size_t place;  ///< from 0
  const StoredBenchmark& benchmark;
  const StoredBenchmark& best;
  std::string word;
  Comparison comparison;  ///< as it begins for the best
  std::vector<std::string> notes;
  bool is_best = place == 0;
  bool has_ratio = is_best || comparison.word != Word::not_comparable;
  std::optional<double> ratio_to_best = has_ratio ? std::optional{comparison.ratio} : std::nullopt;
  std::optional<statistics::Interval> limits = has_ratio ? comparison.interval : std::nullopt;
  std::optional<double> adjusted =
      has_ratio && comparison.p_value ? std::optional{comparison.adjusted_p_value} : std::nullopt;
};

using Fact = Field<Facts>;
constexpr std::array facts{
    Fact{"name", [](const Facts& row) { return Json(row.benchmark.name); }},
    Fact{"family", [](const Facts& row) { return Json(row.benchmark.family); }},
    Fact{"problem", [](const Facts& row) { return Json(row.benchmark.problem); }},
    Fact{"mode", [](const Facts& row) { return Json(row.benchmark.mode); }},
    Fact{"kind", [](const Facts& row) { return Json(to_string(row.kind)); }},
    Fact{"rank", [](const Facts& row) { return Json(row.place + 1); }},
    Fact{"variant", [](const Facts& row) { return Json(row.benchmark.variant); }},
    Fact{"best", [](const Facts& row) { return Json(row.best.variant); }},
    Fact{"word", [](const Facts& row) { return Json(row.word); }},
    Fact{"median_us", [](const Facts& row) { return number(median_us(row.benchmark)); }},
    Fact{"ratio", [](const Facts& row) { return number(row.ratio_to_best); }},
    Fact{"ratio_low",
         [](const Facts& row) { return number(row.limits ? std::optional{row.limits->low} : std::nullopt); }},
    Fact{"ratio_high",
         [](const Facts& row) { return number(row.limits ? std::optional{row.limits->high} : std::nullopt); }},
    Fact{"adjusted_p_value", [](const Facts& row) { return number(row.adjusted); }},
    Fact{"rounds", [](const Facts& row) { return row.is_best ? Json(nullptr) : Json(row.comparison.rounds); }},
    Fact{"flags", [](const Facts& row) { return Json(row.benchmark.flags); }},
    Fact{"notes", [](const Facts& row) { return Json(row.notes); }},
    Fact{"boundary", [](const Facts& row) { return Json(boundary(row.benchmark.mode)); }},
};

Row row_of(const Ranked& ranked, std::size_t place, const Table& table, const ComparisonOptions& options) {
  const bool is_best = place == 0;
  Comparison comparison;
  std::vector<std::string> notes;
  if (!is_best) {
    const auto index = ranked.first_comparison + place - 1;
    comparison = table.comparisons[index];
    notes = notes_on(table.pairs[index], comparison, options);
  }
  const Facts from{.kind = ranked.kind,
                   .place = place,
                   .benchmark = *ranked.best_first[place],
                   .best = *ranked.best_first.front(),
                   .word = std::string{is_best ? "best" : to_string(comparison.word)},
                   .comparison = comparison,
                   .notes = std::move(notes)};
  Row row;
  row.tone = is_best ? Tone::good : Tone::plain;
  row.cells = {from.word,
               std::to_string(place + 1),
               from.benchmark.variant,
               microseconds(median_us(from.benchmark)),
               ratio(from.ratio_to_best),
               interval(from.limits),
               probability(from.adjusted),
               is_best ? "-" : std::to_string(comparison.rounds),
               join(from.benchmark.flags, " "),
               join(from.notes, "; ")};
  for (const auto& fact : facts) row.fields[fact.name] = fact.of(from);
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
  for (const auto& fact : facts) report.fields.emplace_back(fact.name);
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
