// SPDX-License-Identifier: Apache-2.0
// Constants of the exp2 form of GELU, for host and device: with h = t / 2 and a = min(|h|, exp2_end),
// erfc(|t| / sqrt 2) = 2^(a (q0 + a (q1 + a (q2 + a (q3 + a (q4 + a q5)))))), and y = (h + |h|) - a erfc(|t| / sqrt 2).
// tools/fit_gelu_exp2.py made them, and proves them for every float.
#pragma once

namespace mage::gelu {

inline constexpr float exp2_q0 = -0x1.26afcp+1f;
inline constexpr float exp2_q1 = -0x1.d6142ep+0f;
inline constexpr float exp2_q2 = -0x1.b20ad6p-2f;
inline constexpr float exp2_q3 = 0x1.fe435cp-4f;
inline constexpr float exp2_q4 = -0x1.62be1p-6f;
inline constexpr float exp2_q5 = 0x1.797b38p-10f;
inline constexpr float exp2_end = 6.75f;

}  // namespace mage::gelu
