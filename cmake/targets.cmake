# SPDX-License-Identifier: Apache-2.0
# The layers of README.md as OBJECT libraries; each sees the include folders of the layers below it and no others.
# A program links all of them by name: variants and families register themselves in static objects that nothing
# refers to, and a linker drops an archive member that nothing refers to without a word.

find_package(Threads REQUIRED)

function(mage_glob result)
  list(TRANSFORM ARGN PREPEND "${PROJECT_SOURCE_DIR}/" OUTPUT_VARIABLE patterns)
  file(GLOB files CONFIGURE_DEPENDS ${patterns})
  set(${result} "${files}" PARENT_SCOPE)
endfunction()

# An OBJECT library without sources is an error; a folder without files yet is not.
function(mage_object_library name)
  set(sources ${ARGN})
  if(NOT sources)
    file(CONFIGURE OUTPUT "${mage_generated_dir}/empty.cpp" CONTENT "// SPDX-License-Identifier: Apache-2.0\n")
    set(sources "${mage_generated_dir}/empty.cpp")
  endif()
  add_library(${name} OBJECT ${sources})
  target_link_libraries(${name} PRIVATE mage_options)
endfunction()

add_library(mage_public_headers INTERFACE)
target_include_directories(mage_public_headers INTERFACE "${PROJECT_SOURCE_DIR}/include")

# The contract headers, "kernels/<family>/<family>.hpp".
add_library(mage_contract_headers INTERFACE)
target_include_directories(mage_contract_headers INTERFACE "${PROJECT_SOURCE_DIR}/src")
target_link_libraries(mage_contract_headers INTERFACE mage_public_headers)

# "bench/<name>.hpp".
add_library(mage_bench_headers INTERFACE)
target_include_directories(mage_bench_headers INTERFACE "${PROJECT_SOURCE_DIR}")
target_link_libraries(mage_bench_headers INTERFACE mage_public_headers)

add_library(mage_definitions INTERFACE)
target_compile_definitions(
  mage_definitions
  INTERFACE
    MAGE_HAVE_CUDA=${MAGE_HAVE_CUDA}
    MAGE_HAVE_CUPTI=${MAGE_HAVE_CUPTI}
    MAGE_HAVE_NVTX=${MAGE_HAVE_NVTX}
    MAGE_HAVE_NVML=${MAGE_HAVE_NVML}
)
if(MAGE_CUDA)
  target_include_directories(mage_definitions SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})
  foreach(part IN ITEMS CUPTI NVTX NVML)
    if(MAGE_HAVE_${part})
      target_include_directories(mage_definitions SYSTEM INTERFACE "${MAGE_${part}_INCLUDE_DIR}")
    endif()
  endforeach()
endif()

# core
mage_glob(mage_core_files "src/core/*.cpp")
mage_object_library(mage_core ${mage_core_files})
target_include_directories(mage_core PRIVATE "${PROJECT_SOURCE_DIR}/src")
target_link_libraries(mage_core PUBLIC mage_public_headers PRIVATE Threads::Threads)

# device
set(mage_device_files "${PROJECT_SOURCE_DIR}/src/device/host_device.cpp")
if(MAGE_CUDA)
  mage_glob(mage_device_files "src/device/*.cpp" "src/device/*.cu")
  list(FILTER mage_device_files EXCLUDE REGEX "/no_cuda\\.cpp$")
else()
  list(APPEND mage_device_files "${PROJECT_SOURCE_DIR}/src/device/no_cuda.cpp")
endif()
mage_object_library(mage_device ${mage_device_files})
target_include_directories(mage_device PRIVATE "${PROJECT_SOURCE_DIR}/src")
target_link_libraries(mage_device PUBLIC mage_public_headers PRIVATE mage_definitions ${CMAKE_DL_LIBS})
if(MAGE_CUDA)
  target_link_libraries(mage_device PRIVATE CUDA::cudart_static)
endif()

# kernels
mage_object_library(mage_kernels ${mage_kernel_sources})
target_link_libraries(mage_kernels PUBLIC mage_contract_headers PRIVATE mage_definitions ${mage_kernel_packages})
find_package(OpenMP COMPONENTS CXX)
if(OpenMP_CXX_FOUND)
  target_link_libraries(mage_kernels PRIVATE OpenMP::OpenMP_CXX)
endif()
set(mage_cpu_variants ${mage_kernel_sources})
list(FILTER mage_cpu_variants INCLUDE REGEX "/cpu_[^/]*\\.cpp$")
set_source_files_properties(${mage_cpu_variants} PROPERTIES COMPILE_OPTIONS -O3)

# reference
list(TRANSFORM mage_reference_files PREPEND "${PROJECT_SOURCE_DIR}/" OUTPUT_VARIABLE mage_reference_sources)
mage_object_library(mage_reference ${mage_reference_sources})
target_link_libraries(mage_reference PUBLIC mage_contract_headers PRIVATE Threads::Threads)
# A contracted multiply-add changes the last bit, and golden bits must not depend on the compiler.
target_compile_options(mage_reference PRIVATE -ffp-contract=off)
set_source_files_properties("${PROJECT_SOURCE_DIR}/src/core/random.cpp" PROPERTIES COMPILE_OPTIONS -ffp-contract=off)

# generated
mage_object_library(
  mage_generated
  "${mage_generated_dir}/kernel_sources.cpp"
  "${mage_generated_dir}/build_info.cpp"
)
target_link_libraries(mage_generated PRIVATE mage_bench_headers)
add_dependencies(mage_generated mage_refresh_build_info)

# measure
mage_glob(mage_measure_files "bench/*.cpp" "bench/admission/*.cpp" "bench/selftest/*.cpp")
list(FILTER mage_measure_files EXCLUDE REGEX "/bench/main\\.cpp$")
mage_object_library(mage_measure ${mage_measure_files})
target_link_libraries(
  mage_measure
  PUBLIC
    mage_bench_headers
    mage_definitions
    benchmark::benchmark
    fmt::fmt
    nlohmann_json::nlohmann_json
    OpenSSL::Crypto
    CLI11::CLI11
    ${CMAKE_DL_LIBS}
)

# code hashes: what an admission is remembered by
set(mage_harness_objects "$<TARGET_OBJECTS:mage_measure>")
set(
  mage_harness_objects
  "$<FILTER:${mage_harness_objects},INCLUDE,/bench/(admission/|audits|gate|samplers?|statistics)>"
)
file(
  GENERATE OUTPUT "${mage_generated_dir}/code_hashes.txt"
  CONTENT
    "$<JOIN:$<TARGET_OBJECTS:mage_kernels>;$<TARGET_OBJECTS:mage_reference>;$<TARGET_OBJECTS:mage_core>;$<TARGET_OBJECTS:mage_device>;${mage_harness_objects},
>
"
)
add_custom_command(
  OUTPUT "${mage_generated_dir}/code_hashes.cpp"
  COMMAND
    ${CMAKE_COMMAND} "-DLIST=${mage_generated_dir}/code_hashes.txt" "-DOUTPUT=${mage_generated_dir}/code_hashes.cpp" -P
    "${PROJECT_SOURCE_DIR}/cmake/code_hashes.cmake"
  DEPENDS
    $<TARGET_OBJECTS:mage_kernels>
    $<TARGET_OBJECTS:mage_reference>
    $<TARGET_OBJECTS:mage_core>
    $<TARGET_OBJECTS:mage_device>
    $<TARGET_OBJECTS:mage_measure>
    "${mage_generated_dir}/code_hashes.txt"
    "${PROJECT_SOURCE_DIR}/cmake/code_hashes.cmake"
  COMMENT "Hashing machine code"
  VERBATIM
)
mage_object_library(mage_code_hashes "${mage_generated_dir}/code_hashes.cpp")
target_link_libraries(mage_code_hashes PRIVATE mage_public_headers)

set(
  mage_layers
  mage_core
  mage_device
  mage_kernels
  mage_reference
  mage_generated
  mage_measure
  mage_code_hashes
)

if(EXISTS "${PROJECT_SOURCE_DIR}/bench/main.cpp")
  add_executable(mage_bench "${PROJECT_SOURCE_DIR}/bench/main.cpp")
  target_link_libraries(mage_bench PRIVATE mage_options ${mage_layers})
  # A variant that is loaded at run time registers itself with the program that loads it.
  set_target_properties(mage_bench PROPERTIES ENABLE_EXPORTS ON RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
endif()

# It needs no kernel: stores hold all that it reads.
mage_glob(mage_compare_files "tools/mage_compare.cpp" "tools/compare/*.cpp")
add_executable(mage_compare ${mage_compare_files})
target_link_libraries(
  mage_compare
  PRIVATE mage_options mage_core mage_device mage_generated mage_measure
)
target_compile_definitions(mage_compare PRIVATE "MAGE_VERSION=\"${PROJECT_VERSION}\"")
set_target_properties(mage_compare PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
