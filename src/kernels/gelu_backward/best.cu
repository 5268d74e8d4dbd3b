// SPDX-License-Identifier: Apache-2.0
// best: what an application would call. It names, by shape, the variant that runs; the table is in picks().
#include "mage_bench/device_code.cuh"

#if MAGE_HOST
#include "kernels/gelu_backward/gelu_backward.hpp"

namespace mage::gelu_backward {
namespace {

/// A guess, not yet measured:
///   columns that 32 bits can count      v09_overlapped  it sizes itself, and calls overlap
///   others                              v00_naive
const char* picks(const Problem& p) { return p.cols <= 0x7fffffff ? "v09_overlapped" : "v00_naive"; }

[[maybe_unused]] const Register<GeluBackward> registered{{
    .note = "the fastest variant by shape",
    .min_cc = 90,
    .picks = picks,
}};

}  // namespace
}  // namespace mage::gelu_backward
#endif
