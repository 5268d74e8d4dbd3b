// SPDX-License-Identifier: Apache-2.0
// best: what an application would call. It names, by shape, the variant that runs; the table is in picks().
#include "mage_bench/device_code.cuh"

#if MAGE_HOST
#include "kernels/gelu_tanh/gelu_tanh.hpp"

namespace mage::gelu_tanh {
namespace {

constexpr int64 far_beyond_l2 = int64{1} << 26;  // elements: x and y are 512 MiB

/// A guess from bias + GELU, whose structure this family shares:
///   16-byte rows, far beyond L2         v02_sigmoid   copy speed, no launch to hide
///   anything else                       v04_pdl       one wave where small, any column count, calls overlap
///   columns that 32 bits cannot count   v00_naive
const char* picks(const Problem& p) {
  if (p.cols > 0x7fffffff) return "v00_naive";
  const bool vectors = p.cols % 4 == 0 && p.offset % 4 == 0;
  return vectors && p.rows * p.cols >= far_beyond_l2 ? "v02_sigmoid" : "v04_pdl";
}

[[maybe_unused]] const Register<GeluTanh> registered{{
    .note = "the fastest variant by shape",
    .min_cc = 90,
    .picks = picks,
}};

}  // namespace
}  // namespace mage::gelu_tanh
#endif
