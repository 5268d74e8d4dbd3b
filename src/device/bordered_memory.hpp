// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "mage_bench/device.hpp"

namespace mage {

/// Device memory between addresses that are mapped to nothing, by CUDA's virtual memory management. Mappings are kept
/// and used again: one takes about a millisecond.
class BorderedMemory {
 public:
  explicit BorderedMemory(int device);
  ~BorderedMemory();
  BorderedMemory(const BorderedMemory&) = delete;
  BorderedMemory& operator=(const BorderedMemory&) = delete;

  /// See Trials::allocate_at_border. Throws UnavailableError where the device has no virtual memory management.
  [[nodiscard]] void* allocate(std::size_t bytes, Trials::Border border);
  /// False where `pointer` is not of this memory.
  [[nodiscard]] bool deallocate(void* pointer);

 private:
  struct Mapping;

  int device_;
  std::vector<std::unique_ptr<Mapping>> free_;
  std::map<void*, std::unique_ptr<Mapping>> used_;  ///< by the pointer that was given
};

}  // namespace mage
