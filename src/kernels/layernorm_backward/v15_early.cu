// SPDX-License-Identifier: Apache-2.0
// v15_early: v04_prefetch with programmatic dependent launch. Parent v04_prefetch: the fastest at 4096x4096 on an H200
// (55.1 us), and the one of the fast ones whose columns kernel starts only when all of its blocks have ended. Expected:
// 54 us by graph, where calls overlap too, and 54.5 cold.
#include "kernels/layernorm_backward/early_rows.cuh"
#include "mage_bench/device_code.cuh"

namespace mage::layernorm_backward {

__device__ inline float4 v15_load(const float4* address) {
  float4 v;
  asm volatile("ld.global.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(address));
  return v;
}

template <int vectors>
__global__ void __launch_bounds__(early_threads) layernorm_backward_v15_early(RowPass p) {
  early_rows<vectors, v15_load>(p);
}

__global__ void __launch_bounds__(partial_threads, 1)
    layernorm_backward_v15_early_columns(const float* partials, int count, int cols, float* dgamma, float* dbeta) {
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
      {layernorm_backward_v15_early<1>, layernorm_backward_v15_early<2>, layernorm_backward_v15_early_columns}, p, a);
}

[[maybe_unused]] const Register<LayernormBackward> registered{{
    .parent = "v04_prefetch",
    .note = "programmatic dependent launch: the columns kernel and the next call start while the rows end",
    .min_cc = 90,
    .accepts = fits_early_rows,
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::layernorm_backward
#endif
