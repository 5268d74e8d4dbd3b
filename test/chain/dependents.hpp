// SPDX-License-Identifier: Apache-2.0
// y = 2x + 1 by programmatic dependent launch, right and wrong: what the check of chains must tell apart.
#pragma once

#include "mage_bench/launch.hpp"

namespace mage::test {

/// What an operation does before the kernel before it has ended. The last two exist on the model of a device only.
enum class Early {
  nothing,  ///< the control: it waits before its first access to memory
  all,      ///< it never waits
  load,     ///< it waits between its loads and its stores
  store,    ///< it clears its outputs and then waits
  second,   ///< its second kernel takes from scratch what its first has not yet put there
};

/// `count` elements on a CUDA device of compute capability 9.0.
[[nodiscard]] Launch make_dependent(Early early, const float* x, float* y, int count);

}  // namespace mage::test
