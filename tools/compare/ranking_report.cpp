// SPDX-License-Identifier: Apache-2.0
// All variants of a problem and mode against the fastest of them.
#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>

#include "tools/compare/pairs.hpp"
#include "tools/compare/report.hpp"
#include "tools/compare/words.hpp"

namespace mage::compare {
namespace {

struct Entry {
  const StoredBenchmark* benchmark = nullptr;
  Comparison comparison;  ///< with the best; of the best itself as it begins
};

/// The rows of one group, of which the first is the best.
struct Ranked {
  Kind kind = Kind::gpu;
  std::vector<Entry> best_first;
  std::vector<const StoredBenchmark*> tried;  ///< as the best, in that order
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
  bool compared = !is_best && comparison.word != Word::not_comparable;
  bool has_ratio = is_best || comparison.rounds > 0;
  std::optional<double> ratio_to_best = has_ratio ? std::optional{comparison.ratio} : std::nullopt;
  std::optional<statistics::Interval> limits = has_ratio ? comparison.interval : std::nullopt;
  std::optional<double> adjusted =
      has_ratio && comparison.p_value ? std::optional{comparison.adjusted_p_value} : std::nullopt;
};

using Fact = Field<Facts>;
constexpr std::array facts{
    Fact{"name", [](const Facts& row) { return Json(row.benchmark.name); }},
    Fact{"family", [](const Facts& row) { return Json(row.benchmark.family); }},
    Fact{"picked",
         [](const Facts& row) { return row.benchmark.picked.empty() ? Json(nullptr) : Json(row.benchmark.picked); }},
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
    Fact{"rounds", [](const Facts& row) { return row.compared ? Json(row.comparison.rounds) : Json(nullptr); }},
    Fact{"flags", [](const Facts& row) { return Json(row.benchmark.flags); }},
    Fact{"notes", [](const Facts& row) { return Json(row.notes); }},
    Fact{"boundary", [](const Facts& row) { return Json(boundary(row.benchmark.mode)); }},
};

bool has_flag(const Entry& entry, const char* flag) { return std::ranges::count(entry.benchmark->flags, flag) > 0; }

/// By median; those that have all their rounds first, since a median without the slow rounds is too good, and what is
/// wrong on purpose last.
void order_by_median(std::vector<Entry>& entries) {
  std::ranges::stable_sort(entries, {}, [](const Entry& entry) {
    return std::tuple{has_flag(entry, "counter_example"), has_flag(entry, "missing_rounds"),
                      median_us(*entry.benchmark)};
  });
}

/// All but the best by their ratio to it. Those without one stay as they stood, after the others.
void order_by_ratio(std::vector<Entry>& entries) {
  std::stable_sort(entries.begin() + 1, entries.end(), [](const Entry& a, const Entry& b) {
    constexpr double rounding = 1e12;  // ratios that are equal in truth differ in their last bits
    const auto key = [](const Entry& entry) {
      const auto& comparison = entry.comparison;
      return std::pair{comparison.rounds == 0, comparison.rounds == 0 ? 0 : std::round(comparison.ratio * rounding)};
    };
    return key(a) < key(b);
  });
}

/// Each group's others against its best.
Table compare_all(std::vector<Ranked>& ranking, const ComparisonOptions& options) {
  Table table;
  for (const auto& ranked : ranking)
    for (std::size_t k = 1; k < ranked.best_first.size(); ++k) {
      const Pair pair{ranked.best_first[k].benchmark, ranked.best_first.front().benchmark};
      table.add(pair, compare_paired(*pair.baseline, *pair.candidate, options));
    }
  table.decide_all(options);
  auto decided = table.comparisons.begin();
  for (auto& ranked : ranking)
    for (std::size_t k = 1; k < ranked.best_first.size(); ++k) ranked.best_first[k].comparison = *decided++;
  return table;
}

/// Whether another than the first was found to be `faster` than it, and now stands first.
bool promote_faster(Ranked& ranked) {
  auto& entries = ranked.best_first;
  auto faster = entries.end();
  for (auto entry = entries.begin() + 1; entry != entries.end(); ++entry) {
    if (entry->comparison.word != Word::faster || std::ranges::count(ranked.tried, entry->benchmark) > 0) continue;
    if (has_flag(*entry, "counter_example")) continue;
    if (faster == entries.end() || entry->comparison.ratio < faster->comparison.ratio) faster = entry;
  }
  if (faster == entries.end()) return false;
  ranked.tried.push_back(faster->benchmark);
  std::rotate(entries.begin(), faster, faster + 1);
  entries.front().comparison = {};
  return true;
}

/// Where variants share other rounds with each other, each can be faster than the next in a circle.
void mark_circles(Ranked& ranked) {
  for (auto& entry : ranked.best_first) {
    if (entry.comparison.word != Word::faster || has_flag(entry, "counter_example")) continue;
    entry.comparison.word = Word::inconclusive;
    entry.comparison.why = "no order: faster than the best in the rounds that both have, slower than another in others";
  }
}

Row row_of(const Ranked& ranked, std::size_t place, const ComparisonOptions& options) {
  const bool is_best = place == 0;
  const auto& [benchmark, comparison] = ranked.best_first[place];
  const auto* best = ranked.best_first.front().benchmark;
  auto notes = is_best ? std::vector<std::string>{} : notes_on({benchmark, best}, comparison, options);
  const Facts from{.kind = ranked.kind,
                   .place = place,
                   .benchmark = *benchmark,
                   .best = *best,
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
               from.compared ? std::to_string(comparison.rounds) : "-",
               join(from.benchmark.flags, " "),
               join(from.notes, "; ")};
  for (const auto& fact : facts) row.fields[fact.name] = fact.of(from);
  return row;
}

}  // namespace

Report rank(const StoreContents& store, const Options& options) {
  std::vector<Ranked> ranking;
  std::set<std::string> modes;
  for (const auto& group : groups_of(store, options.selection)) {
    Ranked ranked{group.kind, {}, {}};
    for (const auto* benchmark : group.benchmarks)
      if (options.selection.variant(benchmark->variant)) ranked.best_first.push_back({benchmark, {}});
    if (ranked.best_first.empty()) continue;
    order_by_median(ranked.best_first);
    ranked.tried.push_back(ranked.best_first.front().benchmark);
    modes.insert(ranked.best_first.front().benchmark->mode);
    ranking.push_back(std::move(ranked));
  }
  Table table = compare_all(ranking, options.comparison);
  while (std::ranges::count_if(ranking, promote_faster) > 0) table = compare_all(ranking, options.comparison);
  for (auto& ranked : ranking) {
    mark_circles(ranked);
    order_by_ratio(ranked.best_first);
  }

  Report report;
  report.head = head_of("ranking", {&store});
  report.head["alpha"] = options.comparison.alpha;
  report.head["claim_alpha"] = options.comparison.claim_alpha;
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
    const auto& best = *ranked.best_first.front().benchmark;
    auto& section = report.sections.emplace_back();
    section.title = fmt::format("{}/*/{}/{}{}", best.family, best.problem, best.mode,
                                ranked.kind == Kind::host ? " (host variants)" : "");
    for (std::size_t place = 0; place < ranked.best_first.size(); ++place)
      section.rows.push_back(row_of(ranked, place, options.comparison));
  }
  report.legend = boundaries(modes);
  add_absences(report, store, nullptr, options);
  report.closing.push_back(fmt::format(
      "{} ranking{}; Holm's adjustment over {} rows, alpha {:g}, minimum effect {:g} %", ranking.size(),
      ranking.size() == 1 ? "" : "s", table.tests(), options.comparison.alpha, 100 * options.comparison.min_effect));
  report.tail["holm_rows"] = table.tests();
  report.comparable = static_cast<int>(std::ranges::count_if(
      table.comparisons, [](const Comparison& comparison) { return comparison.word != Word::not_comparable; }));
  return report;
}

}  // namespace mage::compare
