// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "mage_bench/contract.hpp"

namespace mage {

/// Calls body(begin, end) over disjoint blocks that cover [0, count), on all hardware threads; blocks until done.
/// Block edges are multiples of `grain`. The first exception thrown by a block is rethrown.
void parallel_blocks(int64 count, int64 grain, const std::function<void(int64 begin, int64 end)>& body);

}  // namespace mage
