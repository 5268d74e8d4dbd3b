// SPDX-License-Identifier: Apache-2.0
// best: what an application would call. It names, by shape, the variant that runs; the table is in picks().
#include "mage_bench/device_code.cuh"

#if MAGE_HOST
#include "kernels/gelu_tanh/gelu_tanh.hpp"

namespace mage::gelu_tanh {
namespace {

constexpr int64 most_of_tiles = int64{1} << 32;  // elements: well within what v07_tiles can count

/// By medians on one H200 (experiments/memory-bound), a cold L2 first where it and graphs disagree:
///   16-byte rows                        v07_tiles        first in both modes, but by graph at 1024x4096, where data
///                                                        sits in L2 and v06_plain takes 5.2 us instead of 5.7
///   other rows that 31 bits can count   v08_any_columns  first on 1023x4097
///   others                              v06_plain        whatever the columns are
///   columns that 32 bits cannot count   v00_naive
const char* picks(const Problem& p) {
  if (p.cols > 0x7fffffff) return "v00_naive";
  const bool vectors = p.cols % 4 == 0 && p.offset % 4 == 0;
  if (vectors && p.rows * p.cols <= most_of_tiles) return "v07_tiles";
  return p.cols >= 4 && p.rows * p.cols <= 0x7fffffff ? "v08_any_columns" : "v06_plain";
}

[[maybe_unused]] const Register<GeluTanh> registered{{
    .note = "by alignment and size: v06_plain, v07_tiles or v08_any_columns",
    .min_cc = 90,
    .picks = picks,
}};

}  // namespace
}  // namespace mage::gelu_tanh
#endif
