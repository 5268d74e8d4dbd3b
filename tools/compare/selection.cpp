// SPDX-License-Identifier: Apache-2.0
#include "tools/compare/selection.hpp"

#include <fmt/format.h>
#include <map>
#include <set>
#include <stdexcept>
#include <tuple>

#include "tools/compare/words.hpp"

namespace mage::compare {
namespace {

/// The first of them, and how many there are: a store may hold thousands.
std::string some_of(const std::set<std::string>& names) {
  constexpr std::size_t shown = 30;
  std::string text;
  std::size_t count = 0;
  for (const auto& name : names) {
    if (count++ == shown) return text + fmt::format(", ... ({} in all)", names.size());
    text += (text.empty() ? "" : ", ") + harmless(name);
  }
  return text;
}

}  // namespace

NameFilter::NameFilter(const std::string& text)
    : regex_{std::regex{text.starts_with('-') ? text.substr(1) : text}}, negated_{text.starts_with('-')} {}

bool NameFilter::operator()(const std::string& name) const {
  if (!regex_) return true;
  if (name.size() > longest_searched)
    throw std::runtime_error{
        fmt::format("a name of {} characters, '{}...', is too long to be searched; the limit is {}", name.size(),
                    name.substr(0, 40), longest_searched)};
  return std::regex_search(name, *regex_) != negated_;
}

std::string_view to_string(Kind kind) {
  switch (kind) {
    case Kind::gpu: return "gpu";
    case Kind::host: return "host";
  }
  throw std::invalid_argument{"no kind of variant"};
}

bool is_oracle(const std::string& variant) { return variant == "reference"; }

Kind kind_of(const std::string& variant) {
  return is_oracle(variant) || variant.starts_with("cpu_") ? Kind::host : Kind::gpu;
}

std::vector<Group> groups_of(const StoreContents& store, const Selection& selection) {
  std::map<std::tuple<std::string, std::string, std::string, Kind>, Group> groups;
  for (const auto& benchmark : store.benchmarks) {
    if (!selection.family(benchmark.family) || !selection.problem(benchmark.problem) || !selection.mode(benchmark.mode))
      continue;
    const auto kind = kind_of(benchmark.variant);
    auto& group = groups[{benchmark.family, benchmark.problem, benchmark.mode, kind}];
    group.kind = kind;
    group.benchmarks.push_back(&benchmark);
  }
  std::vector<Group> result;
  result.reserve(groups.size());
  for (auto& [key, group] : groups) result.push_back(std::move(group));
  return result;
}

bool selects(const Selection& selection, const StoredBenchmark& benchmark) {
  return selection.family(benchmark.family) && selection.variant(benchmark.variant) &&
         selection.problem(benchmark.problem) && selection.mode(benchmark.mode);
}

std::string what_it_holds(const StoreContents& store) {
  struct Held {
    std::set<std::string> variants, problems, modes;
  };
  std::map<std::string, Held> families;
  for (const auto& benchmark : store.benchmarks) {
    auto& held = families[benchmark.family];
    held.variants.insert(benchmark.variant);
    held.problems.insert(benchmark.problem);
    held.modes.insert(benchmark.mode);
  }
  if (families.empty())
    return fmt::format("{} holds no benchmark with a time, and {} without one\n", harmless(store.path),
                       store.absences.size());
  std::string text = harmless(store.path) + " holds:\n";
  for (const auto& [family, held] : families)
    text += fmt::format("  family {}\n    variants {}\n    problems {}\n    modes {}\n", harmless(family),
                        some_of(held.variants), some_of(held.problems), some_of(held.modes));
  return text;
}

}  // namespace mage::compare
