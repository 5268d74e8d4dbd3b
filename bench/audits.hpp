// SPDX-License-Identifier: Apache-2.0
// Ways in which an operation can look right and be wrong, or fast and not be: one function each.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mage_bench/case.hpp"
#include "mage_bench/device.hpp"

namespace mage {

/// Throws WrongError where a kernel of a traced operation ran out of its stream's order, or was enqueued by another
/// thread. The measuring protocol's own kernels tell which stream and thread are right, and when the work before and
/// behind an operation took place. `records` in the order of their begins; each call of the operation has a mark.
void judge_order(const std::vector<KernelRecord>& records);

/// Why an operation is wrong, or why that could not be seen; both empty where it is right.
struct AuditVerdict {
  std::string wrong;
  std::string lacking;
};
/// Holds the stream and looks whether outputs change all the same.
[[nodiscard]] AuditVerdict work_out_of_turn(Device& device, Case& bound, Launch& launch);

/// Waits for the stream and looks whether the device still has work. Why the operation is wrong; empty where it is not.
[[nodiscard]] std::string work_left_behind(Device& device, Launch& launch);

/// The time of an operation whose outputs hold wrong values before it, over its time where they hold the right ones
/// already; caches are the same. Above 1: it leaves out stores, or work, where it finds the answer.
[[nodiscard]] double spoilt_ratio(Device& device, Case& bound, Launch& launch);

/// The time of an operation whose inputs are others than those of the call before, over its time on the same inputs
/// again. Above 1: it lives on what the call before left in a cache. `copies` is the operation on the
/// case's copies of the inputs. Throws WrongError where it changed them; whatever is thrown, Case::restore() is due.
[[nodiscard]] double unrepeated_ratio(Device& device, Case& bound, Launch& launch, Launch& copies);

/// One of many operations, and one alone.
struct Slope {
  double each_us = 0;
  double own_us = 0;         ///< what one alone takes more than nothing does by the same path
  int kernels = 1;           ///< of an operation
  double start_us = 0;       ///< what a kernel that does nothing takes, of many in a graph; 0 where nobody knows
  bool many_rounds = false;  ///< medians of several rounds, which say more than those of one
  bool repetition = false;   ///< it is known, and said, to gain by inputs that repeat
};
/// Why many operations cannot have done the work of each; empty where they can.
[[nodiscard]] std::string too_good_for_one(const Slope& slope);

/// Why no operation can move its bytes in this time from a cold cache; empty where one can. A zero is not known.
[[nodiscard]] std::string faster_than_memory(const Work& work, double us, double peak_gbytes_per_s,
                                             std::size_t l2_bytes);

/// Whose changes of settings are looked for. In a call the driver lets the stack grow where a kernel needs that. Before
/// its calls a variant may also ask for a persisting part of L2: it gets none, as no other variant has one.
enum class Changes { any, forbidden_in_a_call, forbidden_before_calls };
/// The settings that differ, in words; empty where none does.
[[nodiscard]] std::string changed_settings(const std::vector<DeviceSetting>& before,
                                           const std::vector<DeviceSetting>& after, Changes which);

}  // namespace mage
