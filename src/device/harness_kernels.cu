// SPDX-License-Identifier: Apache-2.0
#include "device/checksum.hpp"
#include "device/harness_kernels.hpp"

namespace mage::harness {
namespace {

constexpr int threads = 256;

__device__ uint64 globaltimer_ns() {
  uint64 now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
  return now;
}

__device__ uint64 cycles() {
  uint64 now;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(now)::"memory");
  return now;
}

}  // namespace

__global__ void mage_harness_empty() {}

__global__ void mage_harness_delay(uint64 nanoseconds) {
  const uint64 begin = globaltimer_ns();
  while (globaltimer_ns() - begin < nanoseconds) {
  }
}

__global__ void mage_harness_write_sweep(uint4* buffer, std::size_t vectors, uint32 value) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < vectors; i += stride)
    buffer[i] = make_uint4(value, value + 1, value + 2, value + 3);
}

// The read pushes the written lines out of L2, so that no write-back is left to overlap what is timed next.
__global__ void mage_harness_read_sweep(const uint4* buffer, std::size_t vectors, uint32* sink) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  uint32 folded = 0;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < vectors; i += stride) {
    const uint4 v = buffer[i];
    folded |= v.x ^ v.y ^ v.z ^ v.w;
  }
  if (folded == 0xFFFFFFFFU) *sink = folded;
}

__global__ void mage_harness_fill(uint32* buffer, std::size_t words, uint32 pattern) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < words; i += stride)
    buffer[i] = pattern;
}

__global__ void mage_harness_checksum(const uint32* buffer, std::size_t words, uint64* total) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  uint64 sum = 0;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < words; i += stride)
    sum += checksum_term(i, buffer[i]);
  for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_down_sync(0xFFFFFFFFU, sum, lane);
  if (threadIdx.x % 32 == 0) atomicAdd(reinterpret_cast<unsigned long long*>(total), sum);
}

__global__ void mage_harness_speckle(uint32* buffer, std::size_t words, uint64 seed, uint32 pattern) {
  buffer[speckle_position(seed, static_cast<int>(threadIdx.x), words)] = pattern;
}

__global__ void mage_harness_count_speckles(const uint32* buffer, std::size_t words, uint64 seed, uint32 pattern,
                                            uint64* total) {
  if (buffer[speckle_position(seed, static_cast<int>(threadIdx.x), words)] == pattern)
    atomicAdd(reinterpret_cast<unsigned long long*>(total), 1ULL);
}

__global__ void mage_harness_clock_probe(uint64 nanoseconds, uint64* out) {
  const uint64 begin_ns = globaltimer_ns();
  const uint64 begin_cycles = cycles();
  uint64 now_ns = begin_ns;
  while (now_ns - begin_ns < nanoseconds) now_ns = globaltimer_ns();
  out[0] = cycles() - begin_cycles;
  out[1] = now_ns - begin_ns;
}

void launch_empty(cudaStream_t stream) { mage_harness_empty<<<1, 32, 0, stream>>>(); }

void launch_delay(uint64 nanoseconds, cudaStream_t stream) { mage_harness_delay<<<1, 1, 0, stream>>>(nanoseconds); }

void launch_write_sweep(uint32* buffer, std::size_t words, uint32 value, int blocks, cudaStream_t stream) {
  mage_harness_write_sweep<<<blocks, threads, 0, stream>>>(reinterpret_cast<uint4*>(buffer), words / 4, value);
}

void launch_read_sweep(const uint32* buffer, std::size_t words, uint32* sink, int blocks, cudaStream_t stream) {
  mage_harness_read_sweep<<<blocks, threads, 0, stream>>>(reinterpret_cast<const uint4*>(buffer), words / 4, sink);
}

void launch_fill(uint32* buffer, std::size_t words, uint32 pattern, int blocks, cudaStream_t stream) {
  mage_harness_fill<<<blocks, threads, 0, stream>>>(buffer, words, pattern);
}

void launch_checksum(const uint32* buffer, std::size_t words, uint64* total, int blocks, cudaStream_t stream) {
  mage_harness_checksum<<<blocks, threads, 0, stream>>>(buffer, words, total);
}

void launch_speckle(uint32* buffer, std::size_t words, uint64 seed, uint32 pattern, cudaStream_t stream) {
  mage_harness_speckle<<<1, speckle_words, 0, stream>>>(buffer, words, seed, pattern);
}

void launch_count_speckles(const uint32* buffer, std::size_t words, uint64 seed, uint32 pattern, uint64* total,
                           cudaStream_t stream) {
  mage_harness_count_speckles<<<1, speckle_words, 0, stream>>>(buffer, words, seed, pattern, total);
}

void launch_clock_probe(uint64 nanoseconds, uint64* out, cudaStream_t stream) {
  mage_harness_clock_probe<<<1, 1, 0, stream>>>(nanoseconds, out);
}

}  // namespace mage::harness
