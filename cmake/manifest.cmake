# SPDX-License-Identifier: Apache-2.0
# Script: writes the definition of mage::kernel_sources() from LIST, whose lines are `path|reason`.

file(STRINGS "${LIST}" lines)
set(entries "")
foreach(line IN LISTS lines)
  string(REGEX MATCH "^([^|]*)\\|(.*)$" matched "${line}")
  set(path "${CMAKE_MATCH_1}")
  set(skipped "${CMAKE_MATCH_2}")
  file(SHA256 "${SOURCE_DIR}/${path}" hash)
  string(APPEND entries "    SourceFile{\"${path}\", \"${hash}\", \"${skipped}\"},\n")
endforeach()

list(LENGTH lines count)
file(
  WRITE "${OUTPUT}"
  "// SPDX-License-Identifier: Apache-2.0
// Written by cmake/manifest.cmake.
#include <array>
#include <span>

#include \"mage_bench/registry.hpp\"

namespace mage {

std::span<const SourceFile> kernel_sources() {
  static constexpr std::array<SourceFile, ${count}> files{
${entries}  };
  return files;
}

}  // namespace mage
"
)
