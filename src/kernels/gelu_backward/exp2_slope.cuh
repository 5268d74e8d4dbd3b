// SPDX-License-Identifier: Apache-2.0
// GELU's derivative in the exp2 form of exp2_form.hpp, branch-free: what v04_exp2 brought, for it and all behind it.
#pragma once

#include "kernels/gelu_backward/exp2_form.hpp"
#include "mage_bench/device_code.cuh"

namespace mage::gelu_backward {

__device__ inline float exp2_slope(float t) {
  const float a = fminf(fabsf(t), exp2_end);
  float e = exp2_p5;
  e = fmaf(e, a, exp2_p4);
  e = fmaf(e, a, exp2_p3);
  e = fmaf(e, a, exp2_p2);
  e = fmaf(e, a, exp2_p1);
  e = fmaf(e, a, exp2_p0) * a;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(e));
  float g = t * t * exp2_square;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(g) : "f"(g));
  const float cdf = 0.5f + copysignf(fmaf(-0.5f, e, 0.5f), t);
  return fmaf(t * exp2_phi, g, cdf);  // Inf * 0 = NaN for both infinities, as in the formula
}

__device__ inline float exp2_dx(float x, float bias, float dy) { return dy * exp2_slope(x + bias); }
__device__ inline float4 exp2_dx(const float4& x, const float4& bias, const float4& dy) {
  return make_float4(exp2_dx(x.x, bias.x, dy.x), exp2_dx(x.y, bias.y, dy.y), exp2_dx(x.z, bias.z, dy.z),
                     exp2_dx(x.w, bias.w, dy.w));
}

}  // namespace mage::gelu_backward
