// SPDX-License-Identifier: Apache-2.0
// What a mutant does beside the right operation, on the device's own stream.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mage_bench/launch.hpp"

namespace mage::test {

struct Tools {
  void (*copy)(void* to, const void* from, std::size_t bytes, StreamHandle stream);
  void (*fill)(void* to, std::uint32_t word, std::size_t words, StreamHandle stream);
  /// Copies where *calls is not 0, and counts the call: on the device, so that replays of a graph count too.
  void (*copy_after_first)(std::uint32_t* calls, void* to, const void* from, std::size_t bytes, StreamHandle stream);
};
[[nodiscard]] const Tools& host_tools();
[[nodiscard]] const Tools& cuda_tools();

}  // namespace mage::test
