// SPDX-License-Identifier: Apache-2.0
// One operation back to back, each call reading what the call before writes. Every mode repeats a call on the same
// inputs, where one that starts too early reads what it would have read anyway.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mage_bench/device.hpp"
#include "mage_bench/operand.hpp"
#include "mage_bench/registry.hpp"

namespace mage {

/// An output that can be an input of the next call: the same type, shape and offset. Indices of operands.
struct Link {
  std::size_t out = 0, in = 0;
};
[[nodiscard]] std::vector<Link> links(const Operands& operands);
/// The problems with links that a family's calls are chained on.
[[nodiscard]] std::vector<AnyProblem> chained_problems(const Family& family);

/// An operation on any pointers, and which of its outputs is linked to which of its inputs.
struct Chained {
  Operands operands;
  Link link;
  std::function<Launch(const Pointers& pointers)> prepare;
  std::function<void(const Pointers& host)> derive;  ///< inputs that follow from others; may be empty
  /// Set: the same call need not give the same bits. Then outputs must be near what they should be, which unwritten
  /// words, and those of another call, are not.
  bool varies = false;
};

struct ChainVerdict {
  int broken_on_stream = 0, broken_in_graph = 0;  ///< repetitions that gave other bits
  std::string reason;                             ///< empty where none did
  [[nodiscard]] bool ok() const { return broken_on_stream + broken_in_graph == 0; }
};

/// Calls the operation forth (x to y), back (y to x) and forth without waiting in between, `repetitions` times on the
/// stream and, where the device has them, as many times in a graph. Every output must have the bits that it has where
/// each call is waited for. A call that reads before the one before has written gets NaN or older values; one that
/// writes while the one before still reads changes what that one sees; and a second kernel of a call that does not wait
/// for the first finds what another call left. Not a fourth call: of a copy that reads too early, it would write the
/// right bits over the wrong ones. x lies in the host's memory, which a device reads many times slower than its own: so
/// forth lasts longer than the next kernel takes to start, however small the problem is.
[[nodiscard]] ChainVerdict check_chain(Device& device, const Chained& chained, int repetitions);

}  // namespace mage
