// SPDX-License-Identifier: Apache-2.0
#include "mage_bench/parallel.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

namespace mage {
namespace {

class Parallel : public testing::Test {
 protected:
  void TearDown() override { unsetenv("OMP_NUM_THREADS"); }
};

TEST_F(Parallel, CoversEachIndexOnceInBlocksOfWholeGrains) {
  for (const int64 grain : {1, 7, 64, 1000})
    for (const int64 count : {1, 6, 7, 8, 63, 64, 65, 999, 1000, 1001, 12345}) {
      std::vector<std::atomic<int>> met(static_cast<std::size_t>(count));
      std::atomic<bool> aligned{true};
      parallel_blocks(count, grain, [&](int64 begin, int64 end) {
        if (begin % grain != 0 || (end % grain != 0 && end != count) || begin >= end) aligned = false;
        for (int64 i = begin; i < end; ++i) ++met[static_cast<std::size_t>(i)];
      });
      EXPECT_TRUE(aligned) << count << " by " << grain;
      for (const auto& times : met) ASSERT_EQ(times.load(), 1) << count << " by " << grain;
    }
}

TEST_F(Parallel, NothingToDoCallsNothing) {
  parallel_blocks(0, 1, [](int64, int64) { FAIL(); });
}

TEST_F(Parallel, BadArgumentsThrow) {
  const auto nothing = [](int64, int64) {};
  EXPECT_THROW(parallel_blocks(-1, 1, nothing), std::invalid_argument);
  EXPECT_THROW(parallel_blocks(1, 0, nothing), std::invalid_argument);
}

TEST_F(Parallel, RethrowsAnExceptionOfABlock) {
  for (const int64 bad : {0, 500, 999}) {
    try {
      parallel_blocks(1000, 1, [&](int64 begin, int64 end) {
        if (begin <= bad && bad < end) throw std::runtime_error{"block of " + std::to_string(bad)};
      });
      FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(error.what(), "block of " + std::to_string(bad));
    }
  }
}

std::size_t threads_used() {
  std::mutex guard;
  std::set<std::thread::id> ids;
  parallel_blocks(64, 1, [&](int64, int64) {
    std::this_thread::sleep_for(std::chrono::milliseconds{1});  // long enough for every thread to take a block
    const std::scoped_lock lock{guard};
    ids.insert(std::this_thread::get_id());
  });
  return ids.size();
}

TEST_F(Parallel, TheEnvironmentCapsTheThreads) {
  const auto hardware = std::max<std::size_t>(1, std::thread::hardware_concurrency());
  unsetenv("OMP_NUM_THREADS");
  EXPECT_LE(threads_used(), hardware);
  for (const char* one : {"1", "1,4"}) {
    setenv("OMP_NUM_THREADS", one, 1);
    EXPECT_EQ(threads_used(), 1U) << one;
  }
  setenv("OMP_NUM_THREADS", "100000", 1);
  EXPECT_LE(threads_used(), hardware) << "a cap is no request";
  for (const char* no_number : {"", "0", "-3", "two", "1x"}) {
    setenv("OMP_NUM_THREADS", no_number, 1);
    EXPECT_LE(threads_used(), hardware) << no_number;
  }
}

}  // namespace
}  // namespace mage
