// SPDX-License-Identifier: Apache-2.0
// best: what an application would call. It names, by shape, the variant that runs; the table is in picks().
#include "mage_bench/device_code.cuh"

#if MAGE_HOST
#include "kernels/gelu_tanh/gelu_tanh.hpp"

namespace mage::gelu_tanh {
namespace {

constexpr int64 far_beyond_l2 = int64{1} << 26;  // elements: x and y are 512 MiB
constexpr int64 most_of_tiles = int64{1} << 32;  // elements: well within what v07_tiles can count

/// One H200. "expected" is a prediction that waits for its measurement:
///   16-byte rows                        v07_tiles  expected: plain accesses, as hints cost 2 % far beyond a cold L2;
///                                                  4 KB a block, as in the fastest copy; and calls that overlap
///   other rows, far beyond L2           v06_plain  expected: v04_pdl without what its hints cost there
///   other rows                          v04_pdl    fastest on 1023x4097, in graphs and in single cold events
///   columns that 32 bits cannot count   v00_naive
const char* picks(const Problem& p) {
  if (p.cols > 0x7fffffff) return "v00_naive";
  const bool vectors = p.cols % 4 == 0 && p.offset % 4 == 0;
  if (vectors && p.rows * p.cols <= most_of_tiles) return "v07_tiles";
  return p.rows * p.cols >= far_beyond_l2 ? "v06_plain" : "v04_pdl";
}

[[maybe_unused]] const Register<GeluTanh> registered{{
    .note = "the fastest variant by shape",
    .min_cc = 90,
    .picks = picks,
}};

}  // namespace
}  // namespace mage::gelu_tanh
#endif
