// SPDX-License-Identifier: Apache-2.0
#include "bench/measurement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>

#include "bench/benchmark_bridge.hpp"
#include "bench/provenance.hpp"
#include "bench/run_record.hpp"
#include "bench/statistics.hpp"
#include "bench/store.hpp"

namespace mage {
namespace {

using Json = nlohmann::ordered_json;

Json options_json(const Options& options, const Plan& plan) {
  Json modes = Json::array();
  for (const auto mode : options.modes) modes.push_back(to_string(mode));
  return {{"filter", options.filter},
          {"modes", modes},
          {"rounds", options.rounds == 0 ? Json(nullptr) : Json(options.rounds)},
          {"samples", options.samples == 0 ? Json(nullptr) : Json(options.samples)},
          {"seed", options.seed},
          {"round_budget_s", options.round_budget_s},
          {"max_bytes", options.max_bytes == 0 ? Json(nullptr) : Json(options.max_bytes)},
          {"device", options.device},
          {"balanced", plan.balanced}};
}

/// The order that will be executed: for each problem a list of [fixture, round], with the fixtures' names once.
Json plan_json(const Plan& plan) {
  Json problems = Json::array();
  for (const auto& problem : plan.problems) {
    if (problem.steps.empty()) continue;
    Json steps = Json::array();
    for (const auto& step : problem.steps) steps.push_back({step.fixture, step.round});
    problems.push_back({{"family", problem.family->name()},
                        {"problem", problem.problem.name},
                        {"traced", problem.traced},
                        {"steps", steps}});
  }
  Json fixtures = Json::array();
  for (const auto& fixture : plan.fixtures) fixtures.push_back(fixture.name);
  return {{"fixtures", fixtures}, {"problems", problems}};
}

std::vector<std::pair<std::string, double>> counters_of(const RoundResult& result) {
  const auto& us = result.samples.us;
  const auto& work = result.block.at("work");
  const double bytes = work.at("bytes_read").get<double>() + work.at("bytes_written").get<double>();
  const auto& quantum = result.block.at("quantum_us");
  std::vector<std::pair<std::string, double>> counters{
      {"samples", static_cast<double>(us.size())},
      {"mad_us", statistics::mad(us, quantum.is_number() ? quantum.get<double>() : 0)},
      {"p10_us", statistics::quantile(us, 0.1)},
      {"p90_us", statistics::quantile(us, 0.9)},
      {"p99_us", statistics::quantile(us, 0.99)},
      {"min_us", statistics::quantile(us, 0)},
      {"gbytes_per_s", bytes / result.median_us / 1e3},
      {"tflops", work.at("flops").get<double>() / result.median_us / 1e6}};
  if (const auto& floor = result.block.at("floor_us"); !floor.is_null())
    counters.emplace_back("floor_us", floor.get<double>());
  for (const auto& [part, values] : result.samples.parts) counters.emplace_back(part, statistics::median(values));
  return counters;
}

/// One run from its first step to its store.
class Measurement {
 public:
  Measurement(const Options& options, const Plan& plan, const Admissions& admissions, Devices& devices,
              Console& console)
      : options_{options},
        plan_{plan},
        admissions_{admissions},
        devices_{devices},
        console_{console},
        record_{options, devices} {}

  int run() {
    record_.open();
    const auto fresh_epoch = static_cast<std::uint32_t>(std::stoull(record_.run_id().substr(0, 8), nullptr, 16));
    Runner runner{options_, plan_, devices_, fresh_epoch, events()};
    const auto begin = std::chrono::steady_clock::now();
    const auto wall_s = [begin] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    try {
      run_benchmarks(
          bridge_steps(runner, wall_s), [this](const Json& context) { record_header(context); },
          [this](Json row) { record({{"kind", "row"}, {"row", std::move(row)}}); });
      runner.finish(interrupt_signal != 0);
      record({{"kind", "end"},
              {"finished_utc", utc_now()},
              {"interrupted", interrupt_signal != 0},
              {"order_as_planned", runner.order_as_planned() && interrupt_signal == 0},
              {"wall_s", wall_s()},
              {"inside_samples_s", runner.inside_samples_s()}});
    } catch (const std::exception& error) {
      // What was measured is in memory and, up to the cut, in the journal: save it before giving up.
      console_.complain(error.what());
      save(false);
      return exit_code::row_failed;
    }
    if (!save(true)) return exit_code::row_failed;
    console_.line(fmt::format("{:.0f} % of {:.1f} s wall time lay inside samples",
                              100 * runner.inside_samples_s() / std::max(wall_s(), 1e-9), wall_s()));
    if (interrupt_signal != 0) {
      console_.complain("interrupted: the store holds what was measured; its newest rows lack the closing gate");
      return exit_code::interrupted;
    }
    if (runner.failures() + plan_.failures() > 0) return exit_code::row_failed;
    return record_.store().at("benchmarks").empty() ? exit_code::nothing_measured : exit_code::measured;
  }

 private:
  void record(Json entry) {
    const bool is_row = entry.at("kind") == "row";
    record_.append(std::move(entry));
    rows_ += is_row ? 1 : 0;
  }

  // From Benchmark's first report; nothing is recorded before it.
  void record_header(Json context) {
    record_.append_header(std::move(context), options_json(options_, plan_), plan_json(plan_));
    for (const auto& [variant, admission] : admissions_)
      record({{"kind", "admission"},
              {"variant", variant},
              {"status", to_string(admission.status)},
              {"reason", admission.reason.empty() ? Json(nullptr) : Json(admission.reason)},
              {"lacking", admission.lacking.empty() ? Json(nullptr) : Json(admission.lacking)},
              {"remembered", admission.remembered},
              {"problems", admission.remembered ? Json(nullptr) : Json(admission.problems)},
              {"calls", admission.remembered ? Json(nullptr) : Json(admission.calls)},
              {"seed", admission.remembered ? Json(nullptr) : Json(admission.seed)},
              {"wall_s", admission.wall_s},
              {"code_sha256", admission.code_sha256.empty() ? Json(nullptr) : Json(admission.code_sha256)}});
    for (const auto& fixture : plan_.fixtures) {
      if (fixture.status == Status::ok) continue;
      record({{"kind", "status"},
              {"name", fixture.name},
              {"status", to_string(fixture.status)},
              {"code", fixture.reason ? Json(to_string(*fixture.reason)) : Json(nullptr)},
              {"reason", fixture.detail}});
    }
  }

  RunnerEvents events() {
    return {[this](const Json& entry) { record(entry); }, [this](const ProblemPlan& problem) { show(problem); },
            [this](double now_us) -> std::optional<Json> {
              if (record_.nvml() == nullptr) return std::nullopt;
              const auto reading = record_.nvml()->read_if_due(now_us);
              if (!reading) return std::nullopt;
              return to_json(*reading);
            }};
  }

  template <class WallSeconds>
  std::vector<BridgeStep> bridge_steps(Runner& runner, const WallSeconds& wall_s) {
    const int total = plan_.steps();
    std::vector<BridgeStep> steps;
    for (std::size_t p = 0; p < plan_.problems.size(); ++p)
      for (const auto& step : plan_.problems[p].steps) {
        const auto& fixture = plan_.fixtures[static_cast<std::size_t>(step.fixture)];
        const int rounds = plan_.rounds[static_cast<std::size_t>(step.fixture)];
        const int done = static_cast<int>(steps.size());
        steps.push_back({fixture.name, step.fixture, step.round, rounds,
                         [this, &runner, &step, &fixture, wall_s, p, done, total]() -> std::optional<StepOutcome> {
                           // By steps done: problems differ in cost, so the first figures are rough.
                           const double left_s = done < 20 ? -1 : wall_s() / done * (total - done);
                           console_.progress(done, total, left_s, fixture.name);
                           auto result = runner.run(p, step);
                           if (!result) return std::nullopt;
                           auto counters = counters_of(*result);
                           return StepOutcome{result->median_us, std::move(result->samples.us),
                                              std::move(result->block), std::move(counters)};
                         }});
      }
    return steps;
  }

  void show(const ProblemPlan& problem) {
    std::set<std::string> without_time;
    for (const auto& entry : record_.entries())
      if (entry.at("kind") == "status") without_time.insert(entry.at("name").get<std::string>());
    // This problem's first, then what was measured of the machine's limits.
    std::map<std::pair<bool, int>, RowGroup> rows;
    for (const auto& entry : record_.entries()) {
      if (entry.at("kind") != "row") continue;
      const auto& row = entry.at("row");
      const int fixture = row.at("family_index").get<int>();
      const bool other = std::find(problem.fixtures.begin(), problem.fixtures.end(), fixture) == problem.fixtures.end();
      if ((!other || measures_a_limit(row)) && !without_time.contains(row.at("name").get<std::string>()))
        rows[{other, fixture}].push_back(&row);
    }
    std::vector<RowGroup> groups;
    std::size_t shown = 0;
    for (const auto& [place, group] : rows) {
      groups.push_back(group);
      shown += place.first ? 0 : 1;
    }
    if (shown == 0) return;
    auto table = aggregates(groups, record_.entries().front().at("device"));
    table.resize(shown);
    console_.table(
        fmt::format("{}/{}{}", problem.family->name(), problem.problem.name, problem.traced ? " (traced pass)" : ""),
        table);
  }

  /// True where the store was written. The journal goes only then.
  bool save(bool orderly) {
    if (rows_ == 0 && !orderly) {
      record_.discard();  // it would block the next run
      console_.complain("nothing was measured");
      return false;
    }
    if (!record_.save(fmt::format("{} rows", rows_), console_)) return false;
    const auto& store = record_.store();
    console_.without_time(store.at("mage").at("unavailable"), store.at("mage").at("failed"));
    if (record_.library_is_debug() && orderly)
      console_.line(
          "Google Benchmark here is a debug build (Debian's is). It times nothing: spans come from CUDA events and "
          "from\nour own clock reads around a whole operation, so its speed does not touch the figures.");
    console_.line(fmt::format("store: {} ({} rows of {} benchmarks)", record_.store_path(),
                              store.at("benchmarks").size(), store.at("mage").at("aggregates").size()));
    return true;
  }

  const Options& options_;
  const Plan& plan_;
  const Admissions& admissions_;
  Devices& devices_;
  Console& console_;
  RunRecord record_;
  int rows_ = 0;
};

}  // namespace

int run_measurement(const Options& options, const Plan& plan, const Admissions& admissions, Devices& devices,
                    Console& console) {
  return Measurement{options, plan, admissions, devices, console}.run();
}

}  // namespace mage
