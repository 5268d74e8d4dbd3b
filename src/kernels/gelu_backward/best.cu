// SPDX-License-Identifier: Apache-2.0
// best: what an application would call. It names, by shape, the variant that runs; the table is in picks().
#include "mage_bench/device_code.cuh"

#if MAGE_HOST
#include "kernels/gelu_backward/gelu_backward.hpp"

namespace mage::gelu_backward {
namespace {

constexpr int64 one_wave = int64{1} << 22;  // elements: the largest at which clusters were ahead

/// By medians on one H200 (experiments/memory-bound/ladders.json), in both modes:
///   16-byte rows, up to 2^22 elements   v15_cluster  ahead of v14_narrow by 2 to 5 % at 64x1024 and 1024x4096
///   others                              v14_narrow   first from 2048x11008 on, and at 1023x4097
///   columns that 32 bits cannot count   v00_naive
const char* picks(const Problem& p) {
  if (p.cols > 0x7fffffff) return "v00_naive";
  const bool vectors = p.cols % 4 == 0 && p.offset % 4 == 0;
  return vectors && p.rows * p.cols <= one_wave ? "v15_cluster" : "v14_narrow";
}

[[maybe_unused]] const Register<GeluBackward> registered{{
    .note = "by size: v15_cluster or v14_narrow",
    .min_cc = 90,
    .picks = picks,
}};

}  // namespace
}  // namespace mage::gelu_backward
#endif
