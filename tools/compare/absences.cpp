// SPDX-License-Identifier: Apache-2.0
// What has no time, in every report.
#include <fmt/format.h>
#include <algorithm>
#include <map>

#include "tools/compare/report.hpp"
#include "tools/compare/words.hpp"

namespace mage::compare {

void add_absences(Report& report, const StoreContents& store, const StoreContents* before, const Options& options) {
  std::map<std::string, int> counts;
  auto& listed = report.tail["without_time"];
  if (listed.is_null()) listed = Json::array();
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
    const bool bad = absence.status == "wrong" || absence.status == "failed";
    const bool regression =
        bad && before && std::ranges::binary_search(before->benchmarks, absence.name, {}, &StoredBenchmark::name);
    listed.push_back({{"name", absence.name},
                      {"store", store.path},
                      {"status", absence.status},
                      {"reason", absence.reason},
                      {"regression", regression}});
    if (regression) {
      report.regression = true;
      report.closing.push_back(fmt::format("REGRESSION: {} has a time in {}, and in {} it is {}: {}", absence.name,
                                           before->path, store.path, absence.status, absence.reason));
    } else if (bad) {
      report.closing.push_back(
          fmt::format("without a time in {}: {}: {}: {}", store.path, absence.name, absence.status, absence.reason));
    }
  }
  std::string text;
  for (const auto& [status, count] : counts) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, status);
  if (!text.empty()) report.closing.push_back(fmt::format("without a time in {}: {}", store.path, text));
}

}  // namespace mage::compare
