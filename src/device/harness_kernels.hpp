// SPDX-License-Identifier: Apache-2.0
// Kernels of the measuring protocol itself. Their names begin with mage_harness_, so that traces tell them apart.
#pragma once

#include <cuda_runtime_api.h>

#include "mage_bench/contract.hpp"

namespace mage::harness {

void launch_empty(cudaStream_t stream);
/// Spins until `nanoseconds` have passed on %globaltimer.
void launch_delay(uint64 nanoseconds, cudaStream_t stream);
/// Both go through the whole vectors of `buffer`; `sink` is never written but keeps the reads alive.
void launch_write_sweep(uint32* buffer, std::size_t words, uint32 value, int blocks, cudaStream_t stream);
void launch_read_sweep(const uint32* buffer, std::size_t words, uint32* sink, int blocks, cudaStream_t stream);
void launch_fill(uint32* buffer, std::size_t words, uint32 pattern, int blocks, cudaStream_t stream);
/// Adds the checksum of `words` words to *total.
void launch_checksum(const uint32* buffer, std::size_t words, uint64* total, int blocks, cudaStream_t stream);
void launch_speckle(uint32* buffer, std::size_t words, uint64 seed, uint32 pattern, cudaStream_t stream);
/// Adds to *total the number of speckled places that still hold `pattern`.
void launch_count_speckles(const uint32* buffer, std::size_t words, uint64 seed, uint32 pattern, uint64* total,
                           cudaStream_t stream);
/// Spins for `nanoseconds` and writes {cycles of %clock64, nanoseconds of %globaltimer} to out[0..1].
void launch_clock_probe(uint64 nanoseconds, uint64* out, cudaStream_t stream);

}  // namespace mage::harness
