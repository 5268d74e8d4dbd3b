// SPDX-License-Identifier: Apache-2.0
// v14_evict_first: the copies of x and dy carry the L2 hint evict_first. Parent v13_unhinted: lines that are read once
// push out lines of dx that wait to be written; where those stay longer, more of them reach memory together. Expected:
// 1 % off 4096x4096 and 8192x8192 at best, more in mode event_cold, where the last lines of dx may stay in the L2.
#include "kernels/layernorm_backward/row_groups.cuh"
#include "mage_bench/device_code.cuh"

namespace mage::layernorm_backward {

struct V14Copy {
  __device__ void operator()(float* to, const float* from, uint32 bytes, uint64* barrier) const {
#if __CUDA_ARCH__ >= 900  // a build for older devices compiles this file too; min_cc keeps it from running there
    asm volatile(
        "{\n"
        ".reg .b64 policy;\n"
        "createpolicy.fractional.L2::evict_first.b64 policy, 1.0;\n"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], "
        "policy;\n"
        "}" ::"r"(shared_address(to)),
        "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(shared_address(barrier))
        : "memory");
#endif
  }
};

struct V14Store {
  __device__ void operator()(float4* to, const float4& v) const { *to = v; }
};

template <int warps, int vectors>
__global__ void __launch_bounds__(row_group_threads) layernorm_backward_v14_evict_first(RowPass p, int stages) {
  row_groups<warps, vectors>(p, stages, V14Copy{}, V14Store{});
}

__global__ void __launch_bounds__(partial_threads, 1)
    layernorm_backward_v14_evict_first_columns(const float* partials, int count, int cols, float* dgamma,
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
      {layernorm_backward_v14_evict_first<warps, vectors>, layernorm_backward_v14_evict_first_columns}, groups,
      even_blocks(p.rows, groups), p, a);
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
    .parent = "v13_unhinted",
    .note = "what is copied in leaves the L2 first, so that dx may wait there to be written",
    .min_cc = 90,
    .accepts =
        [](const Problem& p) { return p.cols % 4 == 0 && p.offset % 4 == 0 && p.cols <= 16 * row_group_threads; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::layernorm_backward
#endif
