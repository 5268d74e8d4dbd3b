// SPDX-License-Identifier: Apache-2.0
// best: the variant for a problem by its shape, from medians in modes graph and event_cold on an H200:
//   up to 128 rows and 2^20 elements, or more than 65536 columns: v09_few_rows, one kernel without partials
//   up to 65536 columns, more than 8192: v10_cluster, a row in a cluster's registers
//   rows that start at multiples of 16 bytes: v11_half_groups up to 2048 columns, several rows at once in a block, or
//     v07_groups where rows are few; v15_early up to 4096, a row in flight in registers; v06_pdl up to 8192, rows in
//     flight in shared memory
//   all others: v08_any
#include "kernels/layernorm_backward/layernorm_backward.hpp"

namespace mage::layernorm_backward {
namespace {

const char* picks(const Problem& p) {
  if (p.cols > 0x7fff0000) return "v00_naive";  // v09_few_rows counts columns in 32 bits
  if (p.cols > 65536 || (p.rows <= 128 && p.rows * p.cols <= 1 << 20)) return "v09_few_rows";
  if (p.cols > 8192) return "v10_cluster";
  if (p.cols % 4 != 0 || p.offset % 4 != 0) return "v08_any";
  if (p.cols <= 2048) return p.rows <= 2048 ? "v07_groups" : "v11_half_groups";
  return p.cols <= 4096 ? "v15_early" : "v06_pdl";
}

[[maybe_unused]] const Register<LayernormBackward> registered{{
    .parent = "",
    .note =
        "few or very wide rows: v09_few_rows; wide: v10_cluster; misaligned: v08_any; others by columns: v07, v11, v15, v06",
    .min_cc = 90,
    .picks = picks,
}};

}  // namespace
}  // namespace mage::layernorm_backward
