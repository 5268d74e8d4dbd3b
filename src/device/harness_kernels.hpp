// SPDX-License-Identifier: Apache-2.0
// Kernels of the measuring protocol itself. Their names begin with mage_harness_, so that traces tell them apart.
#pragma once

#include <cuda_runtime_api.h>

#include "mage_bench/contract.hpp"
#include "mage_bench/inspection.hpp"

namespace mage::harness {

void launch_empty(cudaStream_t stream);
/// Spins until `nanoseconds` have passed on %globaltimer.
void launch_delay(uint64 nanoseconds, cudaStream_t stream);
/// Both go through the whole vectors of `buffer`; `sink` is never written but keeps the reads alive.
void launch_write_sweep(uint32* buffer, std::size_t words, uint32 value, int blocks, cudaStream_t stream);
void launch_read_sweep(const uint32* buffer, std::size_t words, uint32* sink, int blocks, cudaStream_t stream);
void launch_fill(void* to, uint32 pattern, std::size_t bytes, int blocks, cudaStream_t stream);
/// Adds the checksum to *total.
void launch_checksum(const void* from, std::size_t bytes, uint64* total, int blocks, cudaStream_t stream);
void launch_spoil(void* to, DType dtype, std::size_t elements, uint64 secret, int blocks, cudaStream_t stream);
void launch_disturb(const Inspection& inspection, const Question& question, cudaStream_t stream);
/// As launch_disturb, `late_ns` after it has let a dependent kernel start.
void launch_disturb_late(const Inspection& inspection, const Question& question, uint64 late_ns, cudaStream_t stream);
/// Both add to *findings.
void launch_inspect(const Inspection& inspection, const Question& question, Findings* findings, cudaStream_t stream);
/// As launch_inspect, by programmatic dependent launch.
void launch_inspect_as_dependent(const Inspection& inspection, const Question& question, Findings* findings,
                                 cudaStream_t stream);
void launch_inspect_fill(const void* from, uint32 pattern, std::size_t bytes, uint32 tag, Findings* findings,
                         int blocks, cudaStream_t stream);
void launch_judge(const Judged& output, uint32 tag, Findings* findings, int blocks, cudaStream_t stream);
void launch_amend(double* value, float* bound, const Amendment* amendments, std::size_t count, int blocks,
                  cudaStream_t stream);
/// Spins for `nanoseconds` and writes {cycles of %clock64, nanoseconds of %globaltimer} to out[0..1].
void launch_clock_probe(uint64 nanoseconds, uint64* out, cudaStream_t stream);

}  // namespace mage::harness
