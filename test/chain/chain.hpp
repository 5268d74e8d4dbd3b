// SPDX-License-Identifier: Apache-2.0
// One operation back to back, each call reading what the call before writes. Every other test and every mode repeats a
// call on the same inputs, where one that starts too early reads what it would have read anyway.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mage_bench/device.hpp"
#include "mage_bench/operand.hpp"

namespace mage::test {

/// An output that can be an input of the next call: the same type, shape and offset. Indices of operands.
struct Link {
  std::size_t out = 0, in = 0;
};
[[nodiscard]] std::vector<Link> links(const Operands& operands);

/// An operation on any pointers, and which of its outputs is linked to which of its inputs.
struct Chained {
  Operands operands;
  Link link;
  std::function<Launch(const Pointers& pointers)> prepare;
  std::function<void(const Pointers& host)> derive;  ///< inputs that follow from others; may be empty
};

struct ChainVerdict {
  int broken_on_stream = 0, broken_in_graph = 0;  ///< repetitions that gave other bits
  std::string reason;                             ///< empty where none did
  [[nodiscard]] bool ok() const { return broken_on_stream + broken_in_graph == 0; }
};

/// Memory that host and device can both write and read, aligned to 256 bytes.
using AllocateShared = std::shared_ptr<void> (*)(std::size_t bytes);
[[nodiscard]] std::shared_ptr<void> plain_memory(std::size_t bytes);
/// Across the bus a device reads it many times slower than its own: what reads it lasts longer than the next kernel
/// takes to start, however small the problem is.
[[nodiscard]] std::shared_ptr<void> pinned_memory(std::size_t bytes);  // builds with CUDA

/// Calls the operation forth (x to y), back (y to x) and forth without waiting in between, `repetitions` times on the
/// stream and, where the device has them, as many times in a graph. Every output must have the bits that it has where
/// each call is waited for. A call that reads before the one before has written gets NaN or older values; one that
/// writes while the one before still reads changes what that one sees; and a second kernel of a call that does not wait
/// for the first finds what another call left. Not a fourth call: of a copy that reads too early, it would write the
/// right bits over the wrong ones. x lies in memory of `allocate_x`, so forth is slow.
[[nodiscard]] ChainVerdict check_chain(Device& device, const Chained& chained, AllocateShared allocate_x,
                                       int repetitions);

}  // namespace mage::test
