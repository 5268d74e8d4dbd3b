# SPDX-License-Identifier: Apache-2.0
# Finds the variant files and says of each whether this build can have it.
# Sets mage_kernel_sources, and mage_manifest_lines with `path|reason`: the reason is empty where the file is built.

file(
  GLOB mage_variant_files
  RELATIVE "${PROJECT_SOURCE_DIR}"
  CONFIGURE_DEPENDS
  "${PROJECT_SOURCE_DIR}/src/kernels/*/*.cu"
  "${PROJECT_SOURCE_DIR}/src/kernels/*/*.cpp"
)
file(
  GLOB mage_reference_files
  RELATIVE "${PROJECT_SOURCE_DIR}"
  CONFIGURE_DEPENDS
  "${PROJECT_SOURCE_DIR}/src/reference/*.cpp"
)

# A provider's prefix and the target that its variants link.
set(mage_provider_cublas CUDA::cublas)
set(mage_provider_cusparse CUDA::cusparse)

set(mage_kernel_sources "")
set(mage_kernel_packages "")
set(mage_manifest_lines "")
foreach(file IN LISTS mage_variant_files)
  get_filename_component(stem "${file}" NAME_WE)
  string(REGEX REPLACE "_.*" "" provider "${stem}")
  set(package "${mage_provider_${provider}}")
  set(skipped "")
  if(file MATCHES "\\.cu$" AND NOT MAGE_CUDA)
    set(skipped cuda_toolkit_missing)
  elseif(package AND NOT TARGET ${package})
    set(skipped package_missing)
  else()
    list(APPEND mage_kernel_sources "${PROJECT_SOURCE_DIR}/${file}")
    list(APPEND mage_kernel_packages ${package})
  endif()
  list(APPEND mage_manifest_lines "${file}|${skipped}")
endforeach()
foreach(file IN LISTS mage_reference_files)
  list(APPEND mage_manifest_lines "${file}|")
endforeach()
list(REMOVE_DUPLICATES mage_kernel_packages)
