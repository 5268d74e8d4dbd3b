// SPDX-License-Identifier: Apache-2.0
#include "bench/selftest/experiment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "bench/store.hpp"

namespace mage::selftest {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

std::vector<Fixture> fixtures_of(const Family& family, std::span<const VariantInfo> variants, const AnyProblem& problem,
                                 TimingMode mode) {
  std::vector<Fixture> fixtures;
  for (const auto& variant : variants)
    fixtures.push_back({&family,
                        &variant,
                        problem,
                        mode,
                        to_string(BenchmarkName{std::string{family.name()}, variant.name, problem.name, mode}),
                        Status::ok,
                        std::nullopt,
                        {}});
  return fixtures;
}

std::vector<VariantInfo> clones(const VariantInfo& original, int count) {
  std::vector<VariantInfo> list(static_cast<std::size_t>(count), original);
  for (std::size_t i = 0; i < list.size(); ++i) list[i].name += "_" + std::to_string(i);
  return list;
}

Experiment carry_out(Context& context, const Options& options, const Plan& plan, const StepHooks& hooks, double begin,
                     double end) {
  Experiment experiment;
  experiment.rows.resize(plan.fixtures.size());
  const auto record = [&](const Json& entry) {
    if (entry.at("kind") == "status") experiment.without_time.push_back(entry);
  };
  Runner runner{options, plan, context.devices, 1, {record, {}, {}}};
  const int steps = plan.steps();
  int done = 0;
  for (std::size_t p = 0; p < plan.problems.size(); ++p)
    for (const auto& step : plan.problems[p].steps) {
      if (context.interrupted()) break;
      if (hooks.before) hooks.before(done, steps);
      auto result = runner.run(p, step);
      context.progress(begin + (end - begin) * ++done / steps);
      if (!result) continue;
      const auto& name = plan.fixtures[static_cast<std::size_t>(step.fixture)].name;
      experiment.rows[static_cast<std::size_t>(step.fixture)].push_back({{"name", name},
                                                                         {"real_time", result->median_us},
                                                                         {"samples_us", std::move(result->samples.us)},
                                                                         {"mage", std::move(result->block)}});
      if (hooks.after) hooks.after(step);
    }
  experiment.interrupted = context.interrupted();
  runner.finish(experiment.interrupted);
  // As in a store: what a check found wrong has no time, whenever it was found.
  for (const auto& entry : experiment.without_time)
    for (std::size_t i = 0; i < plan.fixtures.size(); ++i)
      if (entry.at("name") == plan.fixtures[i].name) experiment.rows[i].clear();
  return experiment;
}

StoredBenchmark benchmark_of(const std::vector<Json>& rows, int first, int count) {
  std::vector<const Json*> chosen;
  StoredBenchmark benchmark;
  for (const auto& row : rows) {
    const int round = row.at("mage").at("round").get<int>();
    if (round < first || round >= first + count) continue;
    chosen.push_back(&row);
    benchmark.rounds.push_back({round, row.at("real_time").get<double>()});
  }
  if (chosen.empty()) return benchmark;
  const auto& block = chosen.front()->at("mage");
  const auto summary = aggregate(chosen);
  benchmark.name = chosen.front()->at("name");
  benchmark.family = block.at("family");
  benchmark.variant = block.at("variant");
  benchmark.problem = block.at("problem");
  benchmark.mode = block.at("mode");
  benchmark.provider = block.at("provider");
  benchmark.inputs_sha256 = block.at("inputs_sha256");
  benchmark.rounds_planned = count;
  for (const auto& flag : summary.at("flags"))
    // The rounds of a whole plan are more than this part of it was to have.
    if (flag != flag::missing_rounds) benchmark.flags.push_back(flag);
  std::sort(benchmark.flags.begin(), benchmark.flags.end());
  if (const auto& floor = summary.at("floor_us"); floor.is_number()) benchmark.floor_us = floor.get<double>();
  if (const auto& quantum = summary.at("quantum_us"); quantum.is_number()) benchmark.quantum_us = quantum.get<double>();
  return benchmark;
}

Json samples_of(const std::vector<Json>& rows) {
  Json rounds = Json::array();
  for (const auto& row : rows) rounds.push_back(row.at("samples_us"));
  return rounds;
}

Json to_json(const Comparison& comparison) {
  return {{"ratio", comparison.ratio},
          {"interval",
           comparison.interval ? Json::array({comparison.interval->low, comparison.interval->high}) : Json(nullptr)},
          {"rounds", comparison.rounds},
          {"word", to_string(comparison.word)},
          {"why", comparison.why}};
}

void add_dropouts(ProofResult& result, const Experiment& experiment) {
  std::map<std::string, std::pair<int, bool>> reasons;
  for (const auto& entry : experiment.without_time) {
    const auto& reason = entry.at("reason");
    auto& [count, broken] = reasons[reason.is_string() ? reason.get<std::string>() : "no reason given"];
    count += 1;
    broken = broken || entry.at("status") == "wrong" || entry.at("status") == "failed";
  }
  for (const auto& [reason, found] : reasons)
    result.checks.push_back({fmt::format("{} benchmarks have no time", found.first), "a time", reason,
                             found.second ? Outcome::failed : Outcome::unavailable});
}

}  // namespace mage::selftest
