// SPDX-License-Identifier: Apache-2.0
// Something small and registered that proofs can plant faults in or call by name. They name no family themselves.
#pragma once

#include <optional>
#include <string>

#include "bench/plan.hpp"
#include "mage_bench/device.hpp"
#include "mage_bench/registry.hpp"

namespace mage::selftest {

struct Subject {
  const Family* family = nullptr;
  const VariantInfo* variant = nullptr;
  AnyProblem problem;

  [[nodiscard]] std::string name(TimingMode mode) const;
  /// A plan's fixture of this problem, with `planted` in the place of the variant.
  [[nodiscard]] Fixture fixture(const VariantInfo& planted, TimingMode mode) const;
};

/// The problem with the least memory among those that have an input and that some variant takes on `device`. Nothing
/// where there is none.
[[nodiscard]] std::optional<Subject> smallest_subject(const Device& device);

/// A regular expression that matches `name` alone.
[[nodiscard]] std::string filter_of(const std::string& name);

}  // namespace mage::selftest
