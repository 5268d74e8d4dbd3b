# SPDX-License-Identifier: Apache-2.0
# Each file of test/compile_fail is a ctest: it must not build, for the reason that it states, and must build with its
# mistake taken out. See test/compile_fail/check.cmake.

file(GLOB mage_compile_fail_files CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/test/compile_fail/*.cpp")
foreach(file IN LISTS mage_compile_fail_files)
  get_filename_component(name "${file}" NAME_WE)
  add_test(
    NAME "compile_fail.${name}"
    COMMAND
      ${CMAKE_COMMAND} "-DCXX=${CMAKE_CXX_COMPILER}" "-DSOURCE=${file}" "-DROOT=${PROJECT_SOURCE_DIR}"
      "-DOUTPUT=${PROJECT_BINARY_DIR}/test/compile_fail.${name}" -P
      "${PROJECT_SOURCE_DIR}/test/compile_fail/check.cmake"
  )
  set_tests_properties("compile_fail.${name}" PROPERTIES TIMEOUT 120)
endforeach()
