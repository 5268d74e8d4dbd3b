// SPDX-License-Identifier: Apache-2.0
// best: what an application would call. It names, by shape, the variant that runs; the table is in picks().
#include "mage_bench/device_code.cuh"

#if MAGE_HOST
#include "kernels/gelu_backward/gelu_backward.hpp"

namespace mage::gelu_backward {
namespace {

/// One H200. "expected" is a prediction that waits for its measurement:
///   columns that 32 bits can count   v14_narrow  expected: v09_overlapped sizes itself and overlaps calls, fastest at
///                                                64x1024; plain accesses save v11_unhinted 4 to 6 % at 8192x16384;
///                                                and strips of 256 bytes shorten the sum of slabs
///   others                           v00_naive
const char* picks(const Problem& p) { return p.cols <= 0x7fffffff ? "v14_narrow" : "v00_naive"; }

[[maybe_unused]] const Register<GeluBackward> registered{{
    .note = "the fastest variant by shape",
    .min_cc = 90,
    .picks = picks,
}};

}  // namespace
}  // namespace mage::gelu_backward
#endif
