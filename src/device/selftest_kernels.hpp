// SPDX-License-Identifier: Apache-2.0
// Operations that the self-test measures: one of known duration, and one whose accesses are marked.
#pragma once

#include <cuda_runtime_api.h>

#include "mage_bench/contract.hpp"

namespace mage::harness {

/// Copies `words` words, spins until `nanoseconds` have passed on %globaltimer since it began, and writes when it began
/// and ended to stamps[0..1], where that is not null.
void launch_spin(uint64 nanoseconds, const uint32* from, uint32* to, int words, uint64* stamps, cudaStream_t stream);

/// Copies `vectors` vectors by ld.global.L1::no_allocate and st.global.cs, as streaming kernels do.
void launch_marked_copy(uint4* to, const uint4* from, std::size_t vectors, int blocks, cudaStream_t stream);

}  // namespace mage::harness
