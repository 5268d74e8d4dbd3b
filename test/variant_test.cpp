// SPDX-License-Identifier: Apache-2.0
// Every variant on every test problem: right, whole, inside its buffers, repeatable, on its stream, capturable.
#include <gtest/gtest.h>

#include "bench/plan.hpp"
#include "mage_bench/case.hpp"
#include "mage_bench/device.hpp"
#include "test/support/gpu.hpp"
#include "test/support/variants.hpp"

namespace mage {
namespace {

using test::VariantParam;
using test::Where;

/// One poisoned call; the verdict of the gate.
Verdict run_once(Device& device, Case& bound, Launch& launch) {
  bound.poison();
  device.submit(launch);
  return bound.check();
}

/// All that holds of a variant on a problem it accepts.
void expect_sound(Device& device, const Family& family, const VariantInfo& variant, const AnyProblem& problem) {
  SCOPED_TRACE(std::string{family.name()} + "/" + variant.name + "/" + problem.name);
  const Oracle oracle{family, problem};
  Case bound{device, oracle};
  auto launch = bound.bind(variant);
  const auto first = run_once(device, bound, launch);
  ASSERT_TRUE(first.ok) << first.reason;
  if (!variant.deterministic) return;
  for (int run = 1; run < test::flake_runs(20); ++run) {
    const auto again = run_once(device, bound, launch);
    ASSERT_TRUE(again.ok) << "run " << run << ": " << again.reason;
    ASSERT_EQ(again.output_checksum, first.output_checksum) << "run " << run << " gave other bits";
  }
}

/// Enough for other bits to show; not fewer under the sanitizer, whose pace changes them too.
constexpr int repeatability_runs = 20;

/// A counter-example that nothing catches would be one that nobody has to fear. On one problem at least it must be
/// found wrong, or, where it says that it is not deterministic, give other bits on another call. And it must be right
/// where its fault cannot show: one that is wrong for another reason shows nothing.
void expect_caught_once(Device& device, const Family& family, const VariantInfo& variant) {
  const auto plain = family.parse("64x1024").value();
  {
    const Oracle oracle{family, plain};
    Case bound{device, oracle};
    auto launch = bound.bind(variant);
    const auto verdict = run_once(device, bound, launch);
    EXPECT_TRUE(verdict.ok) << variant.source << " is wrong on " << plain.name << " too: " << verdict.reason;
  }
  for (const auto& problem : family.test_problems()) {
    if (test::is_large(family, problem) || !accepts(variant, problem)) continue;
    const Oracle oracle{family, problem};
    Case bound{device, oracle};
    auto launch = bound.bind(variant);
    const auto first = run_once(device, bound, launch);
    if (!first.ok) return;
    for (int run = 1; !variant.deterministic && run < repeatability_runs; ++run)
      if (run_once(device, bound, launch).output_checksum != first.output_checksum) return;
  }
  ADD_FAILURE() << variant.source << " was right, and the same, on every problem: " << variant.counter_example;
}

/// A graph that holds the operation, and whose replay gives the bits of a plain call.
void expect_capturable(Device& device, const Family& family, const VariantInfo& variant, const AnyProblem& problem) {
  SCOPED_TRACE(std::string{family.name()} + "/" + variant.name + "/" + problem.name);
  const Oracle oracle{family, problem};
  Case bound{device, oracle};
  auto launch = bound.bind(variant);
  const auto plain = run_once(device, bound, launch);
  ASSERT_TRUE(plain.ok) << plain.reason;
  const auto graph = device.capture(launch, 1);
  EXPECT_GT(graph->kernel_nodes() + graph->other_nodes(), 0) << "the operation did not use the stream it was given";
  bound.poison();
  device.replay(*graph);
  const auto replayed = bound.check();
  ASSERT_TRUE(replayed.ok) << replayed.reason;
  if (variant.deterministic) {
    EXPECT_EQ(replayed.output_checksum, plain.output_checksum);
  }
}

class HostVariantTest : public testing::TestWithParam<VariantParam> {};

TEST_P(HostVariantTest, IsSound) {
  const auto& [family, variant, problem] = GetParam();
  if (!accepts(*variant, problem)) {
    // Refusing is an answer; taking it after all would be a silent fallback.
    const Oracle oracle{*family, problem};
    const auto device = make_host_device();
    const Case bound{*device, oracle};
    EXPECT_THROW(static_cast<void>(bound.bind(*variant)), std::logic_error);
    return;
  }
  const auto device = make_host_device();
  expect_sound(*device, *family, *variant, problem);
}

// Where a variant picks another, it does so for every problem without throwing, and the one it picks takes the problem.
TEST(Variants, WhatPicksTakesWhateverTheOneItPicksTakes) {
  for (const auto* family : families())
    for (const auto& variant : family->variants()) {
      if (variant.skipped || variant.erased.picks == nullptr) continue;
      auto beyond = family->bench_problems();
      // Around the limits of tables: 32-bit columns, a grid's blocks, what a cluster or an SM holds.
      for (const auto* name : {"1x8192", "129x8193", "1x65537", "1x131069", "1x131070", "300x20000", "268435455x4",
                               "268435456x4", "2147483648x3", "1x2147418112", "1x2147418113", "1x2147483648",
                               "1048577x4096", "1048577x4097", "65536x65536-o1"})
        if (auto problem = family->parse(name)) beyond.push_back(*std::move(problem));
      for (const auto& problems : {family->test_problems(), beyond})
        for (const auto& problem : problems) {
          const auto& runs = picked(variant, problem);
          EXPECT_TRUE(accepts(variant, problem)) << variant.source << " picks " << runs.name << " for " << problem.name;
          EXPECT_TRUE(runs.counter_example.empty() && runs.deterministic) << variant.source << ": " << runs.name;
          EXPECT_LE(runs.min_cc, variant.min_cc) << variant.source << " must ask for what " << runs.name << " needs";
        }
    }
}

INSTANTIATE_TEST_SUITE_P(All, HostVariantTest, testing::ValuesIn(test::variants_and_problems(Where::host)),
                         test::test_name);

class GpuVariantTest : public testing::TestWithParam<VariantParam> {
 protected:
  // One context for all of them: creating one costs more than most tests.
  static Device& device() {
    static const auto shared = make_cuda_device(0);
    return *shared;
  }
  [[nodiscard]] static bool runnable(const VariantInfo& variant) {
    return device().info().compute_capability >= variant.min_cc;
  }
};

TEST_P(GpuVariantTest, IsSoundOnEveryProblemItAccepts) {
  MAGE_NEED_GPU();
  const auto& [family, variant, unused] = GetParam();
  if (!runnable(*variant)) GTEST_SKIP() << "needs compute capability " << variant->min_cc;
  if (!variant->counter_example.empty()) {
    expect_caught_once(device(), *family, *variant);
    return;
  }
  int accepted = 0;
  for (const auto& problem : family->test_problems()) {
    if (test::is_large(*family, problem) || !accepts(*variant, problem)) continue;
    accepted += 1;
    expect_sound(device(), *family, *variant, problem);
  }
  EXPECT_GT(accepted, 0) << "a variant that accepts no test problem is not tested";
}

TEST_P(GpuVariantTest, IsCapturable) {
  MAGE_NEED_GPU();
  const auto& [family, variant, unused] = GetParam();
  if (!runnable(*variant)) GTEST_SKIP() << "needs compute capability " << variant->min_cc;
  int captured = 0;
  for (const auto& problem : family->test_problems()) {
    if (captured == 3) break;
    if (test::is_large(*family, problem) || !accepts(*variant, problem)) continue;
    captured += 1;
    expect_capturable(device(), *family, *variant, problem);
  }
  EXPECT_EQ(captured, 3);
}

// A library called on the quiet, or another variant's kernel, would be measured under a name that is not its own.
TEST_P(GpuVariantTest, RunsTheKernelsOfItsNameOnly) {
  MAGE_NEED_GPU();
  const auto& [family, variant, unused] = GetParam();
  if (!runnable(*variant)) GTEST_SKIP() << "needs compute capability " << variant->min_cc;
  if (variant->provider != "mage_bench") GTEST_SKIP() << "a baseline of " << variant->provider;
  for (const auto& problem : family->test_problems()) {
    if (test::is_large(*family, problem) || !accepts(*variant, problem)) continue;
    SCOPED_TRACE(problem.name);
    const auto own_name = std::string{family->name()} + "_" + picked(*variant, problem).name;
    const Oracle oracle{*family, problem};
    Case bound{device(), oracle};
    auto launch = bound.bind(*variant);
    try {
      device().trace_start();
    } catch (const UnavailableError& error) {
      GTEST_SKIP() << error.what();
    }
    device().trace_mark(1);
    device().submit(launch);
    device().trace_mark(0);
    int own = 0;
    for (const auto& record : device().trace_stop()) {
      if (record.mark != 1) continue;
      own += 1;
      EXPECT_NE(record.name.find(own_name), std::string::npos) << record.name;
    }
    EXPECT_GT(own, 0) << "no kernel was seen";
  }
}

INSTANTIATE_TEST_SUITE_P(All, GpuVariantTest, testing::ValuesIn(test::variants(Where::cuda)), test::test_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GpuVariantTest);  // a build without CUDA has none

class GpuLargeTest : public testing::TestWithParam<const Family*> {};

// One test a family: the inputs and the reference of two thousand million elements are made once.
TEST_P(GpuLargeTest, EveryVariantHandlesOffsetsBeyond31Bits) {
  MAGE_NEED_GPU();
  const Family& family = *GetParam();
  const auto device = make_cuda_device(0);
  int checked = 0;
  for (const auto& problem : family.test_problems()) {
    const auto operands = family.operands(problem);
    if (!test::is_large(family, problem)) continue;
    SCOPED_TRACE(std::string{family.name()} + "/" + problem.name);
    if (Case::host_bytes(operands) > free_host_bytes() || Case::device_bytes(operands) > device->info().memory_bytes)
      GTEST_SKIP() << "needs " << Case::host_bytes(operands) << " bytes of host memory and "
                   << Case::device_bytes(operands) << " of the device's";
    const Oracle oracle{family, problem};
    Case bound{*device, oracle};
    for (const auto& variant : family.variants()) {
      const bool runs_here = !variant.on_host() && device->info().compute_capability >= variant.min_cc;
      if (!runs_here || !variant.counter_example.empty() || !accepts(variant, problem)) continue;
      auto launch = bound.bind(variant);
      const auto verdict = run_once(*device, bound, launch);
      EXPECT_TRUE(verdict.ok) << variant.name << ": " << verdict.reason;
      checked += 1;
    }
  }
  EXPECT_GT(checked, 0) << "no variant took a large problem";
}

INSTANTIATE_TEST_SUITE_P(All, GpuLargeTest, testing::ValuesIn(families()),
                         [](const auto& family) { return std::string{family.param->name()}; });

}  // namespace
}  // namespace mage
