// SPDX-License-Identifier: Apache-2.0
#include "bench/audits.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/fake_device.hpp"

namespace mage {
namespace {

constexpr std::uint32_t stream = 7, thread = 1;

KernelRecord harness(double begin_us, double end_us) {
  return {"mage_harness_disturb", 0, begin_us, end_us, {}, {}, true, stream, thread};
}
KernelRecord kernel(double begin_us, double end_us, std::uint32_t on = stream, std::uint32_t by = thread) {
  return {"kernel", 1, begin_us, end_us, {}, {}, true, on, by};
}
KernelRecord of_call(std::uint64_t mark, KernelRecord record) {
  record.mark = mark;
  return record;
}
std::string why_wrong(const std::vector<KernelRecord>& records) {
  try {
    judge_order(records);
  } catch (const WrongError& error) {
    return error.what();
  }
  return {};
}
void expect_about(const std::string& text, const std::string& fragment) {
  EXPECT_NE(text.find(fragment), std::string::npos) << "'" << text << "'";
}

TEST(JudgeOrder, KernelsBetweenThoseOfTheProtocolAreInOrder) {
  EXPECT_EQ(why_wrong({harness(0, 10), kernel(11, 20), kernel(21, 30), harness(31, 32), of_call(2, kernel(33, 34))}),
            "");
  EXPECT_EQ(why_wrong({harness(0, 10), kernel(9, 20), kernel(18, 30), harness(31, 32)}), "")
      << "a dependent kernel begins while the one before it ends";
  EXPECT_EQ(why_wrong({harness(0, 10), kernel(11, 20, 8), harness(21, 22)}), "") << "a fork that is joined";
  EXPECT_EQ(why_wrong({kernel(0, 1), kernel(0, 1, 8, 2)}), "") << "nothing of the protocol to hold them against";
}

TEST(JudgeOrder, AKernelThatBeginsBeforeItsTurnOnAnotherStreamIsWrong) {
  expect_about(why_wrong({harness(0, 100), kernel(50, 60, 8), harness(101, 102)}), "ran on another stream");
}

TEST(JudgeOrder, AKernelThatEndsBehindItsTurnIsWrong) {
  expect_about(why_wrong({harness(0, 10), kernel(11, 500, 8), kernel(11, 20), harness(21, 22)}), "still running");
}

TEST(JudgeOrder, AKernelThatBeginsBehindItsTurnIsWrong) {
  expect_about(why_wrong({harness(0, 10), kernel(11, 20), harness(21, 22), of_call(2, kernel(23, 24)), harness(25, 26),
                          kernel(500, 600, 8)}),
               "had gone on");
}

TEST(JudgeOrder, AKernelOfAnotherThreadOrOutsideOfACallIsWrong) {
  expect_about(why_wrong({harness(0, 10), kernel(11, 20, stream, 2), harness(21, 22)}), "another thread");
  expect_about(why_wrong({harness(0, 10), of_call(0, kernel(11, 20)), harness(21, 22)}), "outside of a call");
}

TEST(JudgeOrder, CopiesAndFillsTellNoOrder) {
  auto copy = kernel(1, 50, 8, 2);
  copy.is_kernel = false;
  EXPECT_EQ(why_wrong({harness(0, 10), copy, kernel(11, 20), harness(21, 22)}), "");
}

TEST(TooGoodForOne, AStartAndAnEndMayHideAndNoWork) {
  EXPECT_EQ(too_good_for_one({.each_us = 9, .own_us = 10}), "");
  EXPECT_EQ(too_good_for_one({.each_us = 0.9, .own_us = 2}), "");
  EXPECT_EQ(too_good_for_one({.each_us = 80, .own_us = 100}), "") << "one round may have had a bad moment";
  expect_about(too_good_for_one({.each_us = 60, .own_us = 100}), "not all of them can have done the work");
  expect_about(too_good_for_one({.each_us = 80, .own_us = 100, .many_rounds = true}), "80.00 us, one alone 100.00 us");
  EXPECT_EQ(too_good_for_one({.each_us = 99, .own_us = 100, .many_rounds = true}), "");
  EXPECT_EQ(too_good_for_one({.each_us = 10, .own_us = 14, .kernels = 3, .many_rounds = true}), "")
      << "each of its kernels has a start";
  EXPECT_EQ(too_good_for_one({.each_us = 60, .own_us = 100, .many_rounds = true, .repetition = true}), "")
      << "what the one before left in L2";
  expect_about(too_good_for_one({.each_us = 40, .own_us = 100, .repetition = true}), "not all of them");
  EXPECT_EQ(too_good_for_one({.each_us = 2, .own_us = 5, .start_us = 3, .many_rounds = true}), "")
      << "a device whose kernels take long to start hides more";
}

TEST(FasterThanMemory, ReadsComeFromMemoryAndWritesMayStay) {
  constexpr double peak = 1000;  // GB/s, or 1 MB in a microsecond
  constexpr std::size_t l2 = 1'000'000;
  const Work work{0, 10e6, 10e6, {}};
  EXPECT_EQ(faster_than_memory(work, 19.5, peak, l2), "") << "19 MB in 19.5 us";
  expect_about(faster_than_memory(work, 18.5, peak, l2), "but for what L2 holds");
  EXPECT_EQ(faster_than_memory(work, 10.5, peak, 40 * l2), "") << "L2 has room for all that is written";
  expect_about(faster_than_memory(work, 9.5, peak, 40 * l2), "reading its inputs alone is 10000000 bytes in 9.50 us");
  EXPECT_EQ(faster_than_memory(work, 9.5, 0, l2), "") << "a peak that nobody knows";
}

TEST(ChangedSettings, NamesAllThatNobodyMayChange) {
  const std::vector<DeviceSetting> before{{"stack_size", 1024}, {"persisting_l2_cache_size", 0}, {"heap", 2}};
  const auto changed = [&](std::size_t stack, std::size_t persisting, std::size_t heap, Changes which) {
    return changed_settings(before, {{"stack_size", stack}, {"persisting_l2_cache_size", persisting}, {"heap", heap}},
                            which);
  };
  for (const auto which : {Changes::any, Changes::forbidden_in_a_call, Changes::forbidden_before_calls}) {
    EXPECT_EQ(changed(1024, 0, 2, which), "");
    EXPECT_EQ(changed(512, 0, 5, which), "stack_size from 1024 to 512, heap from 2 to 5");
  }
  EXPECT_EQ(changed(4096, 7, 2, Changes::any), "stack_size from 1024 to 4096, persisting_l2_cache_size from 0 to 7");
  EXPECT_EQ(changed(4096, 7, 2, Changes::forbidden_in_a_call), "persisting_l2_cache_size from 0 to 7")
      << "the driver lets the stack grow";
  EXPECT_EQ(changed(4096, 7, 2, Changes::forbidden_before_calls), "") << "a variant may ask for a part of L2";
}

/// A stream whose work takes place when somebody waits for it, and a look at memory meanwhile.
class HeldDevice final : public test::FakeDevice, public Trials {
 public:
  double left_behind_us = 0;  ///< that the device goes on behind the stream

  [[nodiscard]] void* allocate(std::size_t bytes) override { return host_->allocate(bytes); }
  void deallocate(void* pointer) noexcept override { host_->deallocate(pointer); }
  void upload(void* to, const void* from, std::size_t bytes) override { host_->upload(to, from, bytes); }
  void fill(void* to, std::uint32_t pattern, std::size_t bytes) override { host_->fill(to, pattern, bytes); }
  [[nodiscard]] std::uint64_t checksum(const void* from, std::size_t bytes) override {
    return host_->checksum(from, bytes);
  }
  void in_turn(std::function<void()> work) {
    operation_ran_ = true;
    held_.push_back(std::move(work));
  }
  void synchronize() override {
    FakeDevice::synchronize();
    for (const auto& work : std::exchange(held_, {})) work();
  }
  void wait_idle() override {
    synchronize();
    if (!std::exchange(operation_ran_, false)) return;
    enqueue("left behind", left_behind_us);
    FakeDevice::synchronize();
  }
  [[nodiscard]] double now_us() override { return FakeDevice::now_us() + ++looks_; }  // a look takes its time
  [[nodiscard]] Trials* trials() override { return this; }

  [[nodiscard]] void* allocate_at_border(std::size_t, Border) override { throw std::logic_error{"no border"}; }
  [[nodiscard]] void* allocate_shared(std::size_t) override { throw std::logic_error{"nothing shared"}; }
  [[nodiscard]] bool run_together(const Calls&, const Calls&) override { return true; }
  [[nodiscard]] std::uint64_t checksum_meanwhile(const void* from, std::size_t bytes) override {
    return host_->checksum(from, bytes);
  }

 private:
  std::unique_ptr<Device> host_ = make_host_device();
  std::vector<std::function<void()>> held_;
  bool operation_ran_ = false;
  double looks_ = 0;
};

class WorkOutOfTurnTest : public testing::Test {
 protected:
  using Judge = std::function<std::string(Case& bound, Launch& launch)>;
  std::string judge(const Judge& judge, const std::function<void(const std::function<void()>& work)>& operation) {
    const auto& family = *find_family("copy");
    const Oracle oracle{family, family.parse("5x32").value()};
    Case bound{device, oracle};
    auto copy = bound.bind(*family.find_variant("reference"));
    Launch launch = [&](StreamHandle to) { operation([&copy, to] { copy(to); }); };
    return judge(bound, launch);
  }
  const Judge out_of_turn = [this](Case& bound, Launch& launch) {
    const auto verdict = work_out_of_turn(device, bound, launch);
    return verdict.wrong.empty() && !verdict.lacking.empty() ? "lacking: " + verdict.lacking : verdict.wrong;
  };
  const Judge left_behind = [this](Case&, Launch& launch) { return work_left_behind(device, launch); };
  HeldDevice device;
};

TEST_F(WorkOutOfTurnTest, WhatWaitsForItsTurnIsRight) {
  const auto in_turn = [this](const auto& work) { device.in_turn(work); };
  EXPECT_EQ(judge(out_of_turn, in_turn), "");
  EXPECT_EQ(judge(left_behind, in_turn), "");
}

TEST_F(WorkOutOfTurnTest, WhatCouldNotBeLookedAtIsNotRight) {
  device.begin_reached = true;
  expect_about(judge(out_of_turn, [this](const auto& work) { device.in_turn(work); }),
               "lacking: outputs could not be read while the stream was held");
}

TEST_F(WorkOutOfTurnTest, OutputsThatChangeWhileTheStreamIsHeldAreWrong) {
  expect_about(judge(out_of_turn, [](const auto& work) { work(); }), "outputs changed while the stream was held");
}

TEST_F(WorkOutOfTurnTest, ADeviceThatGoesOnBehindTheStreamIsWrong) {
  device.left_behind_us = 500;
  expect_about(judge(left_behind, [this](const auto& work) { device.in_turn(work); }), "was still running");
}

}  // namespace
}  // namespace mage
