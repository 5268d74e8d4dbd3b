// SPDX-License-Identifier: Apache-2.0
// best: what an application would call. It names, by shape, the variant that runs; the table is in picks().
#include "mage_bench/device_code.cuh"

#if MAGE_HOST
#include "kernels/gelu/gelu.hpp"

namespace mage::gelu {
namespace {

constexpr int64 most_of_tiles = int64{1} << 32;  // elements: well within what v11_tiles can count

/// By medians on one H200 (experiments/memory-bound), a cold L2 first where it and graphs disagree:
///   16-byte rows                        v11_tiles        first in both modes, but by graph at 1024x4096, where data
///                                                        sits in L2 and v10_plain takes 5.2 us instead of 6.1
///   other rows that 31 bits can count   v12_any_columns  first on 1023x4097
///   others                              v10_plain        whatever the columns are
///   columns that 32 bits cannot count   v00_naive
const char* picks(const Problem& p) {
  if (p.cols > 0x7fffffff) return "v00_naive";
  const bool vectors = p.cols % 4 == 0 && p.offset % 4 == 0;
  if (vectors && p.rows * p.cols <= most_of_tiles) return "v11_tiles";
  return p.cols >= 4 && p.rows * p.cols <= 0x7fffffff ? "v12_any_columns" : "v10_plain";
}

[[maybe_unused]] const Register<Gelu> registered{{
    .note = "by alignment and size: v10_plain, v11_tiles or v12_any_columns",
    .min_cc = 90,
    .picks = picks,
}};

}  // namespace
}  // namespace mage::gelu
#endif
