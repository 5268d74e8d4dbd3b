// SPDX-License-Identifier: Apache-2.0
// Google Benchmark runs the steps and formats the rows. Its API differs between 1.7.1 and today; only this file and
// its .cpp know.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace mage {

/// What one step gave; nothing where it has no time.
struct StepOutcome {
  double median_us = 0;
  std::vector<double> samples_us;
  nlohmann::ordered_json block;
  std::vector<std::pair<std::string, double>> counters;
};

/// One registered benchmark: a round of a fixture.
struct BridgeStep {
  std::string name;  ///< family/variant/problem/mode
  int fixture = 0;
  int round = 0;
  int rounds = 1;
  std::function<std::optional<StepOutcome>()> run;
};

/// Registers every step in order, one iteration of manual time each, runs them all, and hands over each finished row in
/// Benchmark's JSON with `samples_us` and `mage` added. One call a process. `context` receives Benchmark's context
/// before the first step.
void run_benchmarks(std::vector<BridgeStep> steps,
                    const std::function<void(const nlohmann::ordered_json& context)>& on_context,
                    const std::function<void(nlohmann::ordered_json row)>& on_row);

/// True where the Google Benchmark library was built without NDEBUG, as Debian's is.
[[nodiscard]] bool benchmark_library_is_debug(const nlohmann::ordered_json& context);

}  // namespace mage
