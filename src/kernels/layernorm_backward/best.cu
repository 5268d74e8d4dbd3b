// SPDX-License-Identifier: Apache-2.0
// best: what an application would call. It names, by shape, the variant that runs, by medians in modes graph and
// event_cold on an H200 (experiments/memory-bound).
#include "mage_bench/device_code.cuh"

#if MAGE_HOST
#include "kernels/layernorm_backward/layernorm_backward.hpp"

namespace mage::layernorm_backward {
namespace {

// rows x cols                           variant          why
// any     > 0x7fff0000                  v00_naive        v09_few_rows counts columns in 32 bits
// any     > 65536                       v09_few_rows     one kernel without partial sums, rows of any length
// <= 128  up to 2^20 elements           v09_few_rows     the same
// any     > 8192                        v10_cluster      a row in a cluster's registers
// any     misaligned, or not mod 4      v08_any          rows cut where memory is aligned
// <= 2048 <= 2048                       v07_groups       several rows at once in a block
// any     <= 2048                       v11_half_groups  the same with half the warps a row
// any     <= 4096                       v16_cached       a row in flight in registers
// any     <= 8192                       v06_pdl          rows in flight in shared memory
const char* picks(const Problem& p) {
  if (p.cols > 0x7fff0000) return "v00_naive";  // v09_few_rows counts columns in 32 bits
  if (p.cols > 65536 || (p.rows <= 128 && p.rows * p.cols <= 1 << 20)) return "v09_few_rows";
  if (p.cols > 8192) return "v10_cluster";
  if (p.cols % 4 != 0 || p.offset % 4 != 0) return "v08_any";
  if (p.cols <= 2048) return p.rows <= 2048 ? "v07_groups" : "v11_half_groups";
  return p.cols <= 4096 ? "v16_cached" : "v06_pdl";
}

[[maybe_unused]] const Register<LayernormBackward> registered{{
    .note = "by rows, columns and alignment: v06_pdl to v11_half_groups, or v16_cached",
    .min_cc = 90,
    .picks = picks,
}};

}  // namespace
}  // namespace mage::layernorm_backward
#endif
