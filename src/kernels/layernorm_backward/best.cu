// SPDX-License-Identifier: Apache-2.0
// best: the variant for a problem by its shape, as predicted until measured:
//   up to 128 rows and 2^20 elements, or more than 65536 columns: v09_few_rows, one kernel without partials
//   up to 8192 columns: v08_any, a row in one block's registers; up to 65536: v10_cluster, in a cluster's
#include "kernels/layernorm_backward/layernorm_backward.hpp"

namespace mage::layernorm_backward {
namespace {

const char* picks(const Problem& p) {
  if (p.cols > 0x7fff0000) return "v00_naive";  // v09_few_rows counts columns in 32 bits
  if (p.cols > 65536 || (p.rows <= 128 && p.rows * p.cols <= 1 << 20)) return "v09_few_rows";
  return p.cols > 8192 ? "v10_cluster" : "v08_any";
}

[[maybe_unused]] const Register<LayernormBackward> registered{{
    .parent = "",
    .note = "few rows or very wide ones: v09_few_rows; up to 8192 columns: v08_any; up to 65536: v10_cluster",
    .min_cc = 90,
    .picks = picks,
}};

}  // namespace
}  // namespace mage::layernorm_backward
