// SPDX-License-Identifier: Apache-2.0
// best: what an application would call. It names, by shape, the variant that runs; the table is in picks().
#include "mage_bench/device_code.cuh"

#if MAGE_HOST
#include "kernels/gelu_backward/gelu_backward.hpp"

namespace mage::gelu_backward {
namespace {

/// By medians on one H200 (experiments/memory-bound/ladders.json), in both modes:
///   16-byte rows, up to 128 of them    v15_cluster   one slab: first at 64x1024, by 5 to 10 % by graph
///   16-byte rows, beyond 2^23 elements v17_short     first at 4096x4096, with v16_flagless at 2048x11008
///   others                             v16_flagless  first at 1024x4096 and 1023x4097
///   columns that 32 bits cannot count  v00_naive
const char* picks(const Problem& p) {
  constexpr int64 rows_of_one_slab = 128, few_elements = int64{1} << 23;
  if (p.cols > 0x7fffffff) return "v00_naive";
  const bool vectors = p.cols % 4 == 0 && p.offset % 4 == 0;
  if (vectors && p.rows <= rows_of_one_slab) return "v15_cluster";
  return vectors && p.rows * p.cols > few_elements ? "v17_short" : "v16_flagless";
}

[[maybe_unused]] const Register<GeluBackward> registered{{
    .note = "by size: v15_cluster, v16_flagless or v17_short",
    .min_cc = 90,
    .picks = picks,
}};

}  // namespace
}  // namespace mage::gelu_backward
#endif
