# SPDX-License-Identifier: Apache-2.0
# mage_options carries every compile option that all of the project's own targets share.

add_library(mage_options INTERFACE)

target_compile_options(
  mage_options
  INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall>
    $<$<COMPILE_LANGUAGE:CXX>:-Wextra>
    $<$<COMPILE_LANGUAGE:CXX>:-Wconversion>
    $<$<COMPILE_LANGUAGE:CXX>:-Wshadow>
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wshadow>
)
# GCC 12 sees an overlap that is none in string concatenation (gcc.gnu.org/PR105651). Goes with GCC 12.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(mage_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
if(MAGE_WERROR)
  target_compile_options(
    mage_options
    INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror> $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>
  )
endif()

# Binaries name their sources by the path from the repository's root, wherever they were built.
foreach(map IN ITEMS "${PROJECT_SOURCE_DIR}/=" "${PROJECT_BINARY_DIR}/=build/")
  target_compile_options(
    mage_options
    INTERFACE
      "$<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${map}>"
      "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-ffile-prefix-map=${map}>"
  )
endforeach()

if(MAGE_SANITIZE)
  # -O1 and line tables are what the sanitizers need for their reports, and half the time to build.
  target_compile_options(
    mage_options
    INTERFACE -fsanitize=${MAGE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -O1 -g1
  )
  target_link_options(mage_options INTERFACE -fsanitize=${MAGE_SANITIZE})
  # The instrumented code makes GCC report uninitialised values that are none; its manual says so under -fsanitize.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(mage_options INTERFACE -Wno-maybe-uninitialized)
  endif()
endif()
