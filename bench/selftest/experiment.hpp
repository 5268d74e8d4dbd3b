// SPDX-License-Identifier: Apache-2.0
// A plan of a proof's own, carried out and compared by the code that measurements and comparisons go through.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "bench/comparison.hpp"
#include "bench/plan.hpp"
#include "bench/selftest/proof.hpp"

namespace mage::selftest {

/// One fixture of these variants, which must outlive the plan.
[[nodiscard]] std::vector<Fixture> fixtures_of(const Family& family, std::span<const VariantInfo> variants,
                                               const AnyProblem& problem, TimingMode mode);

/// `count` variants that differ from `original` by their names only: <name>_0, <name>_1, ...
[[nodiscard]] std::vector<VariantInfo> clones(const VariantInfo& original, int count);

/// What a plan gave.
struct Experiment {
  std::vector<std::vector<nlohmann::ordered_json>> rows;  ///< by fixture, ascending by round, as in a store
  nlohmann::ordered_json without_time = nlohmann::ordered_json::array();  ///< statuses of the fixtures that dropped out
  bool interrupted = false;
};

/// Called around each step; `after` only where the fixture has a time.
struct StepHooks {
  std::function<void(int step, int steps)> before;
  std::function<void(const Step& step)> after;
};

/// Carries `plan` out; `options` has the protocol. Progress goes from `begin` to `end`.
[[nodiscard]] Experiment carry_out(Context& context, const Options& options, const Plan& plan, const StepHooks& hooks,
                                   double begin, double end);

/// Rounds [first, first + count) as the comparison reads them from a store. Without rows: no rounds.
[[nodiscard]] StoredBenchmark benchmark_of(const std::vector<nlohmann::ordered_json>& rows, int first, int count);

/// Every sample, a list a round.
[[nodiscard]] nlohmann::ordered_json samples_of(const std::vector<nlohmann::ordered_json>& rows);

[[nodiscard]] nlohmann::ordered_json to_json(const Comparison& comparison);

/// Why the fixtures that dropped out did, as one check: failed where one was wrong or failed, else unavailable.
void add_dropouts(ProofResult& result, const Experiment& experiment);

}  // namespace mage::selftest
