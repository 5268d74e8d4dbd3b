// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace mage {

/// A named range of the calling thread in the NVTX domain "mage_bench", from construction to destruction.
/// Ranges nest. Nothing happens where no tool listens, or where the build has no NVTX.
class NvtxRange {
 public:
  explicit NvtxRange(std::string_view name);
  ~NvtxRange();
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;

 private:
  bool pushed_ = false;
};

}  // namespace mage
