// SPDX-License-Identifier: Apache-2.0
// v16_cached: plain loads of x and dy. Parent v15_early, whose loads pass L1 by L1::no_allocate: those cost 4 to 7 % of
// a stream in layernorm (v18_streamed against v11_pdl_block), and 2 to 3 in gelu (v07_pdl against v10_plain, which also
// changes the stores), far beyond L2, too. Expected at 4096x4096: 53.2 us by graph and cold, where v15_early
// takes 55.0.
#include "kernels/layernorm_backward/early_rows.cuh"
#include "mage_bench/device_code.cuh"

namespace mage::layernorm_backward {

__device__ inline float4 v16_load(const float4* address) {
  float4 v;
  asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(address));
  return v;
}

template <int vectors>
__global__ void __launch_bounds__(early_threads) layernorm_backward_v16_cached(RowPass p) {
  early_rows<vectors, v16_load>(p);
}

__global__ void __launch_bounds__(partial_threads, 1)
    layernorm_backward_v16_cached_columns(const float* partials, int count, int cols, float* dgamma, float* dbeta) {
  let_kernel_after_start();
  wait_for_kernel_before();
  add_partials(partials, count, cols, dgamma, dbeta);
}

}  // namespace mage::layernorm_backward

#if MAGE_HOST
namespace mage::layernorm_backward {
namespace {

Launch prepare(const Problem& p, const Args& a) {
  return launch_early_rows(
      {layernorm_backward_v16_cached<1>, layernorm_backward_v16_cached<2>, layernorm_backward_v16_cached_columns}, p,
      a);
}

[[maybe_unused]] const Register<LayernormBackward> registered{{
    .parent = "v15_early",
    .note = "plain loads of x and dy, where v15_early's pass L1",
    .min_cc = 90,
    .accepts = fits_early_rows,
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::layernorm_backward
#endif
