// SPDX-License-Identifier: Apache-2.0
// best: the variant that is expected to be fastest for a shape.
#include "mage_bench/device_code.cuh"

#if MAGE_HOST
#include "kernels/layernorm/layernorm.hpp"

namespace mage::layernorm {
namespace {

// rows x cols         variant          why
// any     > 131069    v00_naive        longer than a cluster holds, or more rows than a grid has blocks
// <= 264  any         v10_pdl          few rows: a cluster a row, and launches that overlap
// few elements        v10_pdl          a few microseconds, of which the launch is a large part
// any     not mod 4   v10_pdl          rows cut where memory is aligned
// any     <= 1024     v05_rows         several rows at once
// any     <= 16384    v07_bulk         gamma and beta in registers, the next rows on their way
// any     <= 131069   v10_pdl          clusters
const char* pick(const Problem& p) {
  constexpr int64 most_blocks = 0x7fffffff / 8;
  if (p.cols > 131069 || p.rows > most_blocks) return "v00_naive";
  if (p.rows <= 2 * 132 || p.rows * p.cols <= (int64{1} << 21)) return "v10_pdl";
  if (p.cols % 4 != 0 || p.offset % 4 != 0) return "v10_pdl";
  if (p.cols <= 1024) return "v05_rows";
  return p.cols <= 16384 ? "v07_bulk" : "v10_pdl";
}

[[maybe_unused]] const Register<Layernorm> registered{{
    .note = "by rows, columns and alignment: v05_rows, v07_bulk or v10_pdl",
    .min_cc = 90,
    .picks = pick,
}};

}  // namespace
}  // namespace mage::layernorm
#endif
