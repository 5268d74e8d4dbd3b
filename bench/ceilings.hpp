// SPDX-License-Identifier: Apache-2.0
// What the machine would have allowed: lower bounds on a benchmark's time, from limits measured in the same run and
// mode. docs/store.md says how.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mage_bench/operand.hpp"

namespace mage {

/// One benchmark over its rounds, as the bounds see it.
struct TimedWork {
  std::string name, mode;
  bool on_gpu = false;
  bool unstable = false;  ///< then it is no limit to others
  double median_us = 0;
  Work work;
};

/// The bound that binds: the largest of those that apply.
struct Ceiling {
  Limit binds{};
  std::string source;   ///< the benchmark that measured the limit
  double bound_us = 0;  ///< what the limit measured in this run asks for at least
  double fraction = 0;  ///< bound / median; above 1 `why` says how that can be
  std::string why;      ///< one sentence
};

/// One entry for each of `measured`: nothing for host variants, for what itself measures a limit, and where no limit of
/// its bytes or flops was measured in its mode.
[[nodiscard]] std::vector<std::optional<Ceiling>> find_ceilings(std::span<const TimedWork> measured, double l2_bytes);

/// The other way of to_string(Limit); nothing where no limit has that name.
[[nodiscard]] std::optional<Limit> parse_limit(std::string_view text);

}  // namespace mage
