// SPDX-License-Identifier: Apache-2.0
// best: what an application would call. It names, by shape, the variant that runs; the table is in picks().
#include "mage_bench/device_code.cuh"

#if MAGE_HOST
#include "kernels/gelu/gelu.hpp"

namespace mage::gelu {
namespace {

constexpr int64 far_beyond_l2 = int64{1} << 26;  // elements: x and y are 512 MiB
constexpr int64 most_of_tiles = int64{1} << 32;  // elements: well within what v11_tiles can count

/// By medians on one H200 (experiments/memory-bound/ladders.json), a cold L2 first where it and graphs disagree:
///   16-byte rows                        v11_tiles  first in both modes, but by graph at 1024x4096, where data sits in
///                                                  L2 and v07_pdl and v10_plain take 5.2 us instead of 6.1
///   other rows, far beyond L2           v10_plain  not measured there; of 16-byte rows 2 % faster cold than v07_pdl
///   other rows                          v07_pdl    first in graphs on 1023x4097 (6.2 us); single cold events favour
///                                                  v04_exp2 by 5 %
///   columns that 32 bits cannot count   v00_naive
const char* picks(const Problem& p) {
  if (p.cols > 0x7fffffff) return "v00_naive";
  const bool vectors = p.cols % 4 == 0 && p.offset % 4 == 0;
  if (vectors && p.rows * p.cols <= most_of_tiles) return "v11_tiles";
  return p.rows * p.cols >= far_beyond_l2 ? "v10_plain" : "v07_pdl";
}

[[maybe_unused]] const Register<Gelu> registered{{
    .note = "by alignment and size: v07_pdl, v10_plain or v11_tiles",
    .min_cc = 90,
    .picks = picks,
}};

}  // namespace
}  // namespace mage::gelu
#endif
