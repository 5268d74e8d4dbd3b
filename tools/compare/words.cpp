// SPDX-License-Identifier: Apache-2.0
#include "tools/compare/words.hpp"

#include <fmt/format.h>
#include <cmath>
#include <stdexcept>
#include <string_view>

#include "mage_bench/types.hpp"

namespace mage::compare {
namespace {

std::string boundary(TimingMode mode) {
  switch (mode) {
    case TimingMode::event: return "stream time between two events around one operation, warm L2, host enqueue hidden";
    case TimingMode::event_cold:
      return "stream time between two events around one operation, L2 swept cold and clean, host enqueue hidden";
    case TimingMode::batch:
      return "stream time of one operation among many enqueued in a row: the slope between N and 2N of them, fixed cost "
             "excluded";
    case TimingMode::graph:
      return "stream time of one operation inside a graph: the slope between graphs of one and of K of them, replay "
             "cost excluded";
    case TimingMode::host:
      return "time by the host's clock from the call to the end of the work: launch, work and synchronisation";
    case TimingMode::kernel:
      return "device time of the operation's kernels by CUPTI, added up: launches and gaps excluded";
  }
  throw std::invalid_argument{"no timing mode"};
}

/// The length of the control character that the text begins with, or 0: C0 and C1 controls, and in UTF-8 what embeds,
/// overrides or isolates a direction, U+202A to U+202E and U+2066 to U+2069.
std::size_t control_at(std::string_view text) {
  const auto byte = [text](std::size_t k) { return k < text.size() ? static_cast<unsigned char>(text[k]) : 0U; };
  if (byte(0) < 0x20 || byte(0) == 0x7f) return 1;
  if (byte(0) == 0xc2 && byte(1) >= 0x80 && byte(1) <= 0x9f) return 2;
  const bool overrides = byte(1) == 0x80 && byte(2) >= 0xaa && byte(2) <= 0xae;
  const bool isolates = byte(1) == 0x81 && byte(2) >= 0xa6 && byte(2) <= 0xa9;
  return byte(0) == 0xe2 && (overrides || isolates) ? 3 : 0;
}

}  // namespace

std::string boundary(const std::string& mode) {
  const auto known = parse_mode(mode);
  return known ? boundary(*known) : "unknown: this mage_compare does not know the mode";
}

std::vector<std::string> boundaries(const std::set<std::string>& modes) {
  std::vector<std::string> lines;
  lines.reserve(modes.size());
  for (const auto& mode : modes) lines.push_back(mode + ": " + boundary(mode));
  return lines;
}

std::string microseconds(std::optional<double> us) {
  if (!us) return "-";
  return std::fabs(*us) < 100 ? fmt::format("{:.3f}", *us) : fmt::format("{:.1f}", *us);
}

std::string ratio(std::optional<double> value) { return value ? fmt::format("{:.4f}", *value) : "-"; }

std::string interval(const std::optional<statistics::Interval>& value) {
  return value ? fmt::format("[{:.4f}, {:.4f}]", value->low, value->high) : "-";
}

std::string probability(std::optional<double> value) {
  if (!value) return "-";
  return *value < 1e-4 ? "<0.0001" : fmt::format("{:.4f}", *value);
}

std::string join(const std::vector<std::string>& items, const char* between) {
  std::string text;
  for (const auto& item : items) text += (text.empty() ? "" : between) + item;
  return text;
}

std::string harmless(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const auto control = control_at(text);
    result += control > 0 ? '?' : text.front();
    text.remove_prefix(control > 0 ? control : 1);
  }
  return result;
}

Json number(std::optional<double> value) { return value && std::isfinite(*value) ? Json(*value) : Json(nullptr); }

double median_us(const StoredBenchmark& benchmark) {
  std::vector<double> medians;
  medians.reserve(benchmark.rounds.size());
  for (const auto& round : benchmark.rounds) medians.push_back(round.median_us);
  return statistics::median(medians);
}

std::string describe(const StoreContents& store) {
  const auto machine = store.gpu_name.empty() ? std::string{"no GPU"}
                                              : fmt::format("{}, driver {}, runtime {}", store.gpu_name,
                                                            store.driver.empty() ? "unknown" : store.driver,
                                                            store.runtime.empty() ? "unknown" : store.runtime);
  const auto commit = store.git_commit.empty() ? std::string{"unknown"} : store.git_commit.substr(0, 12);
  return fmt::format("{}: run {} of {}, commit {}{}, {}{}", store.path, store.run_id.substr(0, 8), store.started_utc,
                     commit, store.git_dirty == true ? " with changes" : "", machine,
                     store.complete ? "" : "; INCOMPLETE: the run did not come to its end");
}

Json fields_of(const StoreContents& store) {
  const auto text = [](const std::string& value) { return value.empty() ? Json(nullptr) : Json(value); };
  Json fields;
  fields["path"] = store.path;
  fields["run_id"] = text(store.run_id);
  fields["started_utc"] = text(store.started_utc);
  fields["complete"] = store.complete;
  fields["protocol"] = store.protocol;
  fields["git_commit"] = text(store.git_commit);
  fields["git_dirty"] = store.git_dirty ? Json(*store.git_dirty) : Json(nullptr);
  fields["executable_sha256"] = text(store.executable_sha256);
  fields["kernel_sources_sha256"] = text(store.kernel_sources_sha256);
  fields["gpu_name"] = text(store.gpu_name);
  fields["gpu_uuid"] = text(store.gpu_uuid);
  fields["driver"] = text(store.driver);
  fields["runtime"] = text(store.runtime);
  return fields;
}

Json head_of(const char* report, const std::vector<const StoreContents*>& stores) {
  Json head;
  head["schema"] = "mage_compare/report/1";
  head["report"] = report;
  head["stores"] = Json::array();
  for (const auto* store : stores) head["stores"].push_back(fields_of(*store));
  return head;
}

}  // namespace mage::compare
