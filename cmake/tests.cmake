# SPDX-License-Identifier: Apache-2.0
# ctest: one test for each case of each test/*_test.cpp (of each file under sanitizers), each test/*_test.py, and each
# case of test/compile_fail.

include(GoogleTest)

# Upstream's compare.py imports numpy and scipy, and the first python3 on PATH need not be the one that has them.
function(mage_has_scipy result python)
  execute_process(COMMAND "${python}" -c "import numpy, scipy" RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
  if(failed)
    set(${result} FALSE PARENT_SCOPE)
  endif()
endfunction()
find_program(MAGE_PYTHON python3 PATHS /usr/bin VALIDATOR mage_has_scipy)
find_program(MAGE_PYTHON python3)
mark_as_advanced(MAGE_PYTHON)

mage_glob(mage_test_files "test/*_test.cpp")
mage_glob(mage_test_support_files "test/support/*.cpp")
mage_glob(mage_python_tests "test/*_test.py")

# What tests admit is remembered in the build, and not for the user.
set(mage_test_environment "XDG_CACHE_HOME=${PROJECT_BINARY_DIR}/test/cache")

# The support files hold main(), so they are objects of every test program.
mage_object_library(mage_test_support ${mage_test_support_files})
target_include_directories(mage_test_support PUBLIC "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/test")
target_link_libraries(mage_test_support PUBLIC mage_measure GTest::gtest)
target_compile_definitions(mage_test_support PUBLIC "MAGE_SOURCE_DIR=\"${PROJECT_SOURCE_DIR}\"")
if(TARGET mage_bench)
  target_compile_definitions(mage_test_support PUBLIC "MAGE_BENCH_EXECUTABLE=\"$<TARGET_FILE:mage_bench>\"")
endif()
if(MAGE_PYTHON)
  target_compile_definitions(mage_test_support PUBLIC "MAGE_PYTHON=\"${MAGE_PYTHON}\"")
endif()

foreach(file IN LISTS mage_test_files)
  get_filename_component(name "${file}" NAME_WE)
  add_executable(${name} "${file}")
  target_link_libraries(${name} PRIVATE mage_options mage_test_support ${mage_layers})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/test")
  if(TARGET mage_bench)
    add_dependencies(${name} mage_bench)
  endif()

  if(MAGE_SANITIZE)
    # A test a program: to start a sanitized one costs more than most of its tests.
    add_test(NAME ${name} COMMAND ${name} --gtest_brief=1 WORKING_DIRECTORY "${PROJECT_BINARY_DIR}")
    # All of some program's tests may be of CUDA, which is not in this build.
    set_tests_properties(
      ${name}
      PROPERTIES TIMEOUT 600 SKIP_REGULAR_EXPRESSION "no test matched the filter" ENVIRONMENT "${mage_test_environment}"
    )
    continue()
  endif()

  # Suites named Gpu* get the label gpu, and share one device in turn.
  set(gpu_suites "Gpu*:*/Gpu*")
  set(
    discovery
    NO_PRETTY_VALUES
    DISCOVERY_MODE
    PRE_TEST
    DISCOVERY_TIMEOUT
    60
    WORKING_DIRECTORY
    "${PROJECT_BINARY_DIR}"
  )
  gtest_discover_tests(
    ${name}
    ${discovery}
    TEST_FILTER "-${gpu_suites}"
    PROPERTIES TIMEOUT 600 ENVIRONMENT "${mage_test_environment}"
  )
  gtest_discover_tests(
    ${name}
    ${discovery}
    TEST_FILTER "${gpu_suites}"
    PROPERTIES TIMEOUT 600 LABELS gpu RESOURCE_LOCK gpu ENVIRONMENT "${mage_test_environment}"
  )
endforeach()

# What a test needs built besides itself, such as a made-up driver library, has a folder and says there who uses it.
mage_glob(mage_test_folders "test/*/CMakeLists.txt")
foreach(file IN LISTS mage_test_folders)
  get_filename_component(folder "${file}" DIRECTORY)
  get_filename_component(name "${folder}" NAME)
  add_subdirectory("${folder}" "${PROJECT_BINARY_DIR}/test/${name}")
endforeach()

if(MAGE_PYTHON)
  foreach(file IN LISTS mage_python_tests)
    get_filename_component(name "${file}" NAME_WE)
    add_test(NAME "python.${name}" COMMAND "${MAGE_PYTHON}" -B "${file}" WORKING_DIRECTORY "${PROJECT_BINARY_DIR}")
    set_tests_properties(
      "python.${name}"
      PROPERTIES TIMEOUT 600 SKIP_REGULAR_EXPRESSION "OK \\(skipped=" ENVIRONMENT "${mage_test_environment}"
    )
    if(TARGET mage_bench)
      set_property(TEST "python.${name}" APPEND PROPERTY ENVIRONMENT "MAGE_BENCH_EXECUTABLE=$<TARGET_FILE:mage_bench>")
    endif()
  endforeach()
elseif(mage_python_tests)
  message(WARNING "python3 was not found: the tests of tools/ are left out. Install python3 and configure again.")
endif()

if(NOT MAGE_SANITIZE) # which changes nothing about what compiles
  include(header_test)
endif()
include(compile_fail)
