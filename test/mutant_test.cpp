// SPDX-License-Identifier: Apache-2.0
// Wrong kernels against the gate, through every path that is timed. A gate that passes one of them is broken.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "bench/gate.hpp"
#include "bench/samplers.hpp"
#include "mage_bench/case.hpp"
#include "test/mutants/mutants.hpp"
#include "test/support/gpu.hpp"

namespace mage {
namespace {

using test::make_mutant;
using test::Mutant;
using test::Mutation;
using test::Tools;

AnyProblem problem_of(const Family& family, const std::string& name) {
  const auto problem = family.parse(name);
  if (!problem) throw std::logic_error{std::string{family.name()} + " has no problem " + name};
  return *problem;
}

void expect_caught(Device& device, const Tools& tools, const Mutant& mutant, TimingMode mode,
                   const AnyProblem& problem) {
  SCOPED_TRACE(mutant.name() + " by " + std::string{to_string(mode)} + " on " + problem.name);
  const Oracle oracle{*mutant.family, problem};
  Case bound{device, oracle};
  auto launch = make_mutant(mutant, device, tools, oracle.problem(), bound.pointers());
  const auto sampler = make_sampler(mode, device, launch);
  sampler->prepare();
  const auto verdict = run_gate(*sampler, bound, true);
  if (mutant.mutation == Mutation::none) {
    EXPECT_TRUE(verdict.ok) << "the control: " << verdict.reason;
    return;
  }
  EXPECT_FALSE(verdict.ok) << "the gate let a mutant pass";
  EXPECT_FALSE(verdict.reason.empty());
}

std::string mutant_name(const testing::TestParamInfo<Mutant>& param) { return param.param.name(); }

class MutantTest : public testing::TestWithParam<Mutant> {};

TEST_P(MutantTest, IsCaughtOnTheHost) {
  const auto device = make_host_device();
  for (const auto& problem : GetParam().problems())
    expect_caught(*device, test::host_tools(), GetParam(), TimingMode::host, problem);
}

// The words of a single poisoned call, with nothing before it that could have worked or failed in another way.
TEST_P(MutantTest, TheReasonNamesTheFault) {
  const auto device = make_host_device();
  const auto& mutant = GetParam();
  const Oracle oracle{*mutant.family, problem_of(*mutant.family, "64x1024")};
  Case bound{*device, oracle};
  auto launch = make_mutant(mutant, *device, test::host_tools(), oracle.problem(), bound.pointers());
  Verdict verdict;
  for (int call = 0; call < 2 && (call == 0 || verdict.ok); ++call) {
    bound.poison();
    device->submit(launch);
    verdict = bound.check();
  }
  EXPECT_NE(verdict.reason.find(mutant.must_say()), std::string::npos) << verdict.reason;
}

INSTANTIATE_TEST_SUITE_P(All, MutantTest, testing::ValuesIn(test::mutants()), mutant_name);

// Which family has sums over rows or columns is worked out; a mutant that is not made is not missed otherwise.
TEST(Mutants, OfSumsAreMadeWhereThereAreSums) {
  std::set<std::string> found;
  for (const auto& mutant : test::mutants())
    if (mutant.mutation == Mutation::last_row_skipped || mutant.mutation == Mutation::last_column_skipped)
      found.insert(mutant.name());
  EXPECT_EQ(found,
            (std::set<std::string>{"gelu_backward_last_row_skipped_x", "layernorm_last_column_skipped_x",
                                   "layernorm_backward_last_row_skipped_x", "layernorm_backward_last_column_skipped_x",
                                   "layernorm_backward_last_column_skipped_dy"}));
}

#if MAGE_HAVE_CUDA
class GpuMutantTest : public testing::TestWithParam<Mutant> {};

TEST_P(GpuMutantTest, IsCaughtByEveryMode) {
  MAGE_NEED_GPU();
  const auto device = make_cuda_device(0);
  for (const auto mode : all_modes)
    for (const auto& problem : GetParam().problems()) {
      try {
        expect_caught(*device, test::cuda_tools(), GetParam(), mode, problem);
      } catch (const UnavailableError& error) {
        // compute-sanitizer holds CUPTI; nothing else may be missing where there is a GPU.
        EXPECT_EQ(error.reason(), Unavailable::cupti_busy) << to_string(mode) << ": " << error.what();
      } catch (const std::runtime_error& error) {
        // A mutant that enqueues nothing leaves an empty graph and no kernel record.
        EXPECT_EQ(GetParam().mutation, Mutation::nothing_written) << to_string(mode) << ": " << error.what();
      }
    }
}

INSTANTIATE_TEST_SUITE_P(All, GpuMutantTest, testing::ValuesIn(test::mutants()), mutant_name);
#endif

}  // namespace
}  // namespace mage
