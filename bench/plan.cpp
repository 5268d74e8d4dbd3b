// SPDX-License-Identifier: Apache-2.0
#include "bench/plan.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <numeric>
#include <regex>
#include <stdexcept>

#include "bench/plan_order.hpp"
#include "mage_bench/case.hpp"
#include "mage_bench/device.hpp"
#include "mage_bench/problem_text.hpp"
#include "mage_bench/random.hpp"

namespace mage {
namespace {

constexpr int fewest_rounds = 10;

std::vector<AnyProblem> problems_of(const Family& family, const Options& options) {
  auto problems = family.bench_problems();
  for (const auto& text : options.problems) {
    const auto slash = text.find('/');
    if (slash == std::string::npos)
      throw std::invalid_argument{
          fmt::format("--mage_problem={}: not of the form family/problem, as in gelu/1000x3001", shortened(text))};
    if (find_family(text.substr(0, slash)) == nullptr) {
      std::vector<std::string_view> names;
      for (const auto* there : families()) names.push_back(there->name());
      throw std::invalid_argument{fmt::format("--mage_problem={}: there is no family '{}'; there are {}",
                                              shortened(text), shortened(text.substr(0, slash)),
                                              fmt::join(names, ", "))};
    }
    if (text.substr(0, slash) != family.name()) continue;
    const auto problem = read_problem(family, text.substr(slash + 1));
    const bool known = std::any_of(problems.begin(), problems.end(),
                                   [&](const AnyProblem& other) { return other.name == problem.name; });
    if (!known) problems.push_back(problem);
  }
  return problems;
}

/// Modes that a variant is registered for. One that this build left out stands with those of its kind of file.
std::vector<TimingMode> modes_of(const VariantInfo& variant, const Options& options) {
  const bool on_host = variant.skipped ? variant.source.ends_with(".cpp") : variant.on_host();
  std::vector<TimingMode> modes;
  for (const auto mode : options.modes)
    if (!on_host || mode == TimingMode::host) modes.push_back(mode);
  return modes;
}

void judge(Fixture& fixture, const Options& options, const Machine& machine) {
  const auto unavailable = [&](Unavailable reason, std::string detail = {}) {
    fixture.status = Status::unavailable;
    fixture.reason = reason;
    fixture.detail = detail.empty() ? std::string{explain(reason)} : std::move(detail);
  };
  const auto& variant = *fixture.variant;
  if (variant.skipped) return unavailable(*variant.skipped);
  if (!variant.on_host()) {
    if (machine.cuda.why_not) return unavailable(*machine.cuda.why_not, machine.cuda.detail);
    if (machine.compute_capability < variant.min_cc)
      return unavailable(Unavailable::arch, fmt::format("needs compute capability {}, the device has {}",
                                                        variant.min_cc, machine.compute_capability));
  }
  if (!accepts(variant, fixture.problem)) {
    fixture.status = Status::unsupported;
    fixture.detail = "the variant does not accept this problem";
    return;
  }
  const auto operands = fixture.family->operands(fixture.problem);
  const auto for_operands = Case::device_bytes(operands);
  const auto on_device = variant.on_host() ? for_operands : Case::measured_bytes(operands);
  const auto on_host = Case::host_bytes(operands);
  const auto host_need = on_host + (variant.on_host() ? on_device : 0);
  const auto refuse = [&](const char* where, std::size_t need, std::size_t limit) {
    unavailable(Unavailable::memory, fmt::format("needs {} bytes {}, {} are allowed or free", need, where, limit));
  };
  if (options.max_bytes != 0 && for_operands > options.max_bytes)
    return refuse("for operands", for_operands, options.max_bytes);
  if (!variant.on_host() && machine.device_bytes != 0 && on_device > machine.device_bytes)
    return refuse("on the device", on_device, machine.device_bytes);
  if (machine.host_bytes != 0 && host_need > machine.host_bytes)
    return refuse("on the host", host_need, machine.host_bytes);
}

/// Fisher-Yates with our own generator: the same order on any platform.
template <class T>
void shuffle(std::vector<T>& items, std::uint64_t seed, std::uint32_t stream) {
  for (std::size_t i = items.size(); i > 1; --i) {
    const auto bits = philox({static_cast<std::uint32_t>(i), stream, 0, 0x0DE5U},
                             {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32U)});
    std::swap(items[i - 1], items[bits[0] % i]);
  }
}

struct Block {
  TimingMode mode{};
  std::vector<int> fixtures;
  int rounds = 0;
  std::vector<std::vector<int>> order;  ///< by round: indices into fixtures
};

std::vector<Block> make_blocks(const Plan& plan, const std::vector<int>& members, const Options& options,
                               std::uint64_t seed) {
  std::vector<Block> blocks;
  // Host variants are a comparison of their own: beside seconds of CPU work a GPU would cool down and slow its clock.
  for (const bool on_host : {false, true})
    for (const auto mode : all_modes) {
      Block block;
      block.mode = mode;
      for (const int i : members) {
        const auto& fixture = plan.fixtures[static_cast<std::size_t>(i)];
        if (fixture.mode == mode && fixture.status == Status::ok && fixture.variant->on_host() == on_host)
          block.fixtures.push_back(i);
      }
      if (block.fixtures.empty()) continue;
      const int treatments = static_cast<int>(block.fixtures.size());
      block.rounds = options.rounds > 0 ? options.rounds : default_rounds(treatments, fewest_rounds);
      block.order = balanced_order(treatments, block.rounds, seed + 2 * static_cast<std::uint64_t>(mode) + on_host);
      blocks.push_back(std::move(block));
    }
  return blocks;
}

void append_round(const Block& block, int round, std::vector<Step>& steps) {
  int predecessor = -1;
  int position = 0;
  for (const int index : block.order[static_cast<std::size_t>(round)]) {
    const int fixture = block.fixtures[static_cast<std::size_t>(index)];
    steps.push_back({fixture, round, position++, predecessor});
    predecessor = fixture;
  }
}

/// Round by round, the modes of a round in a shuffled order.
std::vector<Step> order_steps(const std::vector<Block>& blocks, std::uint64_t seed) {
  int most_rounds = 0;
  for (const auto& block : blocks) most_rounds = std::max(most_rounds, block.rounds);
  std::vector<Step> steps;
  for (int round = 0; round < most_rounds; ++round) {
    std::vector<const Block*> now;
    for (const auto& block : blocks)
      if (round < block.rounds) now.push_back(&block);
    shuffle(now, seed, static_cast<std::uint32_t>(round));
    for (const auto* block : now) append_round(*block, round, steps);
  }
  return steps;
}

}  // namespace

bool matches(const std::string& filter, const std::string& name) {
  const bool negated = filter.starts_with('-');
  // Compiled once a distinct filter: names come by the thousand.
  static std::map<std::string, std::regex> compiled;
  auto found = compiled.find(filter);
  if (found == compiled.end()) found = compiled.emplace(filter, std::regex{negated ? filter.substr(1) : filter}).first;
  return std::regex_search(name, found->second) != negated;
}

std::size_t free_host_bytes() {
  std::ifstream meminfo{"/proc/meminfo"};
  std::string key;
  std::size_t kibibytes = 0;
  std::string unit;
  while (meminfo >> key >> kibibytes) {
    if (key == "MemAvailable:") return kibibytes * 1024;
    std::getline(meminfo, unit);
  }
  return 0;
}

bool is_failure(Status status, const VariantInfo& variant) {
  return status == Status::failed || (status == Status::wrong && variant.counter_example.empty());
}

int Plan::failures() const {
  return static_cast<int>(std::count_if(fixtures.begin(), fixtures.end(), [](const Fixture& fixture) {
    return is_failure(fixture.status, *fixture.variant);
  }));
}

Machine describe_machine(const CudaPresence& presence, const Device* cuda) {
  Machine machine;
  machine.cuda = presence;
  machine.host_bytes = free_host_bytes() / 10 * 9;
  if (cuda != nullptr) {
    machine.compute_capability = cuda->info().compute_capability;
    machine.device_bytes = cuda->info().free_bytes / 100 * 95;
  }
  return machine;
}

std::vector<Fixture> select_fixtures(const Options& options, const Machine& machine) {
  std::vector<Fixture> selected;
  for (const auto* family : families())
    for (const auto& problem : problems_of(*family, options))
      for (const auto mode : all_modes)
        for (const auto& variant : family->variants()) {
          const auto modes = modes_of(variant, options);
          if (std::find(modes.begin(), modes.end(), mode) == modes.end()) continue;
          Fixture fixture{family,
                          &variant,
                          problem,
                          mode,
                          to_string(BenchmarkName{std::string{family->name()}, variant.name, problem.name, mode}),
                          Status::ok,
                          std::nullopt,
                          {}};
          if (!matches(options.filter, fixture.name)) continue;
          judge(fixture, options, machine);
          selected.push_back(std::move(fixture));
        }
  return selected;
}

Plan make_plan(std::vector<Fixture> fixtures, const Options& options) {
  Plan plan;
  plan.fixtures = std::move(fixtures);
  plan.rounds.assign(plan.fixtures.size(), 0);
  // The kernel mode is a pass of its own at the end of the run: CUPTI, once attached, slows later calls a little.
  for (const bool traced : {false, true})
    for (std::size_t i = 0; i < plan.fixtures.size(); ++i) {
      const auto& fixture = plan.fixtures[i];
      if ((fixture.mode == TimingMode::kernel) != traced) continue;
      const bool continues = !plan.problems.empty() && plan.problems.back().traced == traced &&
                             plan.problems.back().family == fixture.family &&
                             plan.problems.back().problem.name == fixture.problem.name;
      if (!continues) plan.problems.push_back({fixture.family, fixture.problem, traced, {}, {}});
      plan.problems.back().fixtures.push_back(static_cast<int>(i));
    }
  std::uint64_t seed = options.seed;
  for (auto& problem : plan.problems) {
    const auto blocks = make_blocks(plan, problem.fixtures, options, seed);
    for (const auto& block : blocks) {
      for (const int fixture : block.fixtures) plan.rounds[static_cast<std::size_t>(fixture)] = block.rounds;
      const auto design = williams(static_cast<int>(block.fixtures.size())).size();
      plan.balanced = plan.balanced && static_cast<std::size_t>(block.rounds) % design == 0;
    }
    problem.steps = order_steps(blocks, seed);
    seed += 0x9E3779B97F4A7C15ULL;
  }
  return plan;
}

int Plan::steps() const {
  int total = 0;
  for (const auto& problem : problems) total += static_cast<int>(problem.steps.size());
  return total;
}

int Plan::runnable() const {
  return static_cast<int>(std::count_if(fixtures.begin(), fixtures.end(),
                                        [](const Fixture& fixture) { return fixture.status == Status::ok; }));
}

}  // namespace mage
