# SPDX-License-Identifier: Apache-2.0
# Script: writes the definition of mage::build_info() to OUTPUT, and leaves the file alone where nothing changed.

set(commit unknown)
set(dirty std::nullopt)
# A copy without a repository may be told where it comes from; that it is unchanged is then anybody's word.
if("$ENV{MAGE_GIT_COMMIT}" MATCHES "^[0-9a-f]+$")
  set(commit "$ENV{MAGE_GIT_COMMIT}")
endif()
find_program(GIT git)
if(GIT)
  # A copy that lies unpacked inside another repository must not take that one's commit.
  execute_process(
    COMMAND ${GIT} -C "${SOURCE_DIR}" rev-parse --show-prefix HEAD
    OUTPUT_VARIABLE answer
    ERROR_QUIET
    RESULT_VARIABLE failed
  )
  if(NOT failed AND answer MATCHES "^\n([0-9a-f]+)\n$")
    set(commit "${CMAKE_MATCH_1}")
    set(dirty false)
    execute_process(
      COMMAND ${GIT} -C "${SOURCE_DIR}" --no-optional-locks status --porcelain
      OUTPUT_VARIABLE changes
      ERROR_QUIET
    )
    if(NOT changes STREQUAL "")
      set(dirty true)
    endif()
  endif()
endif()

# The flags of one object, as the build calls its compiler, less whatever names a file or a folder.
function(read_flags result pattern)
  set(${result} "" PARENT_SCOPE)
  if(NOT EXISTS "${BINARY_DIR}/compile_commands.json")
    return()
  endif()
  file(STRINGS "${BINARY_DIR}/compile_commands.json" lines ENCODING UTF-8 REGEX "^ *\"(command|file)\": ")
  set(command "")
  foreach(line IN LISTS lines)
    if(line MATCHES "^ *\"command\": \"(.*)\",?$")
      set(command "${CMAKE_MATCH_1}")
    elseif(line MATCHES "^ *\"file\": \"(.*)\",?$")
      # Not by one expression: a folder's name may hold what is special there.
      string(REPLACE "${SOURCE_DIR}/" "" file "${CMAKE_MATCH_1}")
      if(file MATCHES "^${pattern}")
        break()
      endif()
      set(command "")
    endif()
  endforeach()
  string(REPLACE "\\\"" "\"" command "${command}")
  string(REPLACE "\\\\" "\\" command "${command}")
  separate_arguments(words UNIX_COMMAND "${command}")
  set(flags "")
  set(skip_next OFF)
  set(in_flags OFF) # the compiler comes first, and its launcher before it
  foreach(word IN LISTS words)
    if(NOT in_flags AND NOT word MATCHES "^-")
      continue()
    endif()
    set(in_flags ON)
    if(skip_next)
      set(skip_next OFF)
    elseif(word MATCHES "^(-o|-c|-x|-isystem|-MF|-MT|-MQ)$")
      set(skip_next ON)
    elseif(
      word MATCHES "^(-MD|-MMD|-ccbin=.*|-I.*|-isystem=.*|--options-file.*)$"
      OR word MATCHES "(prefix-map=|^/|^\")"
    )
      continue()
    else()
      list(APPEND flags "${word}")
    endif()
  endforeach()
  list(JOIN flags " " flags)
  string(REPLACE "${BINARY_DIR}" "build" flags "${flags}")
  string(REPLACE "${SOURCE_DIR}" "." flags "${flags}")
  string(REPLACE "\\" "\\\\" flags "${flags}")
  string(REPLACE "\"" "\\\"" flags "${flags}")
  set(${result} "${flags}" PARENT_SCOPE)
endfunction()

read_flags(cxx_flags "src/kernels/[^\"]*\\.cpp$")
if(cxx_flags STREQUAL "")
  read_flags(cxx_flags "src/[^\"]*\\.cpp$")
endif()
read_flags(cuda_flags "src/kernels/[^\"]*\\.cu$")
string(STRIP "${CUDA_COMPILER}" CUDA_COMPILER)

set(
  text
  "// SPDX-License-Identifier: Apache-2.0
// Written by cmake/build_info.cmake.
#include \"bench/build_info.hpp\"

namespace mage {

const BuildInfo& build_info() {
  static constexpr BuildInfo info{
      .git_commit = \"${commit}\",
      .git_dirty = ${dirty},
      .compiler = \"${CXX_COMPILER}\",
      .cuda_compiler = \"${CUDA_COMPILER}\",
      .cxx_flags = \"${cxx_flags}\",
      .cuda_flags = \"${cuda_flags}\",
      .build_type = \"${BUILD_TYPE}\",
      .benchmark_version = \"${BENCHMARK_VERSION}\",
      .cmake_version = \"${CMAKE_VERSION}\",
  };
  return info;
}

}  // namespace mage
"
)
set(old "")
if(EXISTS "${OUTPUT}")
  file(READ "${OUTPUT}" old)
endif()
if(NOT old STREQUAL text)
  file(WRITE "${OUTPUT}" "${text}")
endif()
