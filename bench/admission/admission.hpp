// SPDX-License-Identifier: Apache-2.0
// Which variants may be measured. Trials take place in a process of their own, with a deadline: what they do to it
// costs the variant, and nothing else. Who was admitted is remembered by machine code and device.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/console.hpp"
#include "bench/options.hpp"
#include "bench/plan.hpp"

namespace mage {

/// What became of one variant.
struct Admission {
  Status status = Status::ok;  ///< ok: admitted
  std::string reason;          ///< where it was not
  std::optional<Unavailable> code;
  std::string lacking;   ///< what could not be looked at; empty where all was
  bool complete = true;  ///< see TrialVerdict: only then is it remembered
  double wall_s = 0;
  int problems = 0, calls = 0;  ///< see TrialVerdict; nobody knows them, nor the seed, where it is remembered
  std::uint64_t seed = 0;       ///< of what was drawn: --mage_try with --mage_seed repeats it
  bool remembered = false;      ///< from another run
  std::string code_sha256;      ///< empty where the build does not know
};
using Admissions = std::map<std::string, Admission>;  ///< by family/variant

/// Of every variant that has a fixture which could run here. Empty where an interrupt came. Throws
/// std::invalid_argument where there is no such device.
[[nodiscard]] Admissions admit(const Options& options, const std::vector<Fixture>& fixtures, Console& console);
/// A variant that was not admitted has no time: its fixtures get the status and the reason.
void withhold(const Admissions& admissions, std::vector<Fixture>& fixtures);

/// The child: tries options.trials and prints JSON lines on stdout, where nothing that a variant prints comes between:
/// that goes to stderr. Returns the exit code: not 0 where it did not come to the last one.
[[nodiscard]] int run_trials(const Options& options);

}  // namespace mage
