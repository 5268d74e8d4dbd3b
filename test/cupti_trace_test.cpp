// SPDX-License-Identifier: Apache-2.0
// The host half of a kernel trace, against a made-up CUPTI (test/fake_cupti) that delivers what a test describes; and
// the whole of it on a GPU, where kernels of known duration are the independent source.
#include <gtest/gtest.h>

#if MAGE_HAVE_CUPTI

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "device/cupti_trace.hpp"
#include "fake_cupti/fake_cupti.hpp"
#include "mage_bench/device.hpp"
#include "test/support/gpu.hpp"

#ifndef MAGE_FAKE_CUPTI
#define MAGE_FAKE_CUPTI ""
#endif

namespace mage {
namespace {

template <class Function>
Function* symbol(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

class CuptiTraceTest : public testing::Test {
 protected:
  void SetUp() override {
    // The first trace of a process loads CUPTI, and it stays: on a GPU the tests of the real one have their own
    // process.
    setenv("MAGE_CUPTI_LIBRARY", MAGE_FAKE_CUPTI, 1);
    library_ = dlopen(MAGE_FAKE_CUPTI, RTLD_NOW | RTLD_LOCAL);
    if (std::string{MAGE_FAKE_CUPTI}.empty() || library_ == nullptr)
      FAIL() << "no made-up CUPTI: the build misses test/fake_cupti";
    launch = symbol<decltype(fake_cupti_launch)>(library_, "fake_cupti_launch");
    copy = symbol<decltype(fake_cupti_copy)>(library_, "fake_cupti_copy");
    fill = symbol<decltype(fake_cupti_fill)>(library_, "fake_cupti_fill");
    break_it = symbol<decltype(fake_cupti_fault)>(library_, "fake_cupti_fault");
    calls = symbol<decltype(fake_cupti_calls)>(library_, "fake_cupti_calls");
    buffers_held = symbol<decltype(fake_cupti_buffers_held)>(library_, "fake_cupti_buffers_held");
    symbol<decltype(fake_cupti_reset)>(library_, "fake_cupti_reset")();
  }
  void TearDown() override { unsetenv("MAGE_CUPTI_LIBRARY"); }

  void* library_ = nullptr;
  decltype(&fake_cupti_launch) launch = nullptr;
  decltype(&fake_cupti_copy) copy = nullptr;
  decltype(&fake_cupti_fill) fill = nullptr;
  decltype(&fake_cupti_fault) break_it = nullptr;
  decltype(&fake_cupti_calls) calls = nullptr;
  decltype(&fake_cupti_buffers_held) buffers_held = nullptr;
};

std::vector<std::uint64_t> marks_of(const std::vector<KernelRecord>& records) {
  std::vector<std::uint64_t> marks;
  marks.reserve(records.size());
  for (const auto& record : records) marks.push_back(record.mark);
  return marks;
}

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST_F(CuptiTraceTest, RecordsCarryTheMarkUnderWhichTheyWereEnqueued) {
  CuptiTrace trace;
  trace.start();
  launch("before", 5'000'000, 1);
  trace.mark(1);
  launch("one", 5'020'000, 1);
  trace.mark(2);
  launch("two", 5'040'000, 1);
  launch("two", 5'060'000, 1);
  trace.mark(0);
  launch("between", 5'080'000, 1);
  trace.mark(3);
  launch("graph", 5'100'000, 3);
  trace.mark(0);
  const auto records = trace.stop();
  EXPECT_EQ(marks_of(records), (std::vector<std::uint64_t>{0, 1, 2, 2, 0, 3, 3, 3}));
  EXPECT_EQ(records[1].name, "one");
  EXPECT_EQ(records[7].name, "graph");
  EXPECT_DOUBLE_EQ(records[0].begin_us, 0);
  EXPECT_DOUBLE_EQ(records[0].end_us, 10);
  EXPECT_DOUBLE_EQ(records[1].begin_us, 20);
  EXPECT_DOUBLE_EQ(records[7].begin_us, 140);
  EXPECT_DOUBLE_EQ(records[7].end_us, 150);
}

TEST_F(CuptiTraceTest, NamesAndShapes) {
  CuptiTrace trace;
  trace.start();
  launch("_ZN4mage4gelu14gelu_v00_naiveEPKfS2_Pfll", 1000, 1);
  launch("plain_c_kernel", 30'000, 1);
  copy(50'000);
  fill(70'000);
  const auto records = trace.stop();
  ASSERT_EQ(records.size(), 4U);
  EXPECT_EQ(records[0].name, "mage::gelu::gelu_v00_naive(float const*, float const*, float*, long, long)");
  EXPECT_EQ(records[1].name, "plain_c_kernel");
  EXPECT_EQ(records[2].name, "[memcpy DtoD]");
  EXPECT_EQ(records[3].name, "[memset]");
  EXPECT_TRUE(std::ranges::equal(records[0].grid, std::vector{132U, 2U, 1U}));
  EXPECT_TRUE(std::ranges::equal(records[0].block, std::vector{256U, 1U, 3U}));
}

TEST_F(CuptiTraceTest, OrderIsThatOfTheDevice) {
  CuptiTrace trace;
  trace.start();
  launch("late", 90'000, 1);
  launch("early", 10'000, 1);
  const auto records = trace.stop();
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].name, "early");
  EXPECT_DOUBLE_EQ(records[1].begin_us, 80);
}

TEST_F(CuptiTraceTest, StaysAttachedOrDetachesAndAttachesAgain) {
  const std::string once = "register enable flush disable";
  for (int i = 0; i < 3; ++i) {
    CuptiTrace trace;
    trace.start();
    launch("kernel", 1000, 1);
    EXPECT_EQ(trace.stop().size(), 1U);
  }
  EXPECT_EQ(calls(), once + ' ' + once + ' ' + once);
  CuptiTrace trace{CuptiTrace::AfterStop::detach};
  for (int i = 0; i < 3; ++i) {
    trace.start();
    launch("kernel", 1000, 1);
    EXPECT_EQ(trace.stop().size(), 1U);
  }
  const auto detached = once + " finalize";
  EXPECT_EQ(calls(), once + ' ' + once + ' ' + once + ' ' + detached + ' ' + detached + ' ' + detached);
}

TEST_F(CuptiTraceTest, ManyRecordsNeedManyBuffers) {
  CuptiTrace trace;
  trace.start();
  trace.mark(9);
  constexpr int count = 20'000;  // some 5 MB of records, in buffers of 1 MiB
  for (int i = 0; i < count; ++i) launch("kernel", 1000 + static_cast<std::uint64_t>(i) * 20'000, 1);
  const auto records = trace.stop();
  ASSERT_EQ(records.size(), static_cast<std::size_t>(count));
  EXPECT_TRUE(std::ranges::all_of(records, [](const KernelRecord& record) { return record.mark == 9; }));
  EXPECT_EQ(buffers_held(), 0);
}

TEST_F(CuptiTraceTest, MemoryIsBoundedAndTheLossIsAnError) {
  CuptiTrace trace;
  trace.start();
  for (int i = 0; i < 400'000; ++i) launch("kernel", 1000 + static_cast<std::uint64_t>(i) * 20'000, 1);
  const auto message = message_of([&] { static_cast<void>(trace.stop()); });
  EXPECT_NE(message.find("dropped"), std::string::npos) << message;
  trace.start();  // and the next trace has its buffers
  launch("kernel", 1000, 1);
  EXPECT_EQ(trace.stop().size(), 1U);
}

TEST_F(CuptiTraceTest, AnotherToolIsBusyAndARefusalIsMissing) {
  struct Expected {
    const char* fault;
    Unavailable reason;
  };
  for (const auto& [fault, reason] :
       {Expected{"busy", Unavailable::cupti_busy}, Expected{"privileges", Unavailable::cupti_missing}}) {
    break_it(fault);
    CuptiTrace trace;
    try {
      trace.start();
      FAIL() << fault;
    } catch (const UnavailableError& error) {
      EXPECT_EQ(error.reason(), reason) << fault;
      EXPECT_NE(std::string{error.what()}.find("the text of CUPTI"), std::string::npos) << error.what();
    }
    break_it("");
    trace.start();  // nothing of the refused start is left
    launch("kernel", 1000, 1);
    EXPECT_EQ(trace.stop().size(), 1U);
  }
}

TEST_F(CuptiTraceTest, APartialTraceIsAnError) {
  for (const auto& [fault, words] : std::map<std::string, std::string>{{"dropped", "dropped 1 records"},
                                                                       {"incomplete", "cuptiActivityGetNextRecord"},
                                                                       {"untimed", "no times for kernel"},
                                                                       {"flush", "cuptiActivityFlushAll"}}) {
    CuptiTrace trace;
    trace.start();
    launch("kernel", 1000, 2);
    break_it(fault.c_str());
    if (fault == "untimed") launch("kernel", 50'000, 1);
    const auto message = message_of([&] { static_cast<void>(trace.stop()); });
    EXPECT_NE(message.find(words), std::string::npos) << fault << ": " << message;
    break_it("");
    SetUp();
  }
}

TEST_F(CuptiTraceTest, ATraceThatAnErrorLeftRunningLeavesNothing) {
  try {
    CuptiTrace trace;
    trace.start();
    trace.mark(5);
    launch("lost", 1000, 1);
    throw std::runtime_error{"the operation failed"};
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(std::string{calls()}, "register enable disable flush");
  CuptiTrace trace;
  trace.start();
  trace.mark(6);
  launch("lost", 1000, 1);
  trace.start();
  launch("kernel", 30'000, 1);
  const auto records = trace.stop();
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].name, "kernel");
  EXPECT_EQ(records[0].mark, 0U);
}

// In a process of its own, since CUPTI is loaded once.
TEST_F(CuptiTraceTest, AnAbsentOrUnfitLibraryIsMissing) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto start_and_exit = [] {
    try {
      CuptiTrace trace;
      trace.start();
    } catch (const UnavailableError& error) {
      std::fputs(error.what(), stderr);
      std::exit(error.reason() == Unavailable::cupti_missing ? 7 : 1);
    }
    std::exit(0);
  };
  EXPECT_EXIT(
      {
        setenv("MAGE_CUPTI_LIBRARY", "/nowhere/libcupti.so", 1);
        start_and_exit();
      },
      testing::ExitedWithCode(7), "/nowhere/libcupti.so");
  EXPECT_EXIT(
      {
        break_it("old");
        start_and_exit();
      },
      testing::ExitedWithCode(7), "built for CUPTI 13");
}

TEST_F(CuptiTraceTest, MisuseIsNamed) {
  CuptiTrace trace;
  EXPECT_NE(message_of([&] { trace.mark(1); }).find("trace_start"), std::string::npos);
  EXPECT_NE(message_of([&] { static_cast<void>(trace.stop()); }).find("trace_start"), std::string::npos);
  trace.start();
  CuptiTrace second;
  EXPECT_NE(message_of([&] { second.start(); }).find("another one runs"), std::string::npos);
  EXPECT_TRUE(trace.stop().empty());
}

class GpuCuptiTrace : public testing::Test {
 protected:
  void SetUp() override {
    MAGE_NEED_GPU();
    if (dlopen(MAGE_FAKE_CUPTI, RTLD_NOW | RTLD_NOLOAD) != nullptr && !std::string{MAGE_FAKE_CUPTI}.empty())
      GTEST_SKIP() << "this process has the made-up CUPTI: run with --gtest_filter=Gpu*";
    device_ = make_cuda_device(0);
    try {
      device_->trace_start();
      static_cast<void>(device_->trace_stop());
    } catch (const UnavailableError& error) {
      GTEST_SKIP() << error.what();
    }
  }
  // What CUPTI counts beside a kernel's own time is about 0.6 us on an H200.
  static void expect_duration(const KernelRecord& record, double us) {
    EXPECT_GE(record.end_us - record.begin_us, us - 0.1) << record.name;
    EXPECT_LE(record.end_us - record.begin_us, us + 3) << record.name;
  }

  std::unique_ptr<Device> device_;
};

TEST_F(GpuCuptiTrace, KnownDurationsUnderTheirMarks) {
  device_->trace_start();
  device_->delay(30);
  device_->trace_mark(1);
  device_->delay(20);
  device_->trace_mark(2);
  device_->delay(100);
  device_->delay(200);
  device_->trace_mark(0);
  device_->delay(40);
  const auto records = device_->trace_stop();
  ASSERT_EQ(marks_of(records), (std::vector<std::uint64_t>{0, 1, 2, 2, 0}));
  const std::vector<double> durations_us{30, 20, 100, 200, 40};
  for (std::size_t i = 0; i < records.size(); ++i) {
    EXPECT_NE(records[i].name.find("delay"), std::string::npos) << records[i].name;
    expect_duration(records[i], durations_us[i]);
    EXPECT_GE(records[i].begin_us, i == 0 ? 0 : records[i - 1].end_us);
  }
}

TEST_F(GpuCuptiTrace, CopiesAndFillsOfAnOperationAreSeen) {
  std::vector<std::uint32_t> host(1024, 7);
  void* memory = device_->allocate(host.size() * sizeof host[0]);
  device_->upload(memory, host.data(), host.size() * sizeof host[0]);
  device_->trace_start();
  device_->trace_mark(4);
  static_cast<void>(device_->checksum(memory, host.size() * sizeof host[0]));  // a fill, a kernel, a copy to the host
  const auto records = device_->trace_stop();
  device_->deallocate(memory);
  ASSERT_EQ(marks_of(records), (std::vector<std::uint64_t>{4, 4, 4}));
  EXPECT_EQ(records[0].name, "[memset]");
  EXPECT_EQ(records[2].name, "[memcpy DtoH]");
}

TEST_F(GpuCuptiTrace, NodesOfAGraphCarryTheMarkOfItsReplay) {
  auto empty = device_->empty_launch();
  const auto before = device_->capture(empty, 3);  // instantiated while nothing is traced
  device_->trace_start();
  device_->trace_mark(7);
  device_->replay(*before);
  device_->trace_mark(8);
  const auto during = device_->capture(empty, 2);
  device_->replay(*during);
  device_->trace_mark(0);
  const auto records = device_->trace_stop();
  EXPECT_EQ(marks_of(records), (std::vector<std::uint64_t>{7, 7, 7, 8, 8}));
  device_->replay(*before);
  device_->synchronize();
}

// Submission of an empty kernel, in us: the median of many.
double submit_us(Device& device) {
  auto empty = device.empty_launch();
  std::vector<double> us;
  for (int i = 0; i < 501; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    device.submit(empty);
    us.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
    device.synchronize();
  }
  std::ranges::nth_element(us, us.begin() + 250);
  return us[250];
}

// Many traces of one process, with a graph alive throughout, in both ways of ending them. Detaching comes last: where
// it is broken, it takes the process with it.
TEST_F(GpuCuptiTrace, ManyTracesInOneProcess) {
  auto empty = device_->empty_launch();
  const auto graph = device_->capture(empty, 3);
  for (const auto after : {CuptiTrace::AfterStop::stay_attached, CuptiTrace::AfterStop::detach}) {
    const bool detach = after == CuptiTrace::AfterStop::detach;
    CuptiTrace trace{after};
    for (int i = 0; i < 100; ++i) {
      trace.start();
      trace.mark(11);
      device_->delay(20);
      device_->replay(*graph);
      trace.mark(0);
      device_->synchronize();
      const auto records = trace.stop();
      ASSERT_EQ(marks_of(records), (std::vector<std::uint64_t>{11, 11, 11, 11})) << detach << ' ' << i;
      expect_duration(records[0], 20);
      device_->replay(*graph);
      device_->synchronize();
    }
    RecordProperty(detach ? "submit_us_detached" : "submit_us_attached", std::to_string(submit_us(*device_)));
  }
}

}  // namespace
}  // namespace mage

#else

TEST(CuptiTraceTest, NeedsCupti) { GTEST_SKIP() << "built without CUPTI"; }

#endif
