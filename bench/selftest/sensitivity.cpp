// SPDX-License-Identifier: Apache-2.0
// Spins that are longer than the base by a known share, through the whole path of a measurement and a comparison.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "bench/selftest/experiment.hpp"
#include "bench/selftest/proof.hpp"
#include "bench/selftest/spin.hpp"
#include "bench/statistics.hpp"

namespace mage::selftest {
namespace {

using Json = nlohmann::ordered_json;

struct Planted {
  const char* name;
  double share;
};
constexpr Planted base{"base", 0};
constexpr std::array planted{Planted{"plus_0p2", 0.002}, Planted{"plus_0p5", 0.005}, Planted{"plus_1", 0.01},
                             Planted{"plus_2", 0.02}, Planted{"plus_5", 0.05}};
constexpr std::array durations_us{20.0, 100.0};
constexpr std::array host_durations_us{100.0};
constexpr int rounds_a_trial = 12;  // the design of six variants, twice
constexpr int samples = 3;
constexpr int default_trials = 20;
constexpr int default_host_trials = 10;
constexpr double finer_effect = 0.005;
constexpr double bias_limit = 0.001;
constexpr double host_bias_limit = 0.02;
constexpr double caught_share = 0.95;

std::vector<SpinVariant> variants() {
  std::vector<SpinVariant> list{{base.name}};
  for (const auto& one : planted) list.push_back({one.name, 1 + one.share});
  return list;
}

/// The trials of one planted difference in one mode.
struct Cell {
  std::vector<double> log_ratios;
  int caught = 0, claimed = 0, slower = 0, slower_finer = 0, trials = 0;
  [[nodiscard]] double ratio() const { return std::exp(statistics::median(log_ratios)); }
};

class Sensitivity {
 public:
  explicit Sensitivity(Context& context)
      : context_{context},
        host_{context.devices.cuda == nullptr},
        device_{host_ ? *context.devices.host : *context.devices.cuda},
        spins_{device_, variants()} {}

  ProofResult run() {
    const int trials = context_.repeats_or(host_ ? default_host_trials : default_trials);
    Options options = context_.options;
    options.samples = samples;
    options.rounds = trials * rounds_a_trial;
    std::vector<Fixture> fixtures;
    for (const double us : host_ ? std::vector(host_durations_us.begin(), host_durations_us.end())
                                 : std::vector(durations_us.begin(), durations_us.end()))
      for (const auto mode : all_modes) {
        if (device_.unavailable(mode)) continue;
        const auto more = fixtures_of(spins_, spins_.spins(), SpinFamily::problem(us), mode);
        fixtures.insert(fixtures.end(), more.begin(), more.end());
      }
    const auto plan = make_plan(std::move(fixtures), options);
    std::vector<std::vector<double>> stamped_us(plan.fixtures.size());
    const std::size_t count = spins_.spins().size();
    const auto stamp = [&](const Step& step) {
      const auto fixture = static_cast<std::size_t>(step.fixture);
      stamped_us[fixture].push_back(spins_.stamped_us(fixture % count));
    };
    const auto experiment = carry_out(context_, options, plan, {{}, stamp}, 0, 1);

    ProofResult result;
    result.data = {{"device", host_ ? "host" : "cuda"}, {"trials", trials}, {"cells", Json::array()}};
    if (host_) mark_on_host(result, context_.no_cuda_reason);
    add_dropouts(result, experiment);
    if (experiment.interrupted) return result;
    for (std::size_t first = 0; first < plan.fixtures.size(); first += count) {
      if (experiment.rows[first].empty()) continue;
      const auto cells = compare(experiment, first, trials);
      for (std::size_t i = 0; i < planted.size(); ++i) {
        const auto fixture = first + 1 + i;
        if (cells[i].trials == 0) continue;
        judge(result, plan.fixtures[fixture], planted[i], cells[i],
              expected_ratio(experiment.rows[first], stamped_us[first], stamped_us[fixture]),
              statistics::median(stamped_us[first]));
      }
    }
    for (std::size_t i = 0; i < plan.fixtures.size(); ++i)
      result.data["benchmarks"].push_back({{"name", plan.fixtures[i].name},
                                           {"stamped_us", stamped_us[i]},
                                           {"samples_us", samples_of(experiment.rows[i])}});
    return result;
  }

 private:
  /// By the spins' own stamps: what the base's figure holds besides its spin is the same in both.
  static double expected_ratio(const std::vector<Json>& base_rows, const std::vector<double>& base_us,
                               const std::vector<double>& longer_us) {
    std::vector<double> medians;
    medians.reserve(base_rows.size());
    for (const auto& row : base_rows) medians.push_back(row.at("real_time").get<double>());
    const auto center = [](const std::vector<double>& values) {
      // The mean of the middle half: stamps go in steps of the device's timer, and a median would see one of them only.
      auto sorted = values;
      std::sort(sorted.begin(), sorted.end());
      const auto cut = static_cast<std::ptrdiff_t>(sorted.size() / 4);
      double sum = 0;
      for (auto at = sorted.begin() + cut; at != sorted.end() - cut; ++at) sum += *at;
      return sum / static_cast<double>(static_cast<std::ptrdiff_t>(sorted.size()) - 2 * cut);
    };
    return 1 + (center(longer_us) - center(base_us)) / statistics::median(medians);
  }

  std::vector<Cell> compare(const Experiment& experiment, std::size_t first, int trials) const {
    const ComparisonOptions usual;
    ComparisonOptions finer;
    finer.min_effect = finer_effect;
    std::vector<Cell> cells(planted.size());
    for (int trial = 0; trial < trials; ++trial) {
      const int round = trial * rounds_a_trial;
      const auto baseline = benchmark_of(experiment.rows[first], round, rounds_a_trial);
      std::vector<Comparison> table;
      std::vector<std::size_t> of;
      for (std::size_t i = 0; i < planted.size(); ++i) {
        const auto candidate = benchmark_of(experiment.rows[first + 1 + i], round, rounds_a_trial);
        if (candidate.rounds.size() < 3 || baseline.rounds.size() < 3) continue;
        table.push_back(compare_paired(baseline, candidate, usual));
        of.push_back(i);
      }
      auto finer_table = table;
      decide(table, usual);
      decide(finer_table, finer);
      for (std::size_t k = 0; k < table.size(); ++k) {
        auto& cell = cells[of[k]];
        const auto word = table[k].word;
        cell.trials += 1;
        cell.log_ratios.push_back(std::log(table[k].ratio));
        cell.caught += table[k].interval && table[k].interval->low > 1 ? 1 : 0;
        cell.slower += word == Word::slower ? 1 : 0;
        cell.claimed += word == Word::slower || word == Word::faster ? 1 : 0;
        cell.slower_finer += finer_table[k].word == Word::slower ? 1 : 0;
      }
    }
    return cells;
  }

  static bool one_span(const Fixture& fixture) {
    return fixture.mode == TimingMode::event || fixture.mode == TimingMode::event_cold;
  }

  void judge(ProofResult& result, const Fixture& fixture, const Planted& what, const Cell& cell, double expected,
             double duration_us) const {
    const auto name = fmt::format("{}, {} {:+g} %", to_string(fixture.mode), fixture.problem.name, 100 * what.share);
    const auto of_trials = [&](int count) { return fmt::format("{} of {}", count, cell.trials); };
    const bool has_trials = cell.trials > 0;
    const auto at_least = [&](int count) { return has_trials && count >= caught_share * cell.trials; };
    result.data["cells"].push_back({{"name", fixture.name},
                                    {"planted", what.share},
                                    {"expected_ratio", expected},
                                    {"ratio", cell.ratio()},
                                    {"log_ratios", cell.log_ratios},
                                    {"trials", cell.trials},
                                    {"caught", cell.caught},
                                    {"slower", cell.slower},
                                    {"slower_at_half_a_percent", cell.slower_finer}});
    const auto measured = fmt::format("{:.5f}", cell.ratio());
    // Launching through the host has a spread of its own, and no stamp knows it.
    if (fixture.mode == TimingMode::host && !host_) {
      add_figure(result, name,
                 fmt::format("{} (stamps: {:.5f}), slower {}", measured, expected, of_trials(cell.slower)));
      return;
    }
    const double span_limit = one_span(fixture) ? span_clock_us / duration_us : 0;
    const double limit = host_ ? host_bias_limit : std::max(bias_limit, span_limit);
    // A limit of more than half of what was planted would pass a difference that is lost.
    if (!host_ && span_limit > std::max(bias_limit, what.share / 2))
      add_figure(result, name + ": ratio", fmt::format("{} (stamps: {:.5f})", measured, expected));
    else
      add_check(result, name + ": ratio", fmt::format("{:.5f} +- {:.2g}, by its stamps", expected, limit), measured,
                std::fabs(cell.ratio() - expected) <= limit);
    if (host_) {
      add_figure(result, name + ": interval above 1; slower", of_trials(cell.caught) + "; " + of_trials(cell.slower));
      return;
    }
    if (what.share == 0.002)
      add_check(result, name + ": faster or slower", "none", of_trials(cell.claimed), has_trials && cell.claimed == 0);
    if (what.share == 0.01) {
      add_check(result, name + ": interval above 1", "95 % or more", of_trials(cell.caught), at_least(cell.caught));
      add_figure(result, name + ": slower, by the default rule", of_trials(cell.slower));
      add_figure(result, name + ": slower, if 0.5 % were to count", of_trials(cell.slower_finer));
    }
    if (what.share >= 0.02)
      add_check(result, name + ": slower", "95 % or more", of_trials(cell.slower), at_least(cell.slower));
  }

  Context& context_;
  bool host_;
  Device& device_;
  SpinFamily spins_;
};

}  // namespace

ProofResult sensitivity(Context& context) { return Sensitivity{context}.run(); }

}  // namespace mage::selftest
