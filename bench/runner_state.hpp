// SPDX-License-Identifier: Apache-2.0
// What a runner holds while a problem is open, for the files that it is written in.
#pragma once

#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "bench/audits.hpp"
#include "bench/runner.hpp"

namespace mage {

[[nodiscard]] nlohmann::ordered_json work_json(const Work& work);

struct Runner::FixtureState {
  const Fixture* fixture = nullptr;
  int index = 0;  ///< in the plan
  Device* device = nullptr;
  Case* bound_case = nullptr;
  Launch launch;  ///< bound for the round that is under way, and empty between rounds
  std::unique_ptr<Sampler> sampler;
  Status status = Status::ok;
  int samples_asked = 0;
  int samples = 0;
  int rounds_done = 0;
  bool persisting_l2_denied = false;
  std::map<std::pair<std::uint32_t, int>, std::uint64_t> bits;  ///< of the outputs, by epoch and set of the inputs
  /// Whether a round sweeps L2 and takes a sample that does not count: where no mode of its own sweeps, on a GPU.
  [[nodiscard]] bool warms_up() const { return !device->info().is_host && fixture->mode != TimingMode::event_cold; }
  /// Whether samples that count have all of the output spoilt: where that disturbs no cache that is measured.
  [[nodiscard]] bool spoils_all() const { return fixture->mode == TimingMode::event_cold; }
  /// Of the variant on the problem, whatever the mode.
  [[nodiscard]] std::string subject() const {
    return fixture->variant->family + "/" + fixture->variant->name + "/" + fixture->problem.name;
  }
};

/// The same sampler on an operation that does nothing.
struct Runner::Floors {
  Launch empty;
  std::unique_ptr<Sampler> sampler;  ///< null where the mode has no floor here
  std::string problem;               ///< of the newest floor
  int round = -1;
  double median_us = 0;
  std::map<std::string, double> parts_us;  ///< medians
};

struct Runner::Session {
  Session(std::size_t index, const ProblemPlan& problem) : problem_index{index}, plan{problem} {}
  std::size_t problem_index;
  const ProblemPlan& plan;
  std::optional<Oracle> oracle;
  std::exception_ptr no_oracle;  ///< why there is none: each fixture of the problem says so
  std::map<const Device*, std::unique_ptr<Case>> cases;
  std::map<int, FixtureState> fixtures;
  std::string inputs_sha256;
  int round = -1;                                   ///< for which operands were placed
  int rounds = 0;                                   ///< of the fixture that has most
  std::uint32_t epoch = 0;                          ///< of the inputs
  double begin_us = 0;                              ///< when the first round began
  double renewal_us = 0, spent_on_renewals_us = 0;  ///< what new inputs cost, once and in all
  struct Audited {
    std::optional<double> unrepeated, spoilt;  ///< see bench/audits.hpp
    int nodes = unknown_nodes;                 ///< of a graph of one operation
    bool complete = false;                     ///< otherwise it is made again in the next mode
    // Of honest operations on an H200 the one ratio is within 0.7 % of 1; the other is one of short spans, which may be
    // 0.2 us apart by the phase of a clock.
    [[nodiscard]] bool gains_by_repetition() const {
      return unrepeated.value_or(1) > 1.03 || spoilt.value_or(1) > 1.08;
    }
  };
  static constexpr int unknown_nodes = 3;                                  ///< where it cannot be captured
  std::map<std::string, Audited> audited;                                  ///< by subject
  std::map<std::tuple<TimingMode, bool, int>, std::string> last_in_block;  ///< by mode, host or CUDA, and round
};

}  // namespace mage
