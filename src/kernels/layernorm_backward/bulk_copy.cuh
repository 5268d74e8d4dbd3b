// SPDX-License-Identifier: Apache-2.0
// Bulk copies into shared memory, the mbarriers that count their bytes, and the waits of programmatic dependent launch:
// sm_90.
#pragma once

#include "mage_bench/device_code.cuh"

namespace mage::layernorm_backward {

#ifdef __CUDACC__

__device__ inline uint32 shared_address(const void* pointer) {
  return static_cast<uint32>(__cvta_generic_to_shared(pointer));
}

// A build for older devices compiles these too; min_cc keeps them from running there.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

/// By one thread, before a barrier of all that wait on it.
__device__ inline void init_barrier(uint64* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}
/// After the last init_barrier: makes them known to the copy engine.
__device__ inline void fence_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
/// Arrives, and lets the phase end only when so many bytes were copied.
__device__ inline void expect_bytes(uint64* barrier, uint32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}
/// bytes and both addresses are multiples of 16.
__device__ inline void bulk_copy(float* to, const float* from, uint32 bytes, uint64* barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(to)),
               "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(shared_address(barrier))
               : "memory");
}
__device__ inline void wait(uint64* barrier, uint32 parity) {
  uint32 done = 0;
  while (done == 0) {
    asm volatile(
        "{\n"
        ".reg .pred complete;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 complete, [%1], %2;\n"
        "selp.u32 %0, 1, 0, complete;\n"
        "}"
        : "=r"(done)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
  }
}

/// Until the kernel before has ended and what it wrote can be seen.
__device__ inline void wait_for_kernel_before() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
/// The kernel after may start, up to its wait.
__device__ inline void let_kernel_after_start() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

#else

__device__ inline void init_barrier(uint64*, int) {}
__device__ inline void fence_barriers() {}
__device__ inline void expect_bytes(uint64*, uint32) {}
__device__ inline void bulk_copy(float*, const float*, uint32, uint64*) {}
__device__ inline void wait(uint64*, uint32) {}
__device__ inline void wait_for_kernel_before() {}
__device__ inline void let_kernel_after_start() {}

#endif
#endif  // __CUDACC__

}  // namespace mage::layernorm_backward
