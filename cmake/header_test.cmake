# SPDX-License-Identifier: Apache-2.0
# Every header compiles alone, and with the include folders of its own layer only: a source file for each, which holds
# one #include. The objects are linked into nothing; that they compile is the test.

function(mage_header_test layer folder)
  set(headers "")
  foreach(pattern IN LISTS ARGN)
    file(
      GLOB found
      RELATIVE "${PROJECT_SOURCE_DIR}/${folder}"
      CONFIGURE_DEPENDS
      "${PROJECT_SOURCE_DIR}/${folder}/${pattern}"
    )
    list(APPEND headers ${found})
  endforeach()

  set(sources "")
  foreach(header IN LISTS headers)
    if(header MATCHES "(\\.cuh|/cuda\\.hpp)$" AND NOT MAGE_CUDA)
      continue()
    endif()
    set(extension cpp)
    if(header MATCHES "\\.cuh$")
      set(extension cu)
    endif()
    set(source "${mage_generated_dir}/header_test/${layer}/${header}.${extension}")
    file(CONFIGURE OUTPUT "${source}" CONTENT "#include \"${header}\"\n")
    list(APPEND sources "${source}")
  endforeach()

  if(sources)
    add_library(mage_header_test_${layer} OBJECT ${sources})
    target_link_libraries(mage_header_test_${layer} PRIVATE mage_options)
    set_source_files_properties(${sources} PROPERTIES SKIP_LINTING ON)
  endif()
endfunction()

function(mage_header_test_links layer)
  if(TARGET mage_header_test_${layer})
    target_link_libraries(mage_header_test_${layer} PRIVATE ${ARGN})
  endif()
endfunction()

mage_header_test(core include "mage_bench/*.hpp" "mage_bench/*.cuh")
mage_header_test(kernels src "kernels/*/*.hpp" "kernels/*/*.cuh" "reference/*.hpp" "core/*.hpp")
mage_header_test(bench . "bench/*.hpp" "bench/admission/*.hpp" "bench/selftest/*.hpp")
mage_header_test(tools . "tools/compare/*.hpp")
mage_header_test(test . "test/support/*.hpp")
if(MAGE_CUDA)
  mage_header_test(device src "device/*.hpp" "device/*.cuh")
endif()

if(MAGE_CUDA)
  add_library(mage_cuda_headers INTERFACE)
  target_include_directories(mage_cuda_headers SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})
  mage_header_test_links(core mage_cuda_headers)
endif()
mage_header_test_links(core mage_public_headers)
mage_header_test_links(kernels mage_contract_headers)
mage_header_test_links(device mage_contract_headers mage_definitions)
mage_header_test_links(bench mage_measure)
mage_header_test_links(tools mage_measure)
mage_header_test_links(test mage_test_support)
