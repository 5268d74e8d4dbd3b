// SPDX-License-Identifier: Apache-2.0
// cpu_v01_simd: with e = 2^(-2 log2(e) sqrt(2/pi) (a + 0.044715 a^3)) of a = |t|, y = max(t, 0) - a e / (1 + e): no
// branch, so the compiler vectorises it; compiled for SSE2, AVX2 + FMA and AVX-512, picked when the program is loaded.
// Parent cpu_v00_scalar: a call of std::tanh an element leaves the vector units idle. Worst |err| / bound over every
// float t, |t| in [2^-40, 40]: 0.20 without FMA, 0.20 with it.
#include <bit>
#include <cmath>

#include "kernels/gelu_tanh/gelu_tanh.hpp"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define MAGE_VECTOR_CLONES __attribute__((target_clones("default", "arch=haswell", "arch=skylake-avx512")))
#else
#define MAGE_VECTOR_CLONES
#endif

namespace mage::gelu_tanh {
namespace {

constexpr float cpu_v01_end = 10;  // beyond it nothing is left of the sigmoid's tail; its exponent is above -126 here
constexpr float cpu_v01_c1 = -0x1.26aec2p+1f;  // -2 log2(e) sqrt(2 / pi)
constexpr float cpu_v01_c3 = -0x1.a5a7dp-4f;   // the same times 0.044715

/// 2^x for x in [-126, 0]: the integer part goes into the exponent bits, the rest, in [-1/2, 1/2], into a polynomial
/// by tools/fit_gelu_exp2.py.
inline float cpu_v01_exp2(float x) {
  constexpr float p1 = 0x1.62e42ap-1f;
  constexpr float p2 = 0x1.ebf9bcp-3f;
  constexpr float p3 = 0x1.c6b752p-5f;
  constexpr float p4 = 0x1.3cea88p-7f;
  constexpr float p5 = 0x1.5bba14p-10f;
  constexpr float shift = 0x1.8p23f;  // adding it leaves round(x) in the low bits
  const float shifted = x + shift;
  const float f = x - (shifted - shift);
  const float p = ((((p5 * f + p4) * f + p3) * f + p2) * f + p1) * f + 1.0f;
  return std::bit_cast<float>(std::bit_cast<uint32>(p) + (std::bit_cast<uint32>(shifted) << 23));
}

MAGE_VECTOR_CLONES void gelu_tanh_cpu_v01_simd(const float* x, const float* bias, float* y, int64 cols) {
#pragma omp simd
  for (int64 c = 0; c < cols; ++c) {
    const float t = x[c] + bias[c];
    // Compared as integers: GCC keeps a branch for floats that may be NaN, and then can't vectorise for SSE2.
    const auto bits = std::bit_cast<int>(std::fabs(t));
    constexpr int end = std::bit_cast<int>(cpu_v01_end);
    const auto a = std::bit_cast<float>(bits < end ? bits : end);
    const float e = cpu_v01_exp2(a * (cpu_v01_c3 * (a * a) + cpu_v01_c1));
    y[c] = (0.5f * t + 0.5f * std::fabs(t)) - a * e / (1.0f + e);  // t/2 + |t|/2 is max(t, 0), but NaN for -Inf
  }
}

Launch prepare(const Problem& p, const Args& a) {
  const int64 rows = p.rows, cols = p.cols;
  return [=](StreamHandle) {
#pragma omp parallel for schedule(static)
    for (int64 r = 0; r < rows; ++r) gelu_tanh_cpu_v01_simd(a.x + r * cols, a.bias, a.y + r * cols, cols);
  };
}

[[maybe_unused]] const Register<GeluTanh> registered{{
    .parent = "cpu_v00_scalar",
    .note = "branch-free sigmoid form, vectorised for SSE2, AVX2 and AVX-512",
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::gelu_tanh
