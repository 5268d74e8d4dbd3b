// SPDX-License-Identifier: Apache-2.0
#include "mage_bench/cuda.hpp"
#include "test/mutants/tools.hpp"

namespace mage::test {
namespace {

constexpr unsigned threads = 256, blocks = 64;

__device__ std::size_t first_word() { return static_cast<std::size_t>(blockIdx.x) * threads + threadIdx.x; }

__global__ void mutant_copy(std::uint32_t* to, const std::uint32_t* from, std::size_t words) {
  for (auto i = first_word(); i < words; i += threads * blocks) to[i] = from[i];
}

__global__ void mutant_fill(std::uint32_t* to, std::uint32_t word, std::size_t words) {
  for (auto i = first_word(); i < words; i += threads * blocks) to[i] = word;
}

__global__ void mutant_copy_after_first(const std::uint32_t* calls, std::uint32_t* to, const std::uint32_t* from,
                                        std::size_t words) {
  if (*calls == 0) return;
  for (auto i = first_word(); i < words; i += threads * blocks) to[i] = from[i];
}

__global__ void mutant_count(std::uint32_t* calls) { ++*calls; }

}  // namespace

const Tools& cuda_tools() {
  static const Tools tools{
      [](void* to, const void* from, std::size_t bytes, StreamHandle stream) {
        mutant_copy<<<blocks, threads, 0, cuda_stream(stream)>>>(static_cast<std::uint32_t*>(to),
                                                                 static_cast<const std::uint32_t*>(from), bytes / 4);
      },
      [](void* to, std::uint32_t word, std::size_t words, StreamHandle stream) {
        mutant_fill<<<blocks, threads, 0, cuda_stream(stream)>>>(static_cast<std::uint32_t*>(to), word, words);
      },
      [](std::uint32_t* calls, void* to, const void* from, std::size_t bytes, StreamHandle stream) {
        mutant_copy_after_first<<<blocks, threads, 0, cuda_stream(stream)>>>(
            calls, static_cast<std::uint32_t*>(to), static_cast<const std::uint32_t*>(from), bytes / 4);
        mutant_count<<<1, 1, 0, cuda_stream(stream)>>>(calls);
      }};
  return tools;
}

}  // namespace mage::test
