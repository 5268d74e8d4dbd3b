// SPDX-License-Identifier: Apache-2.0
// Flags must be raised where a figure is doubtful, and must not be where it is sound.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "bench/samplers.hpp"
#include "bench/selftest/experiment.hpp"
#include "bench/selftest/proof.hpp"
#include "bench/selftest/spin.hpp"
#include "bench/store.hpp"

namespace mage::selftest {
namespace {

using Json = nlohmann::ordered_json;

constexpr int batches = 10;
constexpr int rounds = 3;
constexpr double sleep_us = 3000;  // longer than any delay that hides enqueueing

int launch_bound_batches(Device& device, Launch& launch) {
  const auto sampler = make_sampler(TimingMode::batch, device, launch);
  sampler->prepare();
  Samples taken;
  for (int i = 0; i < batches; ++i) sampler->sample(taken);
  return taken.launch_bound;
}

bool has(const std::vector<std::string>& flags, const char* flag) {
  return std::find(flags.begin(), flags.end(), flag) != flags.end();
}

std::string text(const std::vector<std::string>& flags) {
  std::string list;
  for (const auto& flag : flags) list += (list.empty() ? "" : " ") + flag;
  return list.empty() ? "no flag" : list;
}

}  // namespace

ProofResult detectors(Context& context) {
  if (!context.devices.cuda) return unavailable(context.no_cuda_reason);
  auto& device = *context.devices.cuda;
  ProofResult result;

  raise_clock(device);
  auto empty = device.empty_launch();
  const int bound = launch_bound_batches(device, empty);
  add_check(result, "batches of empty kernels", "launch_bound in most", fmt::format("{} of {}", bound, batches),
            2 * bound > batches);
  BoundSpin spin{device, 100};
  const int unbound = launch_bound_batches(device, spin.launch());
  add_check(result, "batches of spins of 100 us", "launch_bound in none", fmt::format("{} of {}", unbound, batches),
            unbound == 0);
  context.progress(0.3);

  Options options = context.options;
  options.rounds = rounds;
  options.samples = 10;
  SpinFamily family{device, {{"plain"}, {"sleeps", 1, sleep_us}}};
  auto fixtures = fixtures_of(family, family.spins(), SpinFamily::problem(100), TimingMode::event);
  const auto brief = fixtures_of(family, family.spins().first(1), SpinFamily::problem(1), TimingMode::event);
  fixtures.insert(fixtures.end(), brief.begin(), brief.end());
  const auto plan = make_plan(std::move(fixtures), options);
  const auto experiment = carry_out(context, options, plan, {}, 0.3, 1);
  add_dropouts(result, experiment);
  std::vector<std::vector<std::string>> flags;
  result.data = Json{{"launch_bound", {{"empty", bound}, {"spin_100us", unbound}, {"batches", batches}}}};
  for (std::size_t i = 0; i < plan.fixtures.size(); ++i) {
    flags.push_back(benchmark_of(experiment.rows[i], 0, rounds).flags);
    result.data["flags"][plan.fixtures[i].name] = flags.back();
    result.data["samples_us"][plan.fixtures[i].name] = samples_of(experiment.rows[i]);
  }
  if (experiment.interrupted) return result;
  add_check(result, "a host that sleeps 3 ms inside the operation", "gate_missed unstable", text(flags[1]),
            has(flags[1], flag::gate_missed) && has(flags[1], flag::unstable));
  add_check(result, "a spin of 1 us, below 3 x the floor", "floor_dominated", text(flags[2]),
            has(flags[2], flag::floor_dominated));
  add_check(result, "a plain spin of 100 us", "neither of them", text(flags[0]),
            !has(flags[0], flag::gate_missed) && !has(flags[0], flag::unstable) &&
                !has(flags[0], flag::floor_dominated) && !has(flags[0], flag::launch_bound));
  return result;
}

}  // namespace mage::selftest
