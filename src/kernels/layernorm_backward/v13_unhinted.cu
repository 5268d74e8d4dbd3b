// SPDX-License-Identifier: Apache-2.0
// v13_unhinted: plain stores of dx. Parent v12_even, which stores with __stcs: such lines leave the L2 first, and may
// be written to memory in smaller pieces. Expected: 2 to 4 % off 8192x8192, to about 200 us, and 1 us off 4096x4096 in
// mode event_cold.
#include "kernels/layernorm_backward/row_groups.cuh"
#include "mage_bench/device_code.cuh"

namespace mage::layernorm_backward {

struct V13Store {
  __device__ void operator()(float4* to, const float4& v) const { *to = v; }
};

template <int warps, int vectors>
__global__ void __launch_bounds__(row_group_threads) layernorm_backward_v13_unhinted(RowPass p, int stages) {
  row_groups<warps, vectors>(p, stages, PlainCopy{}, V13Store{});
}

__global__ void __launch_bounds__(partial_threads, 1)
    layernorm_backward_v13_unhinted_columns(const float* partials, int count, int cols, float* dgamma, float* dbeta) {
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
  return launch_row_groups({layernorm_backward_v13_unhinted<warps, vectors>, layernorm_backward_v13_unhinted_columns},
                           groups, even_blocks(p.rows, groups), p, a);
}

Launch prepare(const Problem& p, const Args& a) {
  if (p.cols <= 256) return launch<1, 2>(p, a);
  if (p.cols <= 512) return launch<2, 2>(p, a);
  if (p.cols <= 1024) return launch<4, 2>(p, a);
  if (p.cols <= 2048) return launch<8, 2>(p, a);
  if (p.cols <= 4096) return launch<16, 2>(p, a);
  return launch<16, 4>(p, a);
}

[[maybe_unused]] const Register<LayernormBackward> registered{{
    .parent = "v12_even",
    .note = "plain stores of dx: a hint may cost more than it keeps",
    .min_cc = 90,
    .accepts =
        [](const Problem& p) { return p.cols % 4 == 0 && p.offset % 4 == 0 && p.cols <= 16 * row_group_threads; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::layernorm_backward
#endif
