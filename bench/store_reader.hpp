// SPDX-License-Identifier: Apache-2.0
// Reads a store back: the part of it that comparing needs, whatever its size, in one pass and little memory.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace mage {

/// A store that cannot be read: which file, where in it, what is wrong, and what to do.
class StoreError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// One round of one benchmark.
struct StoredRound {
  int round = 0;
  double median_us = 0;
};

/// One benchmark of a store over its rounds.
struct StoredBenchmark {
  std::string name, family, variant, problem, mode, provider, parent;
  std::string picked;  ///< the variant that ran in this one's place; empty: itself
  std::string inputs_sha256;
  int rounds_planned = 0;
  std::vector<StoredRound> rounds;  ///< ascending; a round that is missing is not there
  std::vector<std::string> flags;   ///< of the aggregate, sorted
  std::optional<double> floor_us;
  double quantum_us = 0;                          ///< the clock's step; 0 where unknown
  std::map<std::string, double> part_medians_us;  ///< of the aggregate
  double bytes = 0, flops = 0;                    ///< of the contract: read and written; operations
};

/// A benchmark that has no time, and why.
struct StoredAbsence {
  std::string name, status, code, reason;
};

/// Median floors of the run by (device, mode), over all problems and rounds.
using StoredFloors = std::map<std::pair<std::string, std::string>, double>;

struct StoreContents {
  std::optional<bool> git_dirty;  ///< the sources were not those of git_commit; nothing: not known
  std::string path, schema, run_id, started_utc, git_commit;
  std::uint64_t protocol = 1;
  bool complete = false;
  std::string gpu_name, gpu_uuid, driver, runtime;  ///< empty where the run used no GPU
  std::string executable_sha256, kernel_sources_sha256;
  std::uint64_t seed = 0;
  std::vector<StoredBenchmark> benchmarks;  ///< sorted by name
  std::vector<StoredAbsence> absences;      ///< unavailable and failed
  StoredFloors floors;
};

/// Reads and checks the store at `path`. Unknown fields are skipped, a field that comparing needs and that is missing,
/// of another type, twice in one object, or out of range is an error that names it.
[[nodiscard]] StoreContents read_store(const std::string& path);
/// The same from text; `path` is what messages call it.
[[nodiscard]] StoreContents parse_store(const std::string& text, const std::string& path);

}  // namespace mage
