// SPDX-License-Identifier: Apache-2.0
// What the build knows of itself. The definition is written by cmake/build_info.cmake in every build.
#pragma once

#include <optional>

namespace mage {

/// Facts of provenance; never null. "unknown" where the build could not tell, empty where there is nothing to tell.
struct BuildInfo {
  const char* git_commit;         ///< 40 hex digits; outside a repository MAGE_GIT_COMMIT or "unknown"
  std::optional<bool> git_dirty;  ///< the work tree differed from that commit, untracked files included
  const char* compiler;           ///< as in "GNU 12.2.0"
  const char* cuda_compiler;      ///< as in "NVIDIA 13.0.48"; empty without CUDA
  const char* cxx_flags;          ///< of an object under src/, as the compiler was called, without paths
  const char* cuda_flags;         ///< of a CUDA kernel's object, in the same way; empty without CUDA
  const char* build_type;         ///< as in "Release"
  const char* benchmark_version;  ///< of the Google Benchmark that is linked
  const char* cmake_version;
};

[[nodiscard]] const BuildInfo& build_info();

}  // namespace mage
