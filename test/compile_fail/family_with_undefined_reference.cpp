// SPDX-License-Identifier: Apache-2.0
// A reference that is declared and never written is found when the program links, not when it runs.
// stage: link
// expect: undefined reference to .sample::Sample::reference
#include "mage_bench/registry.hpp"

#include "sample_family.hpp"

namespace mage::detail {
void register_family(std::unique_ptr<Family>) {}  // stands in for the registry, which needs the rest of the program
}  // namespace mage::detail

namespace sample {
mage::ProblemList<Problem> Sample::bench_problems() { return {}; }
mage::ProblemList<Problem> Sample::test_problems() { return {}; }
mage::Text Sample::print(const Problem&) { return {}; }
bool Sample::parse(const char*, Problem&) { return false; }
mage::Operands Sample::operands(const Problem&) { return {}; }
Args Sample::bind(const Problem&, const mage::Pointers&) { return {}; }
#if MAGE_CONTROL
void Sample::reference(const Problem&, const mage::Pointers&, mage::Expected&) {}
#endif
mage::Text Sample::tolerance(const Problem&) { return {}; }
mage::Work Sample::work(const Problem&) { return {}; }
}  // namespace sample

int main() { const mage::RegisterFamily<sample::Sample> registered; }
