// SPDX-License-Identifier: Apache-2.0
// v11_half_groups: half as many warps a row and 4 float4s a thread instead of 2. Parent v07_groups: at 4096 columns all
// 16 warps wait behind one barrier a row; two groups of 8 overlap each other's reductions and stores. Their 128
// registers leave no room on an SM for a block of the next kernel before its own ends. Expected: 4096x4096 from 56.3
// to about 55.5 us; nothing new above 4096 and up to 256 columns.
#include "kernels/layernorm_backward/row_groups.cuh"
#include "mage_bench/device_code.cuh"

namespace mage::layernorm_backward {

template <int warps, int vectors>
__global__ void __launch_bounds__(row_group_threads) layernorm_backward_v11_half_groups(RowPass p, int stages) {
  row_groups<warps, vectors>(p, stages, PlainCopy{}, StreamingStore{});
}

__global__ void __launch_bounds__(partial_threads, 1)
    layernorm_backward_v11_half_groups_columns(const float* partials, int count, int cols, float* dgamma,
                                               float* dbeta) {
  let_kernel_after_start();
  wait_for_kernel_before();
  add_partials(partials, count, cols, dgamma, dbeta);
}

}  // namespace mage::layernorm_backward

#if MAGE_HOST
#include "kernels/layernorm_backward/layernorm_backward.hpp"

namespace mage::layernorm_backward {
namespace {

template <int warps, int vectors>
Launch launch(const Problem& p, const Args& a) {
  constexpr int64 groups = row_group_threads / (32 * warps);
  return launch_row_groups(
      {layernorm_backward_v11_half_groups<warps, vectors>, layernorm_backward_v11_half_groups_columns}, groups,
      p.rows < sms ? p.rows : sms, p, a);
}

Launch prepare(const Problem& p, const Args& a) {
  if (p.cols <= 256) return launch<1, 2>(p, a);
  if (p.cols <= 512) return launch<1, 4>(p, a);
  if (p.cols <= 1024) return launch<2, 4>(p, a);
  if (p.cols <= 2048) return launch<4, 4>(p, a);
  if (p.cols <= 4096) return launch<8, 4>(p, a);
  return launch<16, 4>(p, a);
}

[[maybe_unused]] const Register<LayernormBackward> registered{{
    .parent = "v07_groups",
    .note = "half as many warps a row, 4 float4s a thread: two rows at once at 4096 columns",
    .min_cc = 90,
    .accepts =
        [](const Problem& p) { return p.cols % 4 == 0 && p.offset % 4 == 0 && p.cols <= 16 * row_group_threads; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::layernorm_backward
#endif
