// SPDX-License-Identifier: Apache-2.0
// GELU in the exp2 form of exp2_form.hpp, branch-free: what v04_exp2 brought, for it and all behind it.
#pragma once

#include "kernels/gelu/exp2_form.hpp"
#include "mage_bench/device_code.cuh"

namespace mage::gelu {

__device__ inline float exp2_gelu(float t) {
  const float h = 0.5f * t;
  const float a = fminf(fabsf(h), exp2_end);
  float e = exp2_q5;
  e = fmaf(e, a, exp2_q4);
  e = fmaf(e, a, exp2_q3);
  e = fmaf(e, a, exp2_q2);
  e = fmaf(e, a, exp2_q1);
  e = fmaf(e, a, exp2_q0) * a;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(e));
  return fmaf(-a, e, h + fabsf(h));  // h + |h| is 2 max(h, 0), but NaN for -Inf
}

}  // namespace mage::gelu
