# SPDX-License-Identifier: Apache-2.0
# libmage_launch.so: the same sources and flags as the program's layers, position-independent. Only on demand.

if(MAGE_CUDA)
  add_library(
    mage_launch
    SHARED
    EXCLUDE_FROM_ALL
    "${PROJECT_SOURCE_DIR}/tools/launch_api.cpp"
    ${mage_core_files}
    ${mage_device_files}
    ${mage_kernel_sources}
    ${mage_reference_sources}
    "${mage_generated_dir}/kernel_sources.cpp"
    "${mage_generated_dir}/build_info.cpp"
  )
  target_include_directories(mage_launch PRIVATE "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(
    mage_launch
    PRIVATE
      mage_options
      mage_bench_headers
      mage_definitions
      ${mage_kernel_packages}
      Threads::Threads
      CUDA::cudart_static
  )
  if(OpenMP_CXX_FOUND)
    target_link_libraries(mage_launch PRIVATE OpenMP::OpenMP_CXX)
  endif()
  add_dependencies(mage_launch mage_refresh_build_info)
endif()
