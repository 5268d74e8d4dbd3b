# SPDX-License-Identifier: Apache-2.0
# Two files that the build writes: the manifest of kernel sources, and what the build knows of itself.

set(mage_generated_dir "${PROJECT_BINARY_DIR}/generated")
file(MAKE_DIRECTORY "${mage_generated_dir}")

# The list is a file that changes only when its content does, so that a configure run alone rebuilds nothing.
list(JOIN mage_manifest_lines "\n" mage_manifest_text)
file(CONFIGURE OUTPUT "${mage_generated_dir}/kernel_sources.txt" CONTENT "${mage_manifest_text}\n" @ONLY)

list(TRANSFORM mage_variant_files PREPEND "${PROJECT_SOURCE_DIR}/" OUTPUT_VARIABLE mage_manifest_inputs)
foreach(file IN LISTS mage_reference_files)
  list(APPEND mage_manifest_inputs "${PROJECT_SOURCE_DIR}/${file}")
endforeach()

add_custom_command(
  OUTPUT "${mage_generated_dir}/kernel_sources.cpp"
  COMMAND
    ${CMAKE_COMMAND} "-DSOURCE_DIR=${PROJECT_SOURCE_DIR}" "-DLIST=${mage_generated_dir}/kernel_sources.txt"
    "-DOUTPUT=${mage_generated_dir}/kernel_sources.cpp" -P "${PROJECT_SOURCE_DIR}/cmake/manifest.cmake"
  DEPENDS
    ${mage_manifest_inputs}
    "${mage_generated_dir}/kernel_sources.txt"
    "${PROJECT_SOURCE_DIR}/cmake/manifest.cmake"
  COMMENT "Hashing kernel sources"
  VERBATIM
)

# Runs in every build: the commit can change without any file here changing. It writes only what differs.
add_custom_target(
  mage_refresh_build_info
  COMMAND
    ${CMAKE_COMMAND} "-DSOURCE_DIR=${PROJECT_SOURCE_DIR}" "-DBINARY_DIR=${PROJECT_BINARY_DIR}"
    "-DOUTPUT=${mage_generated_dir}/build_info.cpp" "-DBUILD_TYPE=${CMAKE_BUILD_TYPE}"
    "-DCXX_COMPILER=${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}"
    "-DCUDA_COMPILER=${CMAKE_CUDA_COMPILER_ID} ${CMAKE_CUDA_COMPILER_VERSION}"
    "-DBENCHMARK_VERSION=${mage_benchmark_version}" -P "${PROJECT_SOURCE_DIR}/cmake/build_info.cmake"
  BYPRODUCTS "${mage_generated_dir}/build_info.cpp"
  COMMENT "Reading the commit"
  VERBATIM
)
