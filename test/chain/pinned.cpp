// SPDX-License-Identifier: Apache-2.0
#include "mage_bench/cuda.hpp"
#include "test/chain/chain.hpp"

namespace mage::test {

std::shared_ptr<void> pinned_memory(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, bytes, cudaHostAllocMapped), "cudaHostAlloc");
  return {memory, [](void* pointer) { static_cast<void>(cudaFreeHost(pointer)); }};
}

}  // namespace mage::test
