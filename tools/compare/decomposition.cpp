// SPDX-License-Identifier: Apache-2.0
// Where the time of a launch goes: what the modes of one variant and problem say together.
#include <fmt/format.h>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "mage_bench/types.hpp"
#include "tools/compare/report.hpp"
#include "tools/compare/words.hpp"

namespace mage::compare {
namespace {

using Figure = std::optional<double>;

Figure operator-(Figure a, Figure b) { return a && b ? Figure{*a - *b} : std::nullopt; }

/// The modes of one variant on one problem.
struct Modes {
  const StoredBenchmark* any = nullptr;
  std::map<TimingMode, const StoredBenchmark*> of;

  [[nodiscard]] Figure median(TimingMode mode) const {
    const auto found = of.find(mode);
    return found == of.end() ? std::nullopt : Figure{median_us(*found->second)};
  }
  [[nodiscard]] Figure part(TimingMode mode, const char* name) const {
    const auto found = of.find(mode);
    if (found == of.end()) return std::nullopt;
    const auto& parts = found->second->part_medians_us;
    const auto value = parts.find(name);
    return value == parts.end() ? std::nullopt : Figure{value->second};
  }
  /// Of the operation that does nothing, in the same rounds.
  [[nodiscard]] Figure floor(TimingMode mode) const {
    const auto found = of.find(mode);
    return found == of.end() ? std::nullopt : found->second->floor_us;
  }
};

struct Piece {
  const char* heading;
  const char* field;
  const char* meaning;
  Figure (*of)(const Modes& modes);
};

Figure event_overhead(const Modes& modes) { return modes.floor(TimingMode::event) - modes.floor(TimingMode::kernel); }

/// The one list of columns, in order.
constexpr std::array pieces{
    Piece{"submit", "submit_us", "host time from the call to its return (mode host)",
          [](const Modes& modes) { return modes.part(TimingMode::host, "submit_us"); }},
    Piece{"event", "event_us", "span between two events around one operation, enqueueing hidden (mode event)",
          [](const Modes& modes) { return modes.median(TimingMode::event); }},
    Piece{"kernels", "kernels_us", "durations of its kernels added up (mode kernel)",
          [](const Modes& modes) { return modes.median(TimingMode::kernel); }},
    Piece{"gaps", "gaps_us", "gap_us of mode kernel less the event overhead: time in the span without a kernel",
          [](const Modes& modes) { return modes.part(TimingMode::kernel, "gap_us") - event_overhead(modes); }},
    Piece{"event overhead", "event_overhead_us",
          "floor of mode event less floor of mode kernel: what an event span has over an empty kernel", event_overhead},
    Piece{"residual", "residual_us",
          "event less (kernels + gaps + event overhead): what the traced pass does not explain, never forced to 0",
          [](const Modes& modes) {
            return modes.median(TimingMode::event) - modes.median(TimingMode::kernel) -
                   modes.part(TimingMode::kernel, "gap_us");
          }},
    Piece{"host", "host_us", "from the call to the end of the work (mode host)",
          [](const Modes& modes) { return modes.median(TimingMode::host); }},
    Piece{"host exposure", "host_exposure_us", "host less event: launch and synchronisation that a lone call waits for",
          [](const Modes& modes) { return modes.median(TimingMode::host) - modes.median(TimingMode::event); }},
    Piece{"batch", "batch_us", "time an operation among many on a stream (mode batch)",
          [](const Modes& modes) { return modes.median(TimingMode::batch); }},
    Piece{"graph", "graph_us", "time an operation inside a graph (mode graph)",
          [](const Modes& modes) { return modes.median(TimingMode::graph); }},
    Piece{"graph saving", "graph_saving_us", "batch less graph: what a graph saves an operation",
          [](const Modes& modes) { return modes.median(TimingMode::batch) - modes.median(TimingMode::graph); }},
};

Row row_of(const Modes& modes) {
  std::vector<std::string> flags;
  for (const auto& [mode, benchmark] : modes.of)
    if (!benchmark->flags.empty())
      flags.push_back(fmt::format("{}: {}", mage::to_string(mode), join(benchmark->flags, " ")));
  Row row;
  row.cells = {modes.any->variant};
  row.fields["family"] = modes.any->family;
  row.fields["variant"] = modes.any->variant;
  row.fields["problem"] = modes.any->problem;
  for (const auto& piece : pieces) {
    const auto value = piece.of(modes);
    row.cells.push_back(microseconds(value));
    row.fields[piece.field] = number(value);
  }
  row.cells.push_back(join(flags, "; "));
  row.fields["flags"] = flags;
  return row;
}

}  // namespace

Report decompose(const StoreContents& store, const Options& options) {
  std::map<std::pair<std::string, std::string>, std::map<std::string, Modes>> problems;
  for (const auto& benchmark : store.benchmarks) {
    const auto mode = parse_mode(benchmark.mode);
    if (!mode || !selects(options.selection, benchmark)) continue;
    auto& modes = problems[{benchmark.family, benchmark.problem}][benchmark.variant];
    modes.any = &benchmark;
    modes.of[*mode] = &benchmark;
  }

  Report report;
  report.head = head_of("decomposition", {&store});
  report.intro = {
      describe(store),
      "medians over rounds in microseconds. Differences are between modes, which are different measurements: "
      "a map of where the time goes, no result",
      "- : a mode, a floor or a series that it needs is not in the store, or not selected"};
  report.columns = {{"variant"}};
  report.fields = {"family", "variant", "problem"};
  report.head["fields"] = Json::object();
  for (const auto& piece : pieces) {
    report.columns.push_back({piece.heading, true});
    report.fields.emplace_back(piece.field);
    report.legend.push_back(fmt::format("{}: {}", piece.heading, piece.meaning));
    report.head["fields"][piece.field] = piece.meaning;
  }
  report.columns.push_back({"flags"});
  report.fields.emplace_back("flags");
  for (const auto& [key, variants] : problems) {
    auto& section = report.sections.emplace_back();
    section.title = key.first + "/*/" + key.second;
    for (const auto& [variant, modes] : variants) section.rows.push_back(row_of(modes));
    report.comparable += static_cast<int>(section.rows.size());
  }
  add_absences(report, store, nullptr, options);
  report.closing.push_back(fmt::format("{} row{}", report.comparable, report.comparable == 1 ? "" : "s"));
  return report;
}

}  // namespace mage::compare
