// SPDX-License-Identifier: Apache-2.0
// What device code may use. Clean under NVRTC: no standard headers here.
#pragma once

#ifdef __CUDACC_RTC__
#define MAGE_HOST 0
namespace mage {
using int64 = long long;
using uint32 = unsigned int;
using uint64 = unsigned long long;
}  // namespace mage
#else
#define MAGE_HOST 1
#include "mage_bench/contract.hpp"
#include "mage_bench/cuda.hpp"
#endif
