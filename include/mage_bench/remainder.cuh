// SPDX-License-Identifier: Apache-2.0
// i % divisor without a division, which would stand ahead of a kernel's loads.
#pragma once

#include "mage_bench/device_code.cuh"

namespace mage {

/// Of numbers below 2^31: i % divisor = i - divisor * floor(2 i * magic / 2^(32 + shift)).
struct Divisor {
  uint32 divisor, magic, shift;
};

__device__ inline uint32 remainder(uint32 i, Divisor by) {
  return i - by.divisor * (__umulhi(2 * i, by.magic) >> by.shift);
}

#if MAGE_HOST
/// divisor is at least 1 and below 2^31.
[[nodiscard]] inline Divisor divisor_of(uint32 divisor) {
  uint32 log2 = 0;  // rounded up
  while (uint64{1} << log2 < divisor) ++log2;
  return {.divisor = divisor, .magic = static_cast<uint32>((uint64{1} << (31 + log2)) / divisor + 1), .shift = log2};
}
#endif

}  // namespace mage
