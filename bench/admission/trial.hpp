// SPDX-License-Identifier: Apache-2.0
// What a variant has to pass before it is measured for the first time, whatever it says of itself: its family's small
// problems at the edge of memory, calls that follow each other, calls at the same time, and thousands of calls.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mage_bench/case.hpp"
#include "mage_bench/device.hpp"
#include "mage_bench/registry.hpp"

namespace mage {

struct TrialVerdict {
  Status status = Status::ok;
  std::string reason;  ///< empty where it is ok
  std::optional<Unavailable> code;
  std::string lacking;   ///< what could not be looked at, and why; empty where all was
  bool complete = true;  ///< false: another machine, or another time, may allow a look at what is lacking
  int problems = 0;      ///< that it was tried on
  int calls = 0;         ///< in a row: as many as wanted, or as two seconds had room for
};

/// Problems and their oracles, made once for all variants of a family.
class TrialProblems {
 public:
  TrialProblems(const Family& family, std::uint64_t seed) : family_{family}, seed_{seed} {}
  /// Test problems of at most so many bytes that the variant accepts; the smallest that it accepts where there is none.
  [[nodiscard]] std::vector<AnyProblem> accepted(const VariantInfo& variant, std::size_t most_bytes) const;
  /// With a variation.
  [[nodiscard]] const Oracle& oracle(const AnyProblem& problem, std::uint32_t input_epoch = 0);
  [[nodiscard]] const Family& family() const { return family_; }
  /// What all secrets of the trials follow from.
  [[nodiscard]] std::uint64_t seed() const { return seed_; }

 private:
  const Family& family_;
  std::uint64_t seed_;
  std::map<std::pair<std::string, std::uint32_t>, std::unique_ptr<Oracle>> oracles_;  ///< by problem and epoch
};

/// `at` is told what comes next, so that whoever waits knows where a process was when it died.
[[nodiscard]] TrialVerdict try_variant(Device& device, TrialProblems& problems, const VariantInfo& variant,
                                       const std::function<void(const std::string& what)>& at);

}  // namespace mage
