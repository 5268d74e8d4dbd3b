// SPDX-License-Identifier: Apache-2.0
// The self-test: proofs that the numbers are right, shipped with the program that prints them.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/options.hpp"
#include "bench/runner.hpp"

namespace mage::selftest {

enum class Outcome { passed, failed, skipped, unavailable };
[[nodiscard]] std::string_view to_string(Outcome outcome);

/// What proofs allow the span between two events of one exact duration, however often it is repeated: it falls on one
/// of two values 0.2 us apart and keeps it (docs/trust.md).
constexpr double span_clock_us = 0.1;

/// One line of a proof's table: what was expected, what was measured, whether it holds.
struct Check {
  std::string what;
  std::string expected;
  std::string measured;
  Outcome outcome = Outcome::passed;
};

struct ProofResult {
  Outcome outcome = Outcome::passed;  ///< failed where any check failed; else skipped/unavailable only where none ran
  std::string reason;    ///< of skipped and unavailable, and of what was measured elsewhere or less often than meant
  bool on_host = false;  ///< measured on the host, since there is no GPU
  std::vector<Check> checks;
  nlohmann::ordered_json data;  ///< every sample behind the checks, for the store
};

/// What a proof has to work with.
struct Context {
  const Options& options;
  Devices& devices;                            ///< devices.cuda is null without a GPU
  std::string no_cuda_reason;                  ///< why, where it is null
  int repeats = 0;                             ///< --mage_selftest_repeats; 0: the proof's own
  std::function<void(double share)> progress;  ///< 0 to 1
  int own_repeats = 0;                         ///< the proof's own, where repeats_or() gave fewer
  [[nodiscard]] bool interrupted() const;      ///< a proof returns what it has
  /// What was asked for, `least` at least, or the proof's own number where nothing was.
  [[nodiscard]] int repeats_or(int own, int least = 1);
};

struct Proof {
  const char* name;   ///< for --mage_selftest=NAME
  const char* claim;  ///< one line
  ProofResult (*run)(Context&);
};

/// In the order in which they run. The one list of them.
[[nodiscard]] std::span<const Proof> proofs();

// What proofs make their results of.
[[nodiscard]] ProofResult unavailable(std::string reason);
void add_check(ProofResult& result, std::string what, std::string expected, std::string measured, bool holds);
/// Says of a result that it was measured on the host, since there is no GPU.
void mark_on_host(ProofResult& result, const std::string& no_cuda_reason);
/// A line that is shown and judged by nobody.
void add_figure(ProofResult& result, std::string what, std::string measured);
/// The outcome that the checks give, by the rule above; a proof without a single check that ran proves nothing.
void conclude(ProofResult& result);

// One file each, bench/selftest/<name>.cpp.
[[nodiscard]] ProofResult known_duration(Context& context);
[[nodiscard]] ProofResult triangulation(Context& context);
[[nodiscard]] ProofResult null_comparisons(Context& context);
[[nodiscard]] ProofResult sensitivity(Context& context);
[[nodiscard]] ProofResult order(Context& context);
[[nodiscard]] ProofResult cache_policy(Context& context);
[[nodiscard]] ProofResult detectors(Context& context);
[[nodiscard]] ProofResult failures(Context& context);
[[nodiscard]] ProofResult provenance(Context& context);
[[nodiscard]] ProofResult statistics_coverage(Context& context);

}  // namespace mage::selftest
