// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "mage_bench/types.hpp"

namespace mage {

/// Names alone, as Google Benchmark prints them; names with marks; records.
enum class ListFormat { names, text, json };
enum class Color { automatic, yes, no };

/// What the process returns to its caller.
namespace exit_code {
inline constexpr int measured = 0;
inline constexpr int row_failed = 1;  ///< a row was wrong or failed, or a file could not be written
inline constexpr int usage = 2;
inline constexpr int nothing_measured = 3;
inline constexpr int interrupted = 130;
}  // namespace exit_code

struct Options {
  std::vector<std::string> argv;    ///< exactly as given
  std::string filter = ".";         ///< regex over family/variant/problem/mode; a leading '-' negates
  std::string out;                  ///< store path; empty: results/<utc>-<id>.json
  std::vector<std::string> trials;  ///< family/variant: a child process that tries these and prints what came of it
  std::optional<std::string> admission_cache;  ///< file; empty: nothing is remembered; unset: the user's own
  double admission_deadline_s = 60;            ///< between two signs of life
  std::string recover;                         ///< a journal to turn into a store
  std::optional<ListFormat> list;
  Color color = Color::automatic;
  std::vector<TimingMode> modes{all_modes.begin(), all_modes.end()};
  std::vector<std::string> problems;  ///< additional family/problem pairs
  std::map<std::string, std::string> context;
  int rounds = 0;           ///< 0: the smallest balanced number from 10 on
  int samples = 0;          ///< 0: the mode's own
  int samples_divisor = 1;  ///< of the mode's own: for proofs that repeat much
  std::uint64_t seed = 1;
  double round_budget_s = 0.15;  ///< seconds a fixture may spend in one round
  std::size_t max_bytes = 0;     ///< 0: what the device and the host have free
  int device = 0;
  bool dry_run = false;
  bool verify_only = false;
  bool require_gpu = false;
  bool overwrite = false;
  bool selftest = false;
  std::vector<std::string> selftest_names;  ///< of proofs, or the beginnings of names; empty: all
  int selftest_repeats = 0;                 ///< 0: each proof's own
};

/// Either options, or an exit code with what to print (help on 0, a usage error on 2).
struct ParsedOptions {
  std::optional<Options> options;
  int exit = 0;
  std::string message;
};
[[nodiscard]] ParsedOptions parse_options(const std::vector<std::string>& argv);

}  // namespace mage
