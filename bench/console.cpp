// SPDX-License-Identifier: Apache-2.0
#include "bench/console.hpp"

#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>

#include "mage_bench/case.hpp"

namespace mage {
namespace {

using Json = nlohmann::ordered_json;

/// To a file that may be closed: a lost line of output is no reason to stop measuring.
bool put(std::FILE* file, const std::string& text) {
  return std::fputs(text.c_str(), file) >= 0 && std::fflush(file) == 0;
}

std::string join(const Json& list) {
  std::string text;
  for (const auto& item : list) text += (text.empty() ? "" : " ") + item.get<std::string>();
  return text;
}

std::string microseconds(const Json& value) {
  if (value.is_null()) return "-";
  const auto us = value.get<double>();
  return us < 100 ? fmt::format("{:.3f}", us) : fmt::format("{:.1f}", us);
}

std::string interval(const Json& value) {
  return value.is_null() ? "-" : fmt::format("[{}, {}]", microseconds(value[0]), microseconds(value[1]));
}

std::string rate(const Json& value) {
  return value.is_null() || value == 0.0 ? "-" : fmt::format("{:.4g}", value.get<double>());
}

bool above_ceiling(const Json& row) {
  const auto& ceiling = row.at("ceiling");
  return !ceiling.is_null() && ceiling.at("fraction").get<double>() > 1;
}

/// How much of its ceiling a row reaches, in percent. Above it, a letter as in tools/table.py points to the legend.
std::string share(const Json& row) {
  const auto& ceiling = row.at("ceiling");
  if (ceiling.is_null()) return "-";
  return fmt::format("{:.1f}{}", 100 * ceiling.at("fraction").get<double>(), above_ceiling(row) ? " b" : "");
}

/// What nobody should overlook in a list of names.
std::string marks(const VariantInfo& variant) {
  std::string text;
  if (!variant.counter_example.empty()) text += "  (counter-example)";
  if (!variant.deterministic) text += "  (not deterministic)";
  return text;
}

}  // namespace

Console::Console(Color color) : terminal_{::isatty(STDERR_FILENO) == 1} {
  color_ = color == Color::yes || (color == Color::automatic && ::isatty(STDOUT_FILENO) == 1);
}

std::string Console::paint(const std::string& text, const char* code) const {
  return color_ && !text.empty() ? fmt::format("\033[{}m{}\033[0m", code, text) : text;
}

void Console::clear_progress() {
  if (!progress_shown_) return;
  put(stderr, "\r\033[K");
  progress_shown_ = false;
}

void Console::line(const std::string& text) {
  clear_progress();
  put(stdout, text + '\n');
}

void Console::complain(const std::string& text) {
  clear_progress();
  put(stderr, fmt::format("mage_bench: {}\n", text));
}

void Console::progress(int done, int total, double seconds_left, const std::string& now) {
  if (!terminal_) return;
  const auto left = seconds_left < 0 ? std::string{} : fmt::format(", {:.0f} s left", seconds_left);
  put(stderr, fmt::format("\r\033[K[{}/{}{}] {}", done, total, left, now));
  progress_shown_ = true;
}

void Console::table(const std::string& title, const std::vector<Json>& aggregates) {
  clear_progress();
  std::size_t width = 20;
  for (const auto& row : aggregates) width = std::max(width, row.at("name").get<std::string>().size());
  // The column is there only where the run has ceilings to hold these rows against.
  const bool ceilings =
      std::any_of(aggregates.begin(), aggregates.end(), [](const Json& row) { return !row.at("ceiling").is_null(); });
  const auto column = [&](const std::string& text) { return ceilings ? fmt::format(" {:>9}", text) : std::string{}; };
  std::string text = paint(title, "1") + '\n';
  text += fmt::format("{:<{}} {:>10} {:>22} {:>8} {:>8} {:>8}{}  {}\n", "benchmark", width, "median us",
                      "95 % interval", "floor", "GB/s", "TFLOP/s", column("ceiling %"), "flags");
  const auto remarks = [&](const Json& row) {
    auto flags = paint(join(row.at("flags")), "33");
    const auto runs = row.find("picked");
    if (runs == row.end()) return flags;
    return fmt::format("{}{}runs {}", flags, flags.empty() ? "" : " ", runs->get<std::string>());
  };
  std::string legend;
  for (const auto& row : aggregates) {
    const auto name = row.at("name").get<std::string>();
    text +=
        fmt::format("{:<{}} {:>10} {:>22} {:>8} {:>8} {:>8}{}  {}\n", name, width, microseconds(row.at("median_us")),
                    interval(row.at("interval95_us")), microseconds(row.at("floor_us")), rate(row.at("gbytes_per_s")),
                    rate(row.at("tflops")), column(share(row)), remarks(row));
    if (above_ceiling(row)) legend += fmt::format("  {}: {}\n", name, row.at("ceiling").at("why").get<std::string>());
  }
  if (!legend.empty()) legend = "b above_ceiling: faster than the limit that this run measured\n" + legend;
  put(stdout, text + legend);
}

void Console::without_time(const Json& unavailable, const Json& failed) {
  clear_progress();
  std::map<std::string, std::set<std::string>> variants;
  std::map<std::string, int> rows;
  for (const auto& entry : unavailable) {
    const auto group =
        fmt::format("{}: {}", entry.at("status").get<std::string>(), entry.at("reason").get<std::string>());
    const auto name = parse_name(entry.at("name").get<std::string>());
    if (name) variants[group].insert(name->family + "/" + name->variant);
    rows[group] += 1;
  }
  for (const auto& [group, names] : variants) {
    std::string list;
    for (const auto& name : names) list += (list.empty() ? "" : ", ") + name;
    put(stdout, fmt::format("{} ({} rows of {})\n", paint(group, "33"), rows[group], list));
  }
  for (const auto& entry : failed)
    put(stdout, fmt::format("{} {}: {}\n", paint(entry.at("status").get<std::string>(), "1;31"),
                            entry.at("name").get<std::string>(), entry.at("reason").get<std::string>()));
}

bool Console::text(const std::string& whole) {
  clear_progress();
  return put(stdout, whole) || errno == EPIPE;  // a reader that has seen enough is no error
}

std::string describe_plan(const Plan& plan, const Options& options) {
  std::string text = fmt::format("{} fixtures, {} of them runnable here, {} rounds in all; seed {}{}\n",
                                 plan.fixtures.size(), plan.runnable(), plan.steps(), options.seed,
                                 plan.balanced ? "" : "; order NOT balanced: rounds are no multiple of the design");
  for (const auto& problem : plan.problems) {
    const auto operands = problem.family->operands(problem.problem);
    text += fmt::format("\n{}/{}{}: {} bytes on the device, {} on the host; {} steps\n", problem.family->name(),
                        problem.problem.name, problem.traced ? " (traced pass)" : "", Case::device_bytes(operands),
                        Case::host_bytes(operands), problem.steps.size());
    for (const int index : problem.fixtures) {
      const auto& fixture = plan.fixtures[static_cast<std::size_t>(index)];
      if (fixture.status == Status::ok)
        text += fmt::format("  {}  rounds {}\n", fixture.name, plan.rounds[static_cast<std::size_t>(index)]);
      else
        text += fmt::format("  {}  {}: {}\n", fixture.name, to_string(fixture.status), fixture.detail);
    }
    text += "  order:";
    for (const auto& step : problem.steps) {
      const auto& fixture = plan.fixtures[static_cast<std::size_t>(step.fixture)];
      if (step.position == 0) text += fmt::format("\n    round {} {}:", step.round, to_string(fixture.mode));
      text += " " + fixture.variant->name;
    }
    text += '\n';
  }
  return text;
}

std::string list_fixtures(const std::vector<Fixture>& fixtures, ListFormat format) {
  if (format != ListFormat::json) {
    std::string text;
    for (const auto& fixture : fixtures)
      text += fixture.name + (format == ListFormat::text ? marks(*fixture.variant) : "") + '\n';
    return text;
  }
  Json list = Json::array();
  for (const auto& fixture : fixtures) {
    const auto& variant = *fixture.variant;
    Json entry;
    entry["name"] = fixture.name;
    entry["family"] = variant.family;
    entry["variant"] = variant.name;
    entry["problem"] = fixture.problem.name;
    entry["mode"] = to_string(fixture.mode);
    entry["source"] = variant.source;
    entry["skipped"] = variant.skipped ? Json(to_string(*variant.skipped)) : Json(nullptr);
    if (!variant.skipped) {
      entry["accepts"] = accepts(variant, fixture.problem);
      entry["parent"] = variant.parent.empty() ? Json(nullptr) : Json(variant.parent);
      entry["note"] = variant.note;
      entry["provider"] = variant.provider;
      entry["min_cc"] = variant.min_cc;
      entry["deterministic"] = variant.deterministic;
      if (const auto& runs = picked(variant, fixture.problem); &runs != &variant) entry["picked"] = runs.name;
      if (!variant.counter_example.empty()) entry["counter_example"] = variant.counter_example;
    }
    const auto work = fixture.family->work(fixture.problem);
    entry["flops"] = work.flops;
    entry["bytes_read"] = work.bytes_read;
    entry["bytes_written"] = work.bytes_written;
    entry["tolerance"] = fixture.family->tolerance(fixture.problem);
    list.push_back(std::move(entry));
  }
  return list.dump(1) + '\n';
}

std::string what_exists(const Options& options, const Machine& machine) {
  Options everything = options;
  everything.filter = ".";
  std::string text = fmt::format("no benchmark matches --benchmark_filter={}", options.filter);
  if (options.modes.size() != all_modes.size()) text += " in the modes given";
  text += ". There are:\n";
  for (const auto* family : families()) {
    std::set<std::string> variants;
    std::set<std::string> problems;
    for (const auto& fixture : select_fixtures(everything, machine)) {
      if (fixture.family != family) continue;
      variants.insert(fixture.variant->name);
      problems.insert(fixture.problem.name);
    }
    text += fmt::format("  {}/{{{}}}/{{{}}}\n", family->name(), fmt::join(variants, ","), fmt::join(problems, ","));
  }
  return text + "Names are family/variant/problem/mode; --mage_list prints them all.\n";
}

}  // namespace mage
