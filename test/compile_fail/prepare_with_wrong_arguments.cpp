// SPDX-License-Identifier: Apache-2.0
// A launcher takes its own family's Args; another aggregate of pointers is not a substitute.
// expect: no matching function for call to 'mage::Register<sample::Sample>::Register
// expect note: no known conversion .* to 'const mage::Variant<sample::Sample>&'
#include "sample_family.hpp"

namespace {

struct OtherArgs {
  const double* x;
};

#if MAGE_CONTROL
using PreparedArgs = sample::Args;
#else
using PreparedArgs = OtherArgs;
#endif

mage::Launch prepare(const sample::Problem&, const PreparedArgs&) {
  return [](mage::StreamHandle) {};
}

const mage::Register<sample::Sample> registered{{.parent = "v00_naive", .note = "a note", .prepare = prepare}};

}  // namespace
