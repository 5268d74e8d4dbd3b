// SPDX-License-Identifier: Apache-2.0
// best: what an application would call. It names, by shape, the variant that runs, by medians in modes graph and
// event_cold on an H200 (experiments/memory-bound).
#include "mage_bench/device_code.cuh"

#if MAGE_HOST
#include "kernels/layernorm/layernorm.hpp"

namespace mage::layernorm {
namespace {

// rows x cols                     variant              why
// any     > 131069                v00_naive            longer than a cluster holds, or more rows than a grid has blocks
// <= 132  >= 2048                 v09_cluster          few rows: a cluster a row; no dependent launch, which costs it
// <= 264  <= 8192                 v10_pdl              few rows: a thread a vector
// <= 264  other                   v09_cluster          the same, and a cluster a row
// any     2048 to 8192, unaligned v10_pdl              rows cut where memory is aligned
// any     other unaligned         v09_cluster          the same; many short blocks start slowly by dependent launch
// any     <= 512                  v14_pdl_rows         several rows at once
// any     <= 1024                 v13_pdl_persistent   gamma and beta in registers, few blocks to start
// any     <= 16384                v11_pdl_block        a block a row
// any     <= 131069               v09_cluster          clusters
const char* pick(const Problem& p) {
  constexpr int64 most_blocks = 0x7fffffff / 8;
  if (p.cols > 131069 || p.rows > most_blocks) return "v00_naive";
  const bool aligned = p.cols % 4 == 0 && p.offset % 4 == 0;
  const bool few = p.rows <= 2 * 132;
  if (p.rows <= 132 && p.cols >= 2048) return "v09_cluster";
  if (p.cols <= 8192 && (few || (!aligned && p.cols >= 2048))) return "v10_pdl";
  if (few || !aligned) return "v09_cluster";
  if (p.cols <= 512) return "v14_pdl_rows";
  if (p.cols <= 1024) return "v13_pdl_persistent";
  return p.cols <= 16384 ? "v11_pdl_block" : "v09_cluster";
}

[[maybe_unused]] const Register<Layernorm> registered{{
    .note = "by rows, columns and alignment: v09_cluster to v14_pdl_rows",
    .min_cc = 90,
    .picks = pick,
}};

}  // namespace
}  // namespace mage::layernorm
#endif
