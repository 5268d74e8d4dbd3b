// SPDX-License-Identifier: Apache-2.0
// Every variant waits for the call before it. Programmatic dependent launch starts a kernel while the one before still
// runs; a variant that then forgets to wait is right, and the same, wherever calls read the same inputs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/admission/chain.hpp"
#include "mage_bench/registry.hpp"
#include "test/chain/dependents.hpp"
#include "test/support/fake_device.hpp"
#include "test/support/gpu.hpp"
#include "test/support/variants.hpp"

namespace mage {
namespace {

using test::Early;
using test::FakeDevice;
using test::Where;

std::vector<const Family*> families_with_links() {
  auto found = families();
  std::erase_if(found, [](const Family* family) { return chained_problems(*family).empty(); });
  return found;
}

/// A family's variants whose bits can be compared. What a library does on a stream is the library's affair.
std::vector<const VariantInfo*> repeatable_variants(const Family& family, Where where) {
  std::vector<const VariantInfo*> found;
  for (const auto& variant : family.variants())
    if (!variant.skipped && variant.on_host() == (where == Where::host) && variant.deterministic &&
        variant.counter_example.empty() && variant.provider == "mage_bench")
      found.push_back(&variant);
  return found;
}

Chained chained(const Family& family, const AnyProblem& problem, const Link& link,
                std::function<Launch(const Pointers&)> prepare) {
  return {.operands = family.operands(problem),
          .link = link,
          .prepare = std::move(prepare),
          .derive = [&family, problem](const Pointers& host) { family.derive(problem, host); },
          .varies = false};
}

void expect_waits(Device& device, const Family& family, const VariantInfo& variant, int repetitions) {
  int checked = 0;
  for (const auto& problem : chained_problems(family)) {
    if (!accepts(variant, problem)) continue;
    const auto operands = family.operands(problem);
    for (const auto& link : links(operands)) {
      const auto call = [&](const Pointers& pointers) {
        return prepare(variant, problem, family.bind(problem, pointers));
      };
      const auto verdict = check_chain(device, chained(family, problem, link, call), repetitions);
      EXPECT_TRUE(verdict.ok()) << variant.source << " on " << problem.name << ", " << operands[link.out].name << " to "
                                << operands[link.in].name << ": " << verdict.reason;
      checked += 1;
    }
  }
  EXPECT_GT(checked, 0) << variant.source << " accepts no problem of this test";
}

std::string family_name(const testing::TestParamInfo<const Family*>& family) {
  return std::string{family.param->name()};
}

// One test a family: a process for each variant would take longer than its chains.
class ChainTest : public testing::TestWithParam<const Family*> {};

// A host call is over when it returns: what this shows is that none leaves anything behind for the next.
TEST_P(ChainTest, HostVariantsKeepNothingBetweenCalls) {
  const auto device = make_host_device();
  for (const auto* variant : repeatable_variants(*GetParam(), Where::host))
    expect_waits(*device, *GetParam(), *variant, 1);
}

INSTANTIATE_TEST_SUITE_P(All, ChainTest, testing::ValuesIn(families_with_links()), family_name);

/// Host memory, and a stream on which a kernel starts at once and does nothing unless someone waits for it: the worst
/// that programmatic dependent launch allows.
class OverlappingDevice final : public FakeDevice {
 public:
  using Work = std::function<void()>;

  /// What a kernel that was enqueued still has to do.
  void later(Work work) { pending_.push_back(std::move(work)); }
  static OverlappingDevice& of(StreamHandle stream) { return *static_cast<OverlappingDevice*>(stream.raw()); }

  void synchronize() override {
    for (const auto& work : std::exchange(pending_, {})) work();
  }
  [[nodiscard]] void* allocate(std::size_t bytes) override { return host_->allocate(bytes); }
  void deallocate(void* pointer) noexcept override { host_->deallocate(pointer); }
  void upload(void* to, const void* from, std::size_t bytes) override {
    synchronize();
    host_->upload(to, from, bytes);
  }
  void download(void* to, const void* from, std::size_t bytes) override {
    synchronize();
    host_->download(to, from, bytes);
  }
  void fill(void* to, std::uint32_t pattern, std::size_t bytes) override {
    synchronize();
    host_->fill(to, pattern, bytes);
  }
  void submit(Launch& launch) override { launch(StreamHandle{this}); }
  [[nodiscard]] std::unique_ptr<Graph> capture(Launch& launch, int) override {
    captured_ = &launch;
    return std::make_unique<FakeGraph>();
  }
  void replay(Graph&) override { submit(*captured_); }

 private:
  const std::unique_ptr<Device> host_ = make_host_device();
  std::vector<Work> pending_;
  Launch* captured_ = nullptr;
};

/// A family's first host variant on that model, one thing of which comes too early.
class Premature {
 public:
  Premature(Early early, const Family& family, const VariantInfo& right, const AnyProblem& problem,
            const Pointers& pointers)
      : early_{early} {
    std::vector<void*> bound;
    const auto operands = family.operands(problem);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      auto& side = operands[i].role == Role::in ? inputs_ : outputs_;
      side.push_back({{pointers.at<std::byte>(i), operands[i].bytes()}, std::vector<std::byte>(operands[i].bytes())});
      bound.push_back(side.back().scratch.data());
    }
    right_ = prepare(right, problem, family.bind(problem, Pointers{std::move(bound)}));
  }

  void operator()(OverlappingDevice& device) {
    switch (early_) {
      case Early::nothing:
      case Early::second: device.synchronize(); break;
      case Early::all: load(); break;
      case Early::load:
        load();
        device.synchronize();
        break;
      case Early::store:
        for (const auto& output : outputs_) std::fill(output.memory.begin(), output.memory.end(), std::byte{});
        device.synchronize();
        break;
    }
    device.later([this] {
      if (early_ == Early::second) store();
      if (early_ != Early::all && early_ != Early::load) load();
      right_({});
      if (early_ != Early::second) store();
    });
  }

 private:
  struct Tensor {
    std::span<std::byte> memory;
    std::vector<std::byte> scratch;
  };
  void load() {
    for (auto& input : inputs_) std::copy(input.memory.begin(), input.memory.end(), input.scratch.begin());
  }
  void store() {
    for (auto& output : outputs_) std::copy(output.scratch.begin(), output.scratch.end(), output.memory.begin());
  }

  Early early_;
  std::vector<Tensor> inputs_, outputs_;
  Launch right_;
};

std::string early_name(const testing::TestParamInfo<Early>& early) {
  switch (early.param) {
    case Early::nothing: return "nothing";
    case Early::all: return "all";
    case Early::load: return "load";
    case Early::store: return "store";
    case Early::second: return "second";
  }
  return "?";
}

class DependentTest : public testing::TestWithParam<Early> {};

// Through every link of every family: a chain on which nothing would show proves nothing.
TEST_P(DependentTest, IsToldOnTheModelOfADevice) {
  constexpr int repetitions = 2;
  const int told = GetParam() == Early::nothing ? 0 : repetitions;
  for (const auto* family : families_with_links()) {
    auto problems = chained_problems(*family);
    if (problems.size() > 2) problems.resize(2);  // the others differ in size alone
    for (const auto& problem : problems) {
      const auto& right = *repeatable_variants(*family, Where::host).at(0);
      const auto call = [&](const Pointers& pointers) {
        auto premature = std::make_shared<Premature>(GetParam(), *family, right, problem, pointers);
        return Launch{[premature](StreamHandle stream) { (*premature)(OverlappingDevice::of(stream)); }};
      };
      const auto operands = family->operands(problem);
      // What another call left in scratch is right where a call changes nothing: a copy, or the sum of one row.
      if (GetParam() == Early::second && (!test::computes(*family) || operands[0].rows == 1)) continue;
      for (const auto& link : links(operands)) {
        SCOPED_TRACE(std::string{family->name()} + "/" + problem.name + ", " + operands[link.out].name + " to " +
                     operands[link.in].name);
        OverlappingDevice device;
        const auto verdict = check_chain(device, chained(*family, problem, link, call), repetitions);
        EXPECT_EQ(verdict.broken_on_stream, told) << verdict.reason;
        EXPECT_EQ(verdict.broken_in_graph, told) << verdict.reason;
        EXPECT_EQ(verdict.reason.empty(), told == 0);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, DependentTest,
                         testing::Values(Early::nothing, Early::all, Early::load, Early::store, Early::second),
                         early_name);

TEST(Links, AreOfOneTypeShapeAndOffset) {
  const Operands operands{{.name = "x", .rows = 3, .cols = 5, .offset = 1},
                          {.name = "bias", .rows = 1, .cols = 5},
                          {.name = "y", .role = Role::out, .rows = 3, .cols = 5, .offset = 1},
                          {.name = "unshifted", .role = Role::out, .rows = 3, .cols = 5},
                          {.name = "sum", .role = Role::out, .rows = 1, .cols = 5},
                          {.name = "count", .role = Role::out, .dtype = DType::i32, .rows = 1, .cols = 5},
                          {.name = "turned", .role = Role::out, .rows = 5, .cols = 1}};
  std::vector<std::pair<std::string, std::string>> found;
  for (const auto& [out, in] : links(operands)) found.emplace_back(operands[out].name, operands[in].name);
  EXPECT_EQ(found, (std::vector<std::pair<std::string, std::string>>{{"y", "x"}, {"sum", "bias"}}));
}

TEST(Links, AreThereForEveryFamilyThatComputes) {
  for (const auto* family : families())
    EXPECT_TRUE(!chained_problems(*family).empty() || !test::computes(*family)) << family->name();
}

#if MAGE_HAVE_CUDA
class GpuChainTest : public testing::TestWithParam<const Family*> {};

TEST_P(GpuChainTest, VariantsWaitForTheCallBefore) {
  MAGE_NEED_GPU();
  const auto device = make_cuda_device(0);
  for (const auto* variant : repeatable_variants(*GetParam(), Where::cuda))
    if (device->info().compute_capability >= variant->min_cc)
      expect_waits(*device, *GetParam(), *variant, test::flake_runs(10));
}

INSTANTIATE_TEST_SUITE_P(All, GpuChainTest, testing::ValuesIn(families_with_links()), family_name);

class GpuDependentTest : public testing::TestWithParam<Early> {};

TEST_P(GpuDependentTest, IsTold) {
  MAGE_NEED_GPU();
  const auto device = make_cuda_device(0);
  if (device->info().compute_capability < 90) GTEST_SKIP() << "needs compute capability 90";
  const Operands operands{{.name = "x", .rows = 64, .cols = 1024},
                          {.name = "y", .role = Role::out, .rows = 64, .cols = 1024}};
  const auto call = [&](const Pointers& pointers) {
    return test::make_dependent(GetParam(), pointers.at<float>(0), pointers.at<float>(1), 64 * 1024);
  };
  const Chained chained{
      .operands = operands, .link = {.out = 1, .in = 0}, .prepare = call, .derive = {}, .varies = false};
  const auto verdict = check_chain(*device, chained, 20);
  RecordProperty("broken_on_stream", verdict.broken_on_stream);
  RecordProperty("broken_in_graph", verdict.broken_in_graph);
  EXPECT_EQ(verdict.ok(), GetParam() == Early::nothing) << verdict.reason;
}

INSTANTIATE_TEST_SUITE_P(All, GpuDependentTest, testing::Values(Early::nothing, Early::all, Early::load), early_name);
#endif

}  // namespace
}  // namespace mage
