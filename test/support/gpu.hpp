// SPDX-License-Identifier: Apache-2.0
// For suites named Gpu*.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "mage_bench/device.hpp"

namespace mage::test {

/// --mage_require_gpu or MAGE_REQUIRE_GPU=1: a missing GPU is a failure.
[[nodiscard]] inline bool gpu_required() {
  const char* text = std::getenv("MAGE_REQUIRE_GPU");
  return text != nullptr && std::string_view{text} == "1";
}

/// Why no CUDA test can run here; empty where it can. Creates no context.
[[nodiscard]] inline std::string why_no_gpu() {
  const auto presence = cuda_presence();
  if (presence.count > 0) return {};
  return std::string{presence.why_not ? explain(*presence.why_not) : "no CUDA device"};
}

}  // namespace mage::test

/// Ends the test where there is no GPU: skipped with the reason, or failed where a GPU is required.
/// A macro, since only the test's own function can return from it.
#define MAGE_NEED_GPU()                                                         \
  do {                                                                          \
    if (const std::string why = ::mage::test::why_no_gpu(); !why.empty()) {     \
      if (::mage::test::gpu_required()) FAIL() << "a GPU is required: " << why; \
      GTEST_SKIP() << why;                                                      \
    }                                                                           \
  } while (false)

namespace mage::test {

/// For suites of one device, opened for each test.
class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    MAGE_NEED_GPU();
    device_ = make_cuda_device(0);
  }
  std::unique_ptr<Device> device_;
};

}  // namespace mage::test
