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
      const bool has_ratio = comparison.word != Word::not_comparable;
      const double size = has_ratio ? std::max(comparison.ratio, 1 / comparison.ratio) : 0;
      return std::pair{rank_of(comparison.word), -size};
    };
    const auto left = key(a);
    const auto right = key(b);
    return left != right ? left < right : table.pairs[a].candidate->name < table.pairs[b].candidate->name;
  });
  return order;
}

std::string pairing(const Comparison& comparison) { return comparison.paired ? "paired by round" : "unpaired"; }

Row row_of(const Pair& pair, const Comparison& comparison, const std::vector<std::string>& labels, bool across_runs,
           const ComparisonOptions& options) {
  const auto& candidate = *pair.candidate;
  const bool has_ratio = comparison.word != Word::not_comparable;
  const auto baseline_us =
      pair.baseline ? std::optional{has_ratio ? comparison.baseline_us : median_us(*pair.baseline)} : std::nullopt;
  const double candidate_us = has_ratio ? comparison.candidate_us : median_us(candidate);
  const auto value = [&](double figure) { return has_ratio ? std::optional{figure} : std::nullopt; };
  const auto limits = has_ratio ? comparison.interval : std::nullopt;
  const auto baseline_flags = pair.baseline ? pair.baseline->flags : std::vector<std::string>{};
  const auto adjusted = has_ratio && comparison.p_value ? std::optional{comparison.adjusted_p_value} : std::nullopt;
  auto notes = notes_on(comparison, options);
  notes.insert(notes.begin(), labels.begin(), labels.end());

  Row row;
  row.tone = tone_of(comparison.word);
  row.cells = {std::string{to_string(comparison.word)},
               candidate.name,
               pair.baseline ? (across_runs ? "old" : pair.baseline->variant) : "-",
               microseconds(baseline_us),
               microseconds(candidate_us),
               ratio(value(comparison.ratio)),
               interval(limits),
               probability(adjusted),
               has_ratio ? fmt::format("{} {}", comparison.rounds, comparison.paired ? "paired" : "unpaired") : "-",
               join(candidate.flags, " "),
               join(baseline_flags, " "),
               join(notes, "; ")};
  auto& fields = row.fields;
  fields["name"] = candidate.name;
  fields["family"] = candidate.family;
  fields["problem"] = candidate.problem;
  fields["mode"] = candidate.mode;
  fields["candidate"] = candidate.variant;
  fields["baseline"] = pair.baseline ? Json(pair.baseline->variant) : Json(nullptr);
  fields["word"] = to_string(comparison.word);
  fields["baseline_us"] = number(baseline_us);
  fields["candidate_us"] = number(candidate_us);
  fields["ratio"] = number(value(comparison.ratio));
  fields["ratio_low"] = number(limits ? std::optional{limits->low} : std::nullopt);
  fields["ratio_high"] = number(limits ? std::optional{limits->high} : std::nullopt);
  fields["hodges_lehmann_ratio"] = number(value(comparison.hodges_lehmann_ratio));
  fields["p_value"] = number(has_ratio ? comparison.p_value : std::nullopt);
  fields["adjusted_p_value"] = number(adjusted);
  fields["wilcoxon_p_value"] = number(has_ratio ? comparison.wilcoxon_p_value : std::nullopt);
  fields["rounds"] = comparison.rounds;
  fields["pairing"] = has_ratio ? Json(pairing(comparison)) : Json(nullptr);
  fields["candidate_flags"] = candidate.flags;
  fields["baseline_flags"] = baseline_flags;
  fields["notes"] = notes;
  fields["boundary"] = boundary(candidate.mode);
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
  report.fields = {"name",
                   "family",
                   "problem",
                   "mode",
                   "candidate",
                   "baseline",
                   "word",
                   "baseline_us",
                   "candidate_us",
                   "ratio",
                   "ratio_low",
                   "ratio_high",
                   "hodges_lehmann_ratio",
                   "p_value",
                   "adjusted_p_value",
                   "wilcoxon_p_value",
                   "rounds",
                   "pairing",
                   "candidate_flags",
                   "baseline_flags",
                   "notes",
                   "boundary"};
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
  report.regression = counts[rank_of(Word::slower)] > 0;
}

void settings_into(Json& head, const Options& options) {
  head["alpha"] = options.comparison.alpha;
  head["min_effect"] = options.comparison.min_effect;
}

/// Selected benchmarks without a time. Most are only not available here; what is wrong or failed is named.
void add_absences(Report& report, const StoreContents& store, const Options& options) {
  std::map<std::string, int> counts;
  report.tail["without_time"] = Json::array();
  for (const auto& absence : store.absences) {
    StoredBenchmark parts;
    if (const auto name = parse_name(absence.name)) {
      parts.family = name->family;
      parts.variant = name->variant;
      parts.problem = name->problem;
      parts.mode = mage::to_string(name->mode);
    }
    if (!selects(options.selection, parts)) continue;
    counts[absence.status] += 1;
    report.tail["without_time"].push_back(
        {{"name", absence.name}, {"status", absence.status}, {"reason", absence.reason}});
    if (absence.status == "wrong" || absence.status == "failed")
      report.closing.push_back(fmt::format("without a time: {}: {}: {}", absence.name, absence.status, absence.reason));
  }
  std::string text;
  for (const auto& [status, count] : counts) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, status);
  if (!text.empty()) report.closing.push_back("without a time in the store: " + text);
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
  add_absences(report, store, options);
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
  const auto paired = pairs_across(before, after, options);
  report.tail["only_in_one"] = Json::array();
  list_only(report, paired.only_before, before, after);
  list_only(report, paired.only_after, after, before);
  fill(report, paired.table, options, labels, true);
  return report;
}

}  // namespace mage::compare
