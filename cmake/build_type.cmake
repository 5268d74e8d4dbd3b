# SPDX-License-Identifier: Apache-2.0
# One build type a build folder, Release by default. A Debug build has nothing to say about speed, so it is refused.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON) # cmake/build_info.cmake reads the flags of a kernel object from it

get_property(mage_multi_config GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
if(mage_multi_config)
  message(FATAL_ERROR "mage_bench needs a generator with one build type a folder. Use -G Ninja.")
endif()

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, or RelWithDebInfo with MAGE_SANITIZE" FORCE)
endif()

string(TOUPPER "${CMAKE_BUILD_TYPE}" mage_build_type)
if(mage_build_type STREQUAL "DEBUG" AND NOT MAGE_SANITIZE)
  message(
    FATAL_ERROR
    "mage_bench does not benchmark a Debug build. Use CMAKE_BUILD_TYPE=Release, or the preset asan to look for errors."
  )
endif()
