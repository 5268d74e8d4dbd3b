// SPDX-License-Identifier: Apache-2.0
// What a variant has to pass before it is measured for the first time, whatever it says of itself: its family's small
// problems at the edge of memory, calls that follow each other, calls at the same time, and thousands of calls.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mage_bench/case.hpp"
#include "mage_bench/device.hpp"
#include "mage_bench/registry.hpp"

namespace mage {

struct TrialVerdict {
  Status status = Status::ok;
  std::string reason;        ///< empty where it is ok
  std::string lacking;       ///< what could not be looked at here, and why; empty where all was
  int problems = 0;          ///< that it was tried on
  bool device_lost = false;  ///< the process can try nothing else on it
};

/// Problems and their oracles, made once for all variants of a family.
class TrialProblems {
 public:
  explicit TrialProblems(const Family& family) : family_{family} {}
  /// Test problems of at most so many bytes that the variant accepts; the smallest that it accepts where there is none.
  [[nodiscard]] std::vector<AnyProblem> accepted(const VariantInfo& variant, std::size_t most_bytes) const;
  /// With a variation.
  [[nodiscard]] const Oracle& oracle(const AnyProblem& problem);
  [[nodiscard]] const Family& family() const { return family_; }

 private:
  const Family& family_;
  std::map<std::string, std::unique_ptr<Oracle>> oracles_;
};

/// `at` is told what comes next, so that whoever waits knows where a process was when it died.
[[nodiscard]] TrialVerdict try_variant(Device& device, TrialProblems& problems, const VariantInfo& variant,
                                       const std::function<void(const std::string& what)>& at);

}  // namespace mage
