// SPDX-License-Identifier: Apache-2.0
#include "tools/compare/pairs.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "mage_bench/types.hpp"
#include "tools/compare/words.hpp"

namespace mage::compare {
namespace {

Comparison not_comparable(std::string why) {
  Comparison comparison;
  comparison.word = Word::not_comparable;
  comparison.why = std::move(why);
  return comparison;
}

/// Finds the baseline of each group by one rule.
class BaselineRule {
 public:
  BaselineRule(const StoreContents& store, const Options& options) : text_{options.baseline} {
    for (const auto& absence : store.absences)
      if (const auto name = parse_name(absence.name))
        absences_[key(name->family, name->problem, std::string{mage::to_string(name->mode)})].push_back(
            {name->variant, &absence});
    if (!text_) return;
    // A variant's name is that name in every group: where it is missing, no similar one takes its place.
    const auto named = [this](const auto& entry) { return entry.variant == *text_; };
    is_name_ = std::ranges::any_of(store.benchmarks, named) || std::ranges::any_of(absences_, [&](const auto& group) {
                 return std::ranges::any_of(group.second, named);
               });
    if (!is_name_) filter_ = NameFilter{*text_};
  }

  struct Found {
    const StoredBenchmark* benchmark = nullptr;
    std::string why;  ///< there is none
  };

  [[nodiscard]] Found operator()(const Group& group) const {
    std::vector<const StoredBenchmark*> fitting;
    for (const auto* benchmark : group.benchmarks)
      if (fits(group.kind, benchmark->variant)) fitting.push_back(benchmark);
    if (!text_ && group.kind == Kind::host) {
      if (!fitting.empty()) return {fitting.front(), {}};
      for (const auto* benchmark : group.benchmarks)
        if (is_oracle(benchmark->variant)) return {benchmark, {}};
    }
    if (fitting.size() == 1) return {fitting.front(), {}};
    if (fitting.empty()) return {nullptr, why_none(group)};
    return {nullptr, fmt::format("{} and {} both match {}: name one", fitting[0]->variant, fitting[1]->variant,
                                 wanted(group.kind))};
  }

 private:
  struct Absent {
    std::string variant;
    const StoredAbsence* absence = nullptr;
  };

  static std::string key(const std::string& family, const std::string& problem, const std::string& mode) {
    return family + '/' + problem + '/' + mode;
  }

  [[nodiscard]] bool fits(Kind kind, const std::string& variant) const {
    if (is_name_) return variant == *text_;
    if (text_) return filter_(variant);
    return variant.starts_with(kind == Kind::host ? "cpu_v00_" : "v00_");
  }

  [[nodiscard]] std::string wanted(Kind kind) const {
    if (text_) return "--baseline=" + *text_;
    return kind == Kind::host ? "cpu_v00_* or reference" : "v00_*";
  }

  [[nodiscard]] std::string why_none(const Group& group) const {
    auto why = fmt::format("no baseline: no {} variant of this problem and mode matches {}", to_string(group.kind),
                           wanted(group.kind));
    const auto& first = *group.benchmarks.front();
    const auto found = absences_.find(key(first.family, first.problem, first.mode));
    if (found == absences_.end()) return why;
    for (const auto& [variant, absence] : found->second)
      if (kind_of(variant) == group.kind && fits(group.kind, variant))
        return fmt::format("no baseline: {} is {}: {}", variant, absence->status, absence->reason);
    return why;
  }

  std::optional<std::string> text_;
  bool is_name_ = false;
  NameFilter filter_;
  std::map<std::string, std::vector<Absent>> absences_;
};

/// What a test by ranks says where all rounds agree and none tie: it cannot say less of so few rounds.
double smallest_p_by_ranks(const Pair& pair, const Comparison& comparison) {
  if (comparison.paired) return std::ldexp(1.0, 1 - comparison.rounds);
  const auto old_rounds = static_cast<double>(pair.baseline->rounds.size());
  double p = 2;  // over the number of ways to choose the new rounds among all
  for (std::size_t k = 1; k <= pair.candidate->rounds.size(); ++k)
    p *= static_cast<double>(k) / (old_rounds + static_cast<double>(k));
  return p;
}

}  // namespace

void Table::add(const Pair& pair, Comparison comparison) {
  pairs.push_back(pair);
  comparisons.push_back(std::move(comparison));
}

void Table::decide_all(const ComparisonOptions& options) { decide(comparisons, options); }

int Table::tests() const {
  return static_cast<int>(std::ranges::count_if(comparisons, [](const Comparison& comparison) {
    return comparison.word != Word::not_comparable && comparison.p_value.has_value();
  }));
}

Table pairs_in(const StoreContents& store, const Options& options) {
  const BaselineRule baseline_of{store, options};
  Table table;
  for (const auto& group : groups_of(store, options.selection)) {
    const auto baseline = baseline_of(group);
    for (const auto* candidate : group.benchmarks) {
      if (candidate == baseline.benchmark || !options.selection.variant(candidate->variant)) continue;
      // Being slower than a first version is no regression of it. It is a candidate where the baseline is named.
      if (is_oracle(candidate->variant) && baseline.benchmark && !options.baseline) continue;
      const Pair pair{candidate, baseline.benchmark};
      table.add(pair, pair.baseline ? compare_paired(*pair.baseline, *candidate, options.comparison)
                                    : not_comparable(baseline.why));
    }
  }
  table.decide_all(options.comparison);
  return table;
}

TwoStores pairs_across(const StoreContents& before, const StoreContents& after, const Options& options) {
  TwoStores result;
  auto old = before.benchmarks.begin();
  auto now = after.benchmarks.begin();
  // Both are sorted by name.
  while (old != before.benchmarks.end() || now != after.benchmarks.end()) {
    const bool take_old = now == after.benchmarks.end() || (old != before.benchmarks.end() && old->name <= now->name);
    const bool take_new = old == before.benchmarks.end() || (now != after.benchmarks.end() && now->name <= old->name);
    const auto& any = take_old ? *old : *now;
    if (selects(options.selection, any)) {
      if (take_old && take_new) {
        const Pair pair{&*now, &*old};
        result.table.add(pair, compare_unpaired(*pair.baseline, *pair.candidate, options.comparison));
      } else {
        (take_old ? result.only_before : result.only_after).push_back(&any);
      }
    }
    if (take_old) ++old;
    if (take_new) ++now;
  }
  result.table.decide_all(options.comparison);
  return result;
}

std::vector<std::string> machine_differences(const StoreContents& before, const StoreContents& after) {
  std::vector<std::string> differences;
  const auto look = [&](const char* what, const std::string& old, const std::string& now) {
    if (old != now)
      differences.push_back(
          fmt::format("{}: {}, then {}", what, old.empty() ? "none" : old, now.empty() ? "none" : now));
  };
  look("GPU", before.gpu_name, after.gpu_name);
  look("GPU uuid", before.gpu_uuid, after.gpu_uuid);
  look("driver", before.driver, after.driver);
  look("CUDA runtime", before.runtime, after.runtime);
  return differences;
}

std::vector<std::string> notes_on(const Pair& pair, const Comparison& comparison, const ComparisonOptions& options) {
  auto notes = comparison.notes;
  if (!comparison.why.empty()) notes.insert(notes.begin(), comparison.why);
  const bool claimed = comparison.word == Word::slower || comparison.word == Word::faster;
  // Where no order of so few rounds could support the claim, that this one does not says nothing.
  if (claimed && comparison.wilcoxon_p_value && *comparison.wilcoxon_p_value >= options.alpha &&
      smallest_p_by_ranks(pair, comparison) < options.alpha)
    notes.push_back("ranks do not agree: p " + probability(comparison.wilcoxon_p_value) + " by Wilcoxon");
  if (pair.baseline && pair.baseline->name == pair.candidate->name && pair.baseline->picked != pair.candidate->picked)
    notes.push_back(fmt::format("picks another variant: {}, now {}", pair.baseline->picked, pair.candidate->picked));
  else if (!pair.candidate->picked.empty())
    notes.push_back("runs " + pair.candidate->picked);
  return notes;
}

}  // namespace mage::compare
