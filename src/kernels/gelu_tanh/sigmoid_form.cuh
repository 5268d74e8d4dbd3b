// SPDX-License-Identifier: Apache-2.0
// GELU's tanh form as a sigmoid: what v02_sigmoid brought, for it and all behind it.
#pragma once

#include "mage_bench/device_code.cuh"

namespace mage::gelu_tanh {

// t / (1 + 2^e), e = -2 log2(e) sqrt(2 / pi) (t + 0.044715 t^3): (1 + tanh z) / 2 is 1 / (1 + exp(-2 z)).
__device__ inline float sigmoid_gelu(float t) {
  float e = t * fmaf(t * t, -0x1.a5a7dp-4f, -0x1.26aec2p+1f);
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(e));
  float r = 1.0f + e;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(r));
  return t * r;
}

}  // namespace mage::gelu_tanh
