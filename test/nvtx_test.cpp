// SPDX-License-Identifier: Apache-2.0
// The log of an injected tool (test/nvtx_injection) says which ranges a tool sees. NVTX looks for a tool at its first
// call in a process, so the environment is set before that.
#include "bench/nvtx.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace mage {
namespace {

class Nvtx : public testing::Test {
 protected:
  void SetUp() override {
    if (MAGE_HAVE_NVTX == 0) GTEST_SKIP() << "built without NVTX";
#ifdef MAGE_NVTX_INJECTION
    setenv("NVTX_INJECTION64_PATH", MAGE_NVTX_INJECTION, 1);
#else
    FAIL() << "no tool to inject: the build misses test/nvtx_injection";
#endif
    path_ = std::filesystem::temp_directory_path() / ("mage_nvtx_" + std::to_string(getpid()));
    setenv("MAGE_NVTX_LOG", path_.c_str(), 1);
  }
  void TearDown() override { std::filesystem::remove(path_); }

  [[nodiscard]] std::vector<std::string> log() const {
    std::vector<std::string> lines;
    std::ifstream file{path_};
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }

  std::filesystem::path path_;
};

using Lines = std::vector<std::string>;

TEST_F(Nvtx, PhasesNestInTheirFixture) {
  {
    const NvtxRange fixture{"gelu/v00_naive/4096x4096/event"};
    {
      const NvtxRange phase{"verify"};
    }
    {
      const NvtxRange phase{"samples"};
    }
  }
  {
    const NvtxRange fixture{"gelu/v01_float4/4096x4096/event"};
  }
  EXPECT_EQ(log(), (Lines{"push mage_bench gelu/v00_naive/4096x4096/event", "push mage_bench verify", "pop mage_bench",
                          "push mage_bench samples", "pop mage_bench", "pop mage_bench",
                          "push mage_bench gelu/v01_float4/4096x4096/event", "pop mage_bench"}));
}

TEST_F(Nvtx, TheNameIsCopied) {
  std::string name = "settle and more";
  {
    const NvtxRange range{std::string_view{name}.substr(0, 6)};
    name.assign(name.size(), 'x');
  }
  {
    const NvtxRange range{"settle"};
  }
  EXPECT_EQ(log(), (Lines{"push mage_bench settle", "pop mage_bench", "push mage_bench settle", "pop mage_bench"}));
}

TEST_F(Nvtx, AnExceptionClosesItsRanges) {
  try {
    const NvtxRange outer{"samples"};
    const NvtxRange inner{"settle"};
    throw std::runtime_error{"the operation failed"};
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(log(), (Lines{"push mage_bench samples", "push mage_bench settle", "pop mage_bench", "pop mage_bench"}));
}

}  // namespace
}  // namespace mage
