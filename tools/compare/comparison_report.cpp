// SPDX-License-Identifier: Apache-2.0
// The tables of words: one store against its baseline, and two stores.
#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <unordered_map>
#include <utility>

#include "tools/compare/pairs.hpp"
#include "tools/compare/report.hpp"
#include "tools/compare/words.hpp"

namespace mage::compare {
namespace {

/// In the order of the table: what needs a look comes first.
constexpr std::array words{Word::slower, Word::inconclusive, Word::not_comparable, Word::faster, Word::equivalent};

std::size_t rank_of(Word word) { return static_cast<std::size_t>(std::ranges::find(words, word) - words.begin()); }

Tone tone_of(Word word) {
  switch (word) {
    case Word::slower: return Tone::bad;
    case Word::faster: return Tone::good;
    case Word::inconclusive:
    case Word::not_comparable: return Tone::doubtful;
    case Word::equivalent: return Tone::plain;
  }
  return Tone::plain;
}

/// The largest effect first inside each word.
std::vector<std::size_t> table_order(const Table& table) {
  std::vector<std::size_t> order(table.pairs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    const auto key = [&](std::size_t k) {
      const auto& comparison = table.comparisons[k];
      const double size = comparison.rounds > 0 ? std::max(comparison.ratio, 1 / comparison.ratio) : 0;
      return std::pair{rank_of(comparison.word), -size};
    };
    const auto left = key(a);
    const auto right = key(b);
    return left != right ? left < right : table.pairs[a].candidate->name < table.pairs[b].candidate->name;
  });
  return order;
}

std::string pairing(const Comparison& comparison) { return comparison.paired ? "paired by round" : "unpaired"; }

/// What a row is made of.
struct Facts {
  const StoredBenchmark& candidate;
  const StoredBenchmark* baseline;  ///< null where the group has none
  const Comparison& comparison;
  std::vector<std::string> baseline_flags, notes;
  bool compared = comparison.word != Word::not_comparable;
  bool has_ratio = comparison.rounds > 0;
  std::optional<double> baseline_us = baseline ? median_of(*baseline, comparison.baseline_us) : std::nullopt;
  std::optional<double> candidate_us = median_of(candidate, comparison.candidate_us);
  std::optional<statistics::Interval> limits = has_ratio ? comparison.interval : std::nullopt;
  std::optional<double> p_value = has_ratio ? comparison.p_value : std::nullopt;
  std::optional<double> adjusted = p_value ? std::optional{comparison.adjusted_p_value} : std::nullopt;

  [[nodiscard]] std::optional<double> value(double figure) const {
    return has_ratio ? std::optional{figure} : std::nullopt;
  }
  /// Of the rounds used, which may be none; of all rounds where nothing was compared.
  [[nodiscard]] std::optional<double> median_of(const StoredBenchmark& side, double used_us) const {
    return compared ? value(used_us) : median_us(side);
  }
};

using Fact = Field<Facts>;
constexpr std::array facts{
    Fact{"name", [](const Facts& row) { return Json(row.candidate.name); }},
    Fact{"family", [](const Facts& row) { return Json(row.candidate.family); }},
    Fact{"picked",
         [](const Facts& row) { return row.candidate.picked.empty() ? Json(nullptr) : Json(row.candidate.picked); }},
    Fact{"problem", [](const Facts& row) { return Json(row.candidate.problem); }},
    Fact{"mode", [](const Facts& row) { return Json(row.candidate.mode); }},
    Fact{"candidate", [](const Facts& row) { return Json(row.candidate.variant); }},
    Fact{"baseline", [](const Facts& row) { return row.baseline ? Json(row.baseline->variant) : Json(nullptr); }},
    Fact{"word", [](const Facts& row) { return Json(to_string(row.comparison.word)); }},
    Fact{"baseline_us", [](const Facts& row) { return number(row.baseline_us); }},
    Fact{"candidate_us", [](const Facts& row) { return number(row.candidate_us); }},
    Fact{"ratio", [](const Facts& row) { return number(row.value(row.comparison.ratio)); }},
    Fact{"ratio_low",
         [](const Facts& row) { return number(row.limits ? std::optional{row.limits->low} : std::nullopt); }},
    Fact{"ratio_high",
         [](const Facts& row) { return number(row.limits ? std::optional{row.limits->high} : std::nullopt); }},
    Fact{"hodges_lehmann_ratio",
         [](const Facts& row) { return number(row.value(row.comparison.hodges_lehmann_ratio)); }},
    Fact{"p_value", [](const Facts& row) { return number(row.p_value); }},
    Fact{"adjusted_p_value", [](const Facts& row) { return number(row.adjusted); }},
    Fact{"wilcoxon_p_value",
         [](const Facts& row) { return number(row.has_ratio ? row.comparison.wilcoxon_p_value : std::nullopt); }},
    Fact{"rounds", [](const Facts& row) { return row.compared ? Json(row.comparison.rounds) : Json(nullptr); }},
    Fact{"pairing", [](const Facts& row) { return row.compared ? Json(pairing(row.comparison)) : Json(nullptr); }},
    Fact{"candidate_flags", [](const Facts& row) { return Json(row.candidate.flags); }},
    Fact{"baseline_flags", [](const Facts& row) { return Json(row.baseline_flags); }},
    Fact{"notes", [](const Facts& row) { return Json(row.notes); }},
    Fact{"boundary", [](const Facts& row) { return Json(boundary(row.candidate.mode)); }},
};

Row row_of(const Pair& pair, const Comparison& comparison, const std::vector<std::string>& labels, bool across_runs,
           const ComparisonOptions& options) {
  auto notes = notes_on(pair, comparison, options);
  notes.insert(notes.begin(), labels.begin(), labels.end());
  const Facts from{.candidate = *pair.candidate,
                   .baseline = pair.baseline,
                   .comparison = comparison,
                   .baseline_flags = pair.baseline ? pair.baseline->flags : std::vector<std::string>{},
                   .notes = std::move(notes)};
  Row row;
  row.tone = tone_of(comparison.word);
  row.cells = {std::string{to_string(comparison.word)},
               from.candidate.name,
               pair.baseline ? (across_runs ? "old" : pair.baseline->variant) : "-",
               microseconds(from.baseline_us),
               microseconds(from.candidate_us),
               ratio(from.value(comparison.ratio)),
               interval(from.limits),
               probability(from.adjusted),
               from.compared ? fmt::format("{} {}", comparison.rounds, comparison.paired ? "paired" : "unpaired") : "-",
               join(from.candidate.flags, " "),
               join(from.baseline_flags, " "),
               join(from.notes, "; ")};
  for (const auto& fact : facts) row.fields[fact.name] = fact.of(from);
  return row;
}

/// Columns, rows, legend and summary of a decided table.
void fill(Report& report, const Table& table, const Options& options, const std::vector<std::string>& labels,
          bool across_runs) {
  const auto level = fmt::format("{:g} % interval", 100 * (1 - options.comparison.alpha));
  report.columns = {{"word"},
                    {"benchmark"},
                    {"baseline"},
                    {across_runs ? "old us" : "baseline us", true},
                    {across_runs ? "new us" : "us", true},
                    {"ratio", true},
                    {level, true},
                    {"adjusted p", true},
                    {"rounds", true},
                    {"flags"},
                    {"baseline's flags"},
                    {"notes"}};
  for (const auto& fact : facts) report.fields.emplace_back(fact.name);
  std::set<std::string> modes;
  std::array<int, words.size()> counts{};
  auto& rows = report.sections.emplace_back().rows;
  rows.reserve(table.pairs.size());
  for (const auto k : table_order(table)) {
    rows.push_back(row_of(table.pairs[k], table.comparisons[k], labels, across_runs, options.comparison));
    modes.insert(table.pairs[k].candidate->mode);
    counts[rank_of(table.comparisons[k].word)] += 1;
  }
  report.legend = boundaries(modes);

  std::string summary;
  report.tail["counts"] = Json::object();
  for (std::size_t k = 0; k < words.size(); ++k) {
    summary += fmt::format("{}{} {}", summary.empty() ? "" : ", ", counts[k], to_string(words[k]));
    report.tail["counts"][std::string{to_string(words[k])}] = counts[k];
  }
  report.closing.push_back(fmt::format("{}; Holm's adjustment over {} rows, alpha {:g}, minimum effect {:g} %", summary,
                                       table.tests(), options.comparison.alpha, 100 * options.comparison.min_effect));
  report.tail["holm_rows"] = table.tests();
  report.comparable = static_cast<int>(rows.size()) - counts[rank_of(Word::not_comparable)];
  report.regression = report.regression || counts[rank_of(Word::slower)] > 0;
}

void settings_into(Json& head, const Options& options) {
  head["alpha"] = options.comparison.alpha;
  head["claim_alpha"] = options.comparison.claim_alpha;
  head["min_effect"] = options.comparison.min_effect;
}

void list_only(Report& report, const std::vector<const StoredBenchmark*>& only, const StoreContents& here,
               const StoreContents& there) {
  std::unordered_map<std::string, const StoredAbsence*> reasons;
  if (!only.empty())
    for (const auto& absence : there.absences) reasons.emplace(absence.name, &absence);
  for (const auto* benchmark : only) {
    const auto found = reasons.find(benchmark->name);
    const auto why =
        found == reasons.end() ? std::string{} : fmt::format("{}: {}", found->second->status, found->second->reason);
    report.closing.push_back(fmt::format("only in {}: {}{}", here.path, benchmark->name,
                                         why.empty() ? "" : fmt::format(" (in {} {})", there.path, why)));
    report.tail["only_in_one"].push_back({{"name", benchmark->name},
                                          {"store", here.path},
                                          {"other_store_says", why.empty() ? Json(nullptr) : Json(why)}});
  }
}

}  // namespace

Report compare_one(const StoreContents& store, const Options& options) {
  Report report;
  report.head = head_of("comparison", {&store});
  settings_into(report.head, options);
  const auto baseline =
      options.baseline ? *options.baseline : "v00_* of the family; of host variants cpu_v00_*, else reference";
  report.head["baseline"] = baseline;
  report.intro = {describe(store), "paired by round, inside one run; baseline: " + baseline};
  add_absences(report, store, nullptr, options);
  fill(report, pairs_in(store, options), options, {}, false);
  return report;
}

Report compare_two(const StoreContents& before, const StoreContents& after, const Options& options) {
  const auto differences = machine_differences(before, after);
  if (!differences.empty() && !options.allow_different_machines)
    throw DifferentMachines{
        fmt::format("{} and {} are of different machines ({}): their times cannot be told from the "
                    "machines'. Measure both on one, or give --allow_different_machines",
                    before.path, after.path, join(differences, "; "))};
  Report report;
  report.head = head_of("comparison", {&before, &after});
  settings_into(report.head, options);
  report.head["machine_differences"] = differences;
  report.intro = {"old " + describe(before), "new " + describe(after),
                  "unpaired: two runs. What moves between runs (clock, temperature, placement) is in no interval"};
  if (!before.run_id.empty() && before.run_id == after.run_id)
    report.intro.push_back("both stores are of the same run: nothing can differ");
  std::vector<std::string> labels;
  if (!differences.empty()) {
    labels.push_back("different machines");
    report.intro.push_back("DIFFERENT MACHINES: " + join(differences, "; "));
  }
  if (before.protocol != after.protocol) {
    labels.push_back("different protocols");
    report.intro.push_back(
        fmt::format("DIFFERENT PROTOCOLS: {}, then {}; docs/store.md says what changed, and what it can move",
                    before.protocol, after.protocol));
  }
  const auto paired = pairs_across(before, after, options);
  report.tail["only_in_one"] = Json::array();
  list_only(report, paired.only_before, before, after);
  list_only(report, paired.only_after, after, before);
  add_absences(report, before, nullptr, options);
  add_absences(report, after, &before, options);
  fill(report, paired.table, options, labels, true);
  return report;
}

}  // namespace mage::compare
