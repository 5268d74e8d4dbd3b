// SPDX-License-Identifier: Apache-2.0
#include "bench/benchmark_bridge.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <stdexcept>

namespace mage {
namespace {

using Json = nlohmann::ordered_json;

/// The counter by which a finished run finds its step again; the row does not keep it.
constexpr const char* join_key = "mage_step";

// The library marks a run without a time as error_occurred up to 1.7 and as skipped from 1.8 on.
template <class Run>
bool has_time(const Run& run) {
  if constexpr (requires { run.error_occurred; })
    return !run.error_occurred;
  else
    return !static_cast<bool>(run.skipped);
}

/// What the library's own JSON reporter writes for these runs: a row is theirs, so that upstream's tools read it.
Json upstream_json(const benchmark::BenchmarkReporter::Context& context,
                   const std::vector<benchmark::BenchmarkReporter::Run>& runs) {
  std::ostringstream text;
  std::ostringstream errors;
  benchmark::JSONReporter reporter;
  reporter.SetOutputStream(&text);
  reporter.SetErrorStream(&errors);
  reporter.ReportContext(context);
  if (!runs.empty()) reporter.ReportRuns(runs);
  reporter.Finalize();
  auto json = Json::parse(text.str(), nullptr, false);
  if (json.is_discarded()) throw std::runtime_error{"Google Benchmark wrote a row that is not JSON: " + text.str()};
  return json;
}

class Reporter final : public benchmark::BenchmarkReporter {
 public:
  Reporter(const std::vector<BridgeStep>& steps, std::vector<std::optional<StepOutcome>>& outcomes,
           const std::function<void(const Json&)>& on_context, const std::function<void(Json)>& on_row)
      : steps_{steps}, outcomes_{outcomes}, on_context_{on_context}, on_row_{on_row} {}

  bool ReportContext(const Context& context) override {
    context_ = &context;
    on_context_(upstream_json(context, {}).at("context"));
    return true;
  }

  void ReportRuns(const std::vector<Run>& runs) override {
    for (const auto& run : runs)
      if (has_time(run)) report(run);
  }

 private:
  void report(Run run) {
    const auto key = run.counters.find(join_key);
    if (key == run.counters.end()) return;
    const auto index = static_cast<std::size_t>(std::llround(key->second.value));
    run.counters.erase(key);
    auto& outcome = outcomes_.at(index);
    if (!outcome) return;
    const auto& step = steps_[index];
    run.run_name.function_name = step.name;
    run.run_name.args.clear();
    run.run_name.iterations.clear();
    run.run_name.time_type.clear();
    run.family_index = step.fixture;
    run.per_family_instance_index = 0;
    run.repetition_index = step.round;
    run.repetitions = step.rounds;
    auto row = upstream_json(*context_, {run}).at("benchmarks").at(0);
    row["real_time"] = outcome->median_us;  // as measured: the library went through seconds and back
    row["samples_us"] = std::move(outcome->samples_us);
    row["mage"] = std::move(outcome->block);
    outcome.reset();
    on_row_(std::move(row));
  }

  const std::vector<BridgeStep>& steps_;
  std::vector<std::optional<StepOutcome>>& outcomes_;
  const std::function<void(const Json&)>& on_context_;
  const std::function<void(Json)>& on_row_;
  const Context* context_ = nullptr;
};

}  // namespace

void run_benchmarks(std::vector<BridgeStep> steps, const std::function<void(const Json&)>& on_context,
                    const std::function<void(Json)>& on_row) {
  // The user's flags were read and checked before, by parse_options(). These undo what the library takes from its
  // environment variables by itself; a version that does not know one leaves it alone.
  std::vector<std::string> arguments{"mage_bench",
                                     "--benchmark_list_tests=false",
                                     "--benchmark_filter=.",
                                     "--benchmark_out=",
                                     "--benchmark_repetitions=1",
                                     "--benchmark_context=",
                                     "--v=0",
                                     "--benchmark_dry_run=false",
                                     "--benchmark_perf_counters=",
                                     "--benchmark_enable_random_interleaving=false",
                                     "--benchmark_color=auto",
                                     "--benchmark_format=console",
                                     "--benchmark_out_format=json"};
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (auto& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  auto count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, argv.data());

  std::vector<std::optional<StepOutcome>> outcomes(steps.size());
  const auto body = [&steps, &outcomes](benchmark::State& state) {
    const auto i = static_cast<std::size_t>(state.range(0));
    for ([[maybe_unused]] auto _ : state) {
      outcomes[i] = steps[i].run();
      if (!outcomes[i]) {
        state.SkipWithError("no time");
        break;
      }
      state.SetIterationTime(outcomes[i]->median_us * 1e-6);
      for (const auto& [key, value] : outcomes[i]->counters)
        if (std::isfinite(value)) state.counters[key] = value;
      state.counters[join_key] = static_cast<double>(i);
    }
  };
  // A hundred steps a registration, as its arguments: the library's time to collect its benchmarks grows with the
  // square of the registrations (17 s for 16,000 in 1.7.1), and above a hundred arguments it warns. Names come from the
  // reporter.
  constexpr std::int64_t chunk = 100;
  const auto count_of_steps = static_cast<std::int64_t>(steps.size());
  for (std::int64_t first = 0; first < count_of_steps; first += chunk) {
    auto* registered = benchmark::RegisterBenchmark("step", body);
    registered->DenseRange(first, std::min(first + chunk, count_of_steps) - 1);
    registered->Iterations(1)->UseManualTime()->Unit(benchmark::kMicrosecond);
  }
  Reporter reporter{steps, outcomes, on_context, on_row};
  benchmark::RunSpecifiedBenchmarks(&reporter, nullptr, ".");
  benchmark::Shutdown();
}

bool benchmark_library_is_debug(const Json& context) {
  const auto type = context.find("library_build_type");
  return type != context.end() && *type == "debug";
}

}  // namespace mage
