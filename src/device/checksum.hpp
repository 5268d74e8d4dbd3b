// SPDX-License-Identifier: Apache-2.0
// One word's part of a buffer's checksum. A sum, so that any number of threads in any order gives the same value.
#pragma once

#include "mage_bench/contract.hpp"

#ifdef __CUDACC__
#define MAGE_BOTH_SIDES __host__ __device__
#else
#define MAGE_BOTH_SIDES
#endif

namespace mage {

/// splitmix64 of (position, word): swapping two words or changing one bit changes the sum.
MAGE_BOTH_SIDES constexpr uint64 checksum_term(uint64 position, uint32 word) {
  uint64 z = position * 0x9E3779B97F4A7C15ULL + (static_cast<uint64>(word) << 17) + word + 1;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

}  // namespace mage
