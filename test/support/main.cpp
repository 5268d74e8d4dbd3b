// SPDX-License-Identifier: Apache-2.0
// main() of every test program. Unlike gtest_main it refuses what it does not know, and a run of no test fails.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (std::string_view{argv[i]} == "--mage_require_gpu") {
      setenv("MAGE_REQUIRE_GPU", "1", 1);
      continue;
    }
    std::fprintf(stderr, "%s: unknown argument '%s'. Known: --mage_require_gpu and GoogleTest's (see --help)\n",
                 argv[0], argv[i]);
    return 2;
  }
  const int result = RUN_ALL_TESTS();
  if (testing::GTEST_FLAG(list_tests)) return result;
  if (testing::UnitTest::GetInstance()->test_to_run_count() == 0) {
    std::fprintf(stderr, "%s: no test matched the filter '%s', so nothing was tested\n", argv[0],
                 testing::GTEST_FLAG(filter).c_str());
    return 1;
  }
  return result;
}
