// SPDX-License-Identifier: Apache-2.0
// Constants of the exp2 form of GELU's derivative, for host and device. With a = min(|t|, exp2_end),
// erfc(|t| / sqrt 2) = 2^(a (p0 + a (p1 + a (p2 + a (p3 + a (p4 + a p5)))))): tools/fit_gelu_exp2.py made the
// polynomial for h = t / 2, and a power of two takes it to t exactly. phi(t) = exp2_phi 2^(exp2_square t^2).
#pragma once

namespace mage::gelu_backward {

inline constexpr float exp2_p0 = -0x1.26afcp+0f;
inline constexpr float exp2_p1 = -0x1.d6142ep-2f;
inline constexpr float exp2_p2 = -0x1.b20ad6p-5f;
inline constexpr float exp2_p3 = 0x1.fe435cp-8f;
inline constexpr float exp2_p4 = -0x1.62be1p-11f;
inline constexpr float exp2_p5 = 0x1.797b38p-16f;
inline constexpr float exp2_end = 13.5f;
inline constexpr float exp2_phi = 0.39894228f;      // 1 / sqrt(2 pi)
inline constexpr float exp2_square = -0.72134752f;  // -log2(e) / 2

}  // namespace mage::gelu_backward
