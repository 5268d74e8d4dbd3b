# SPDX-License-Identifier: Apache-2.0
# The CUDA language and the parts of the toolkit, each with a MAGE_HAVE_* of 0 or 1.

set(MAGE_HAVE_CUDA 0)
set(MAGE_HAVE_CUPTI 0)
set(MAGE_HAVE_NVTX 0)
set(MAGE_HAVE_NVML 0)

if(NOT MAGE_CUDA)
  return()
endif()

if(MAGE_SANITIZE)
  message(FATAL_ERROR "MAGE_SANITIZE is for host code: configure with MAGE_CUDA=OFF, as the preset asan does.")
endif()

set(CMAKE_CUDA_ARCHITECTURES "${MAGE_CUDA_ARCHITECTURES}")
enable_language(CUDA)

# CMake before 3.25.2 does not know that nvcc has C++20 and drops CMAKE_CUDA_STANDARD without a word. Goes with 3.25.2.
if(CMAKE_VERSION VERSION_LESS 3.25.2 AND NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)

find_package(CUDAToolkit REQUIRED)
set(MAGE_HAVE_CUDA 1)

# CUPTI is loaded when the program runs, so that a machine without it loses one mode only. Its header is needed here.
find_path(
  MAGE_CUPTI_INCLUDE_DIR
  cupti.h
  HINTS ${CUDAToolkit_INCLUDE_DIRS} "${CUDAToolkit_BIN_DIR}/../extras/CUPTI/include"
)
if(MAGE_CUPTI_INCLUDE_DIR)
  set(MAGE_HAVE_CUPTI 1)
endif()

# NVTX is headers only.
find_path(MAGE_NVTX_INCLUDE_DIR nvtx3/nvToolsExt.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
if(MAGE_NVTX_INCLUDE_DIR)
  set(MAGE_HAVE_NVTX 1)
endif()

# NVML is loaded when the program runs, as CUPTI is.
find_path(MAGE_NVML_INCLUDE_DIR nvml.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
if(MAGE_NVML_INCLUDE_DIR)
  set(MAGE_HAVE_NVML 1)
endif()

mark_as_advanced(MAGE_CUPTI_INCLUDE_DIR MAGE_NVTX_INCLUDE_DIR MAGE_NVML_INCLUDE_DIR)
