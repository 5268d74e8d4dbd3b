// SPDX-License-Identifier: Apache-2.0
// What the CUDA device gives a variant to work in: scratch, memory at a border, and its settings.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "mage_bench/device.hpp"
#include "test/support/gpu.hpp"

#if MAGE_HAVE_CUDA
#include "mage_bench/cuda.hpp"

namespace mage {
namespace {

class GpuMemory : public test::GpuTest {};

TEST_F(GpuMemory, ScratchIsFilledAndLiesElsewhereEachTime) {
  std::set<std::size_t> seen;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    device_->place_scratch(seed);
    const auto scratch = allocate_scratch(1000), more = allocate_scratch(1000);
    std::vector<unsigned char> bytes(1000);
    device_->download(bytes.data(), more.get(), 1000);
    EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(), [](unsigned char byte) { return byte == 0xFF; }));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(scratch.get()) % 256, 0U);
    ASSERT_EQ(device_->scratch_offsets().size(), 2U);
    seen.insert(device_->scratch_offsets()[0]);
    device_->fill(more.get(), 0, 1000);
  }
  EXPECT_GE(seen.size(), 19U);
  device_->place_scratch(7);
  const auto first = device_->scratch_offsets();
  static_cast<void>(allocate_scratch(64));
  const auto once = device_->scratch_offsets();
  device_->place_scratch(7);
  static_cast<void>(allocate_scratch(64));
  EXPECT_EQ(device_->scratch_offsets(), once) << "a seed is a place";
  EXPECT_TRUE(first.empty());
}

TEST_F(GpuMemory, SettingsAreReadAndSetBack) {
  const auto before = device_->settings();
  ASSERT_GE(before.size(), 5U);
  check(cudaDeviceSetLimit(cudaLimitStackSize, 4096), "cudaDeviceSetLimit");
  EXPECT_NE(device_->settings(), before);
  device_->set_back(before);
  EXPECT_EQ(device_->settings(), before);
}

TEST_F(GpuMemory, MoreMemoryThanThereIsIsUnavailableAndNotFatal) {
  try {
    static_cast<void>(device_->allocate(std::size_t{1} << 50U));
    FAIL() << "must throw";
  } catch (const UnavailableError& error) {
    EXPECT_EQ(error.reason(), Unavailable::memory);
  }
  EXPECT_NO_THROW(device_->synchronize());
}

constexpr std::size_t page_bytes = std::size_t{64} << 10U;  // of a device, or a multiple of it

std::uintptr_t address(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

TEST_F(GpuMemory, AtABorderBeginsOrEndsWhereNothingIs) {
  for (int again = 0; again < 2; ++again) {  // the second time in memory that was given back
    for (const std::size_t bytes : {std::size_t{16}, std::size_t{48}, 3 * page_bytes + 32}) {
      auto* const rear = device_->trials()->allocate_at_border(bytes, Trials::Border::rear);
      auto* const front = device_->trials()->allocate_at_border(bytes, Trials::Border::front);
      EXPECT_EQ((address(rear) + bytes) % page_bytes, 0U);
      EXPECT_EQ(address(front) % page_bytes, 0U);
      for (auto* memory : {rear, front}) {
        device_->fill(memory, 0x01020304U, bytes);
        device_->inspect_fill(memory, 0x01020304U, bytes, 0);
        EXPECT_EQ(device_->findings().wrong, 0U);
        device_->deallocate(memory);
      }
    }
  }
}

TEST_F(GpuMemory, ScratchAtABorderEndsThere) {
  device_->trials()->scratch_at_border(Trials::Border::rear);
  const auto scratch = allocate_scratch(40);
  EXPECT_EQ((address(scratch.get()) + 256) % page_bytes, 0U) << "40 bytes, and the rest of 256";
}

TEST_F(GpuMemory, FencesOfScratchTellWhatWasWrittenBesideIt) {
  for (const bool at_border : {false, true}) {
    device_->place_scratch(3);
    if (at_border) device_->trials()->scratch_at_border(Trials::Border::rear);
    const auto scratch = allocate_scratch(40), other = allocate_scratch(64);
    device_->fill(scratch.get(), 0, 40);
    device_->inspect_scratch(9);
    EXPECT_EQ(device_->findings().wrong, 0U);
    device_->fill(static_cast<std::byte*>(scratch.get()) + 40, 0, 4);
    device_->inspect_scratch(9);
    const auto found = device_->findings();
    EXPECT_EQ(found.wrong, 1U);
    EXPECT_EQ(found.tag, 9U);
  }
}

TEST_F(GpuMemory, ScratchThatIsNotThereIsUnavailableAndTheNextIs) {
  device_->place_scratch(1);
  try {
    static_cast<void>(allocate_scratch(std::size_t{1} << 50U));
    FAIL() << "must throw";
  } catch (const UnavailableError& error) {
    EXPECT_EQ(error.reason(), Unavailable::memory);
  }
  const auto scratch = allocate_scratch(64);
  EXPECT_NE(scratch.get(), nullptr);
}

}  // namespace
}  // namespace mage
#endif
