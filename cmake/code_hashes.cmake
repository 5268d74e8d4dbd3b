# SPDX-License-Identifier: Apache-2.0
# Script: writes OUTPUT, which registers the hash of each object in LIST (a path a line): of a kernel's or a reference's
# object by the path of its source, of all others together as the harness's. An object holds what its source and every
# header behind it came to.

file(STRINGS "${LIST}" objects)
set(entries "")
set(others "")
foreach(object IN LISTS objects)
  file(SHA256 "${object}" hash)
  if(object MATCHES "mage_(kernels|reference)\\.dir/(\\./)?(src/.*)\\.o(bj)?$")
    string(APPEND entries "    {\"${CMAKE_MATCH_3}\", \"${hash}\"},\n")
  else()
    list(APPEND others "${hash}")
  endif()
endforeach()
list(SORT others)
string(SHA256 harness "${others}")

file(
  WRITE "${OUTPUT}"
  "// SPDX-License-Identifier: Apache-2.0
// Written by cmake/code_hashes.cmake.
#include \"mage_bench/registry.hpp\"

namespace mage {
namespace {

constexpr CodeHash hashes[]{
${entries}    {\"harness\", \"${harness}\"},
};
[[maybe_unused]] const RegisterCodeHashes registered{hashes};

}  // namespace
}  // namespace mage
"
)
