// SPDX-License-Identifier: Apache-2.0
// A field that Variant does not have is an error, not a setting that does nothing.
// expect: has no .*member named 'determinstic'
#include "sample_family.hpp"

namespace {

#if MAGE_CONTROL
const mage::Variant<sample::Sample> variant{.parent = "v00_naive", .deterministic = false};
#else
const mage::Variant<sample::Sample> variant{.parent = "v00_naive", .determinstic = false};
#endif

const mage::Register<sample::Sample> registered{variant};

}  // namespace
