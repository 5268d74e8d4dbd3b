// SPDX-License-Identifier: Apache-2.0
// best: what an application would call. It names, by shape, the variant that runs; the table is in picks().
#include "mage_bench/device_code.cuh"

#if MAGE_HOST
#include "kernels/gelu/gelu.hpp"

namespace mage::gelu {
namespace {

constexpr int64 far_beyond_l2 = int64{1} << 26;  // elements: x and y are 512 MiB

/// By experiments/foundation/gelu.json, one H200. Where modes disagree, what runs back to back counts.
///   16-byte rows, far beyond L2         v02_unrolled  fastest warm and in graphs; v09_unhinted is 1.4 % faster cold,
///                                                     and 1 to 2 % slower in the other modes
///   anything else                       v07_pdl       fastest in graphs on every smaller problem, by most where the
///                                                     time is latency; single cold events favour v01_float4 by 2 to
///                                                     5 %, and v04_exp2 by 5 % on the odd rows of 1023x4097
///   columns that 32 bits cannot count   v00_naive
const char* picks(const Problem& p) {
  if (p.cols > 0x7fffffff) return "v00_naive";
  const bool vectors = p.cols % 4 == 0 && p.offset % 4 == 0;
  return vectors && p.rows * p.cols >= far_beyond_l2 ? "v02_unrolled" : "v07_pdl";
}

[[maybe_unused]] const Register<Gelu> registered{{
    .note = "the fastest variant by shape",
    .min_cc = 90,
    .picks = picks,
}};

}  // namespace
}  // namespace mage::gelu
#endif
