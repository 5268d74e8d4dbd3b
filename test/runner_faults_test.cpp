// SPDX-License-Identifier: Apache-2.0
// What one variant or problem breaks, or finds no memory for, costs no other.
#include <new>
#include <stdexcept>
#include <utility>
#include <vector>

#include "test/support/runner_fixture.hpp"

namespace mage::test {
namespace {

/// gelu where the expected values find no memory from some call of the reference on, or the output finds none.
class Starved final : public Family {
 public:
  explicit Starved(int first, bool huge_output = false) : first_{first}, huge_output_{huge_output} {}
  [[nodiscard]] std::string_view name() const override { return family().name(); }
  [[nodiscard]] std::vector<AnyProblem> bench_problems() const override { return family().bench_problems(); }
  [[nodiscard]] std::vector<AnyProblem> test_problems() const override { return family().test_problems(); }
  [[nodiscard]] std::optional<AnyProblem> parse(const std::string& text) const override { return family().parse(text); }
  [[nodiscard]] Operands operands(const AnyProblem& problem) const override {
    auto all = family().operands(problem);
    if (huge_output_) all.back().rows = int64{1} << 45U;
    return all;
  }
  [[nodiscard]] AnyArgs bind(const AnyProblem& problem, const Pointers& pointers) const override {
    return family().bind(problem, pointers);
  }
  void reference(const AnyProblem& problem, const Pointers& host, Expected& expected) const override {
    if (++calls_ >= first_) throw std::bad_alloc{};
    family().reference(problem, host, expected);
  }
  [[nodiscard]] std::string tolerance(const AnyProblem& problem) const override { return family().tolerance(problem); }
  [[nodiscard]] Work work(const AnyProblem& problem) const override { return family().work(problem); }

 private:
  int first_;
  bool huge_output_;
  mutable int calls_ = 0;
};

TEST_F(RunnerTest, WhatAVariantBreaksBeforeItFailsIsMended) {
  const auto vandal = variant("vandal", [](detail::ErasedFunction, const void*, const void* args) -> Launch {
    auto* const* pointers = static_cast<float* const*>(args);
    return [x = pointers[0], y = pointers[2]](StreamHandle) {
      x[0] += 1;
      y[-1] = 0;
      throw std::runtime_error{"no wish to work"};
    };
  });
  plan({fixture(vandal, family(), "5x32"), fixture(reference(), family(), "5x32")});
  EXPECT_EQ(run().size(), 3U);
  expect_status("failed", "no wish to work");
}

TEST_F(RunnerTest, WhatALastCallBreaksIsItsOwnVariantsFault) {
  static int binding = 0, calls = 0, calls_a_round = 0;
  binding = calls = 0;
  const auto vandal = variant("vandal", [](detail::ErasedFunction, const void* problem, const void* args) {
    const bool breaks = ++binding == 4;  // behind the gate and two rounds
    calls_a_round = std::exchange(calls, 0);
    auto* y = static_cast<float* const*>(args)[2];
    return wrapped(problem, args, [y, breaks](Launch& inner, StreamHandle stream, int) {
      inner(stream);
      if (++calls == calls_a_round && breaks) y[-1] = 0;
    });
  });
  plan({fixture(vandal, family(), "5x32"), fixture(reference(), family(), "5x32")}, 4);
  static_cast<void>(run());
  const auto found = entries("status");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].at("name"), "gelu/vandal/5x32/host");
  EXPECT_EQ(found[0].at("status"), "wrong");
}

TEST_F(RunnerTest, AProblemWithoutMemoryCostsItsOwnRowsOnly) {
  const Starved starved{1};
  plan({fixture(reference(), family(), "1x1"), fixture(reference(), starved, "5x32"),
        fixture(reference(), family(), "1x3")});
  EXPECT_EQ(run().size(), 6U);
  const auto found = entries("status");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].at("name"), "gelu/reference/5x32/host");
  EXPECT_EQ(found[0].at("status"), "unavailable");
  EXPECT_EQ(found[0].at("code"), "memory");
  EXPECT_EQ(found[0].at("reason"), "the host has no memory for the inputs and the reference of gelu/5x32: 6016 bytes");
  EXPECT_EQ(failures_, 0);
}

TEST_F(RunnerTest, OperandsWithoutMemoryCostTheirOwnRowsOnly) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer ends the process where an allocation fails";
#endif
  const Starved starved{100, true};
  plan({fixture(reference(), starved, "5x32"), fixture(reference(), family(), "1x3")});
  EXPECT_EQ(run().size(), 3U);
  const auto found = entries("status");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].at("code"), "memory");
  EXPECT_TRUE(found[0].at("reason").get<std::string>().starts_with("the host has no memory for the operands of gelu"))
      << found[0].at("reason");
}

TEST_F(RunnerTest, FreshInputsWithoutMemoryCostTheirOwnRowsOnly) {
  const Starved starved{3};  // two for the inputs that take turns
  plan({fixture(reference(), starved, "5x32"), fixture(reference(), family(), "1x3")}, 1);
  EXPECT_EQ(run().size(), 2U);
  expect_status("failed", "the inputs could not be renewed for the closing gate: ");
  EXPECT_EQ(entries("gate").size(), 3U) << "one without a closing gate, and two of the problem after it";
}

TEST_F(RunnerTest, InputsThatCannotBeRenewedInMidRunCostTheirOwnRowsOnly) {
  const Starved starved{3};
  plan({fixture(reference(), starved, "5x32"), fixture(reference(), family(), "1x3")}, 2);
  EXPECT_EQ(run().size(), 3U) << "one round before, and two of the other problem";
  expect_status("failed", "the inputs could not be renewed for round 1: ");
}

TEST_F(RunnerTest, NoTimeStandsWithoutAClosingGate) {
  const Starved starved{3};
  auto first = fixture(reference(), starved, "5x32"), second = first;
  second.name += "_again";
  plan({first, second}, 2);
  std::erase_if(plan_.problems.at(0).steps, [](const Step& step) { return step.fixture == 1 && step.round == 1; });
  EXPECT_EQ(run().size(), 2U);
  const auto found = entries("status");
  ASSERT_EQ(found.size(), 2U) << "also the one that was done when the inputs could not be renewed";
  for (const auto& status : found) EXPECT_EQ(status.at("status"), "failed");
}

}  // namespace
}  // namespace mage::test
