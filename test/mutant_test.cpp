// SPDX-License-Identifier: Apache-2.0
// Wrong kernels against the gate, through every path that is timed. A gate that passes one of them is broken.
#include <gtest/gtest.h>

#include "bench/gate.hpp"
#include "bench/samplers.hpp"
#include "mage_bench/case.hpp"
#include "test/mutants/gelu_mutants.hpp"
#include "test/support/gpu.hpp"

namespace mage {
namespace {

using test::Mutant;
using test::MutantArgs;

const Family& family() {
  const auto* found = find_family("gelu");
  if (found == nullptr) throw std::logic_error{"the mutants are of family gelu"};
  return *found;
}

/// The gate's verdict on a mutant, timed by `mode` on `device`.
Verdict judge(Device& device, const Mutant& mutant, TimingMode mode, const std::string& problem) {
  const Oracle oracle{family(), family().parse(problem).value()};
  Case bound{device, oracle};
  const auto& pointers = bound.pointers();
  const auto& x = oracle.operands().front();
  auto launch = mutant.make({pointers.at<const float>(0), pointers.at<const float>(1), pointers.at<float>(2),
                             static_cast<long long>(x.rows), static_cast<long long>(x.cols)});
  const auto sampler = make_sampler(mode, device, launch);
  sampler->prepare();
  return run_gate(*sampler, bound, true);
}

void expect_caught(Device& device, const Mutant& mutant, TimingMode mode, const std::string& problem) {
  SCOPED_TRACE(std::string{mutant.name} + " by " + std::string{to_string(mode)} + " on " + problem);
  const auto verdict = judge(device, mutant, mode, problem);
  if (std::string_view{mutant.must_say}.empty()) {
    EXPECT_TRUE(verdict.ok) << "the control: " << verdict.reason;
    return;
  }
  EXPECT_FALSE(verdict.ok) << "the gate let a mutant pass";
  EXPECT_FALSE(verdict.reason.empty());
}

std::string mutant_name(const testing::TestParamInfo<Mutant>& param) { return param.param.name; }

class MutantTest : public testing::TestWithParam<Mutant> {};

TEST_P(MutantTest, IsCaughtOnTheHost) {
  const auto device = make_host_device();
  for (const auto* problem : {"64x1024", "37x515-tail", "3x33-o1", "1000x1"})
    expect_caught(*device, GetParam(), TimingMode::host, problem);
}

// The words of a single poisoned call, with nothing before it that could have worked or failed in another way.
TEST_P(MutantTest, TheReasonNamesTheFault) {
  const auto device = make_host_device();
  const Oracle oracle{family(), family().parse("64x1024").value()};
  Case bound{*device, oracle};
  const auto& pointers = bound.pointers();
  auto launch =
      GetParam().make({pointers.at<const float>(0), pointers.at<const float>(1), pointers.at<float>(2), 64, 1024});
  Verdict verdict;
  for (int call = 0; call < 2 && (call == 0 || verdict.ok); ++call) {
    bound.poison();
    device->submit(launch);
    verdict = bound.check();
  }
  EXPECT_NE(verdict.reason.find(GetParam().must_say), std::string::npos) << verdict.reason;
}

INSTANTIATE_TEST_SUITE_P(Gelu, MutantTest, testing::ValuesIn(test::host_gelu_mutants()), mutant_name);

#if MAGE_HAVE_CUDA
class GpuMutantTest : public testing::TestWithParam<Mutant> {};

TEST_P(GpuMutantTest, IsCaughtByEveryMode) {
  MAGE_NEED_GPU();
  const auto device = make_cuda_device(0);
  for (const auto mode : all_modes)
    for (const auto* problem : {"64x1024", "37x515-tail", "3x33-o1"}) {
      try {
        expect_caught(*device, GetParam(), mode, problem);
      } catch (const UnavailableError& error) {
        // compute-sanitizer holds CUPTI; nothing else may be missing where there is a GPU.
        EXPECT_EQ(error.reason(), Unavailable::cupti_busy) << to_string(mode) << ": " << error.what();
      } catch (const std::runtime_error& error) {
        // A mutant that enqueues nothing leaves an empty graph and no kernel record.
        EXPECT_EQ(std::string_view{GetParam().name}, "output_untouched") << to_string(mode) << ": " << error.what();
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Gelu, GpuMutantTest, testing::ValuesIn(test::cuda_gelu_mutants()), mutant_name);
#endif

}  // namespace
}  // namespace mage
