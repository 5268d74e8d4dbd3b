// SPDX-License-Identifier: Apache-2.0
// Which fixtures there are, which of them can run here, and in which order their rounds do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/options.hpp"
#include "mage_bench/device.hpp"
#include "mage_bench/registry.hpp"

namespace mage {

/// One benchmark: a variant on a problem in a mode.
struct Fixture {
  const Family* family = nullptr;
  const VariantInfo* variant = nullptr;
  AnyProblem problem;
  TimingMode mode = TimingMode::event;
  std::string name;
  Status status = Status::ok;  ///< known before a time is taken; withhold() adds what the trials came to
  std::optional<Unavailable> reason;
  std::string detail;
};

/// One round of one fixture.
struct Step {
  int fixture = 0;
  int round = 0;         ///< from 0
  int position = 0;      ///< within its block (problem, mode, host or CUDA, round)
  int predecessor = -1;  ///< fixture that ran before it in the block; -1 for the first
};

/// A problem and the fixtures measured on it in one pass; their memory lives from its first step to its last.
struct ProblemPlan {
  const Family* family = nullptr;
  AnyProblem problem;
  bool traced = false;        ///< the pass of mode kernel
  std::vector<int> fixtures;  ///< all of the problem's in this pass, also those that cannot run
  std::vector<Step> steps;
};

struct Plan {
  std::vector<Fixture> fixtures;
  std::vector<ProblemPlan> problems;
  std::vector<int> rounds;  ///< by fixture; 0 where it cannot run
  bool balanced = true;     ///< every block's rounds are a multiple of its Williams design

  [[nodiscard]] int steps() const;
  [[nodiscard]] int runnable() const;
  [[nodiscard]] int failures() const;  ///< fixtures that count as such before anything runs
};

/// Whether a fixture that ended so makes the run one that failed. A counter-example is there to be found wrong.
[[nodiscard]] bool is_failure(Status status, const VariantInfo& variant);

/// What the plan needs to know of the machine, so that planning needs no device.
struct Machine {
  CudaPresence cuda;
  int compute_capability = 0;
  std::size_t device_bytes = 0;  ///< free on the CUDA device; 0 without one
  std::size_t host_bytes = 0;    ///< free on the host
};

/// This machine; `cuda` is null where no CUDA device was opened.
[[nodiscard]] Machine describe_machine(const CudaPresence& presence, const Device* cuda);
/// Every fixture whose name the filter selects, sorted by family, problem (in the family's order), mode, variant.
/// Throws std::invalid_argument where an additional problem does not parse.
[[nodiscard]] std::vector<Fixture> select_fixtures(const Options& options, const Machine& machine);
[[nodiscard]] Plan make_plan(std::vector<Fixture> fixtures, const Options& options);
/// Google Benchmark's semantics: search, and a leading '-' negates.
[[nodiscard]] bool matches(const std::string& filter, const std::string& name);
/// Bytes of free memory that the operating system reports; 0 where it does not.
[[nodiscard]] std::size_t free_host_bytes();

}  // namespace mage
