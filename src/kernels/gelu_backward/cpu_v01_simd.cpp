// SPDX-License-Identifier: Apache-2.0
// cpu_v01_simd: the exp2 form of exp2_form.hpp, without a branch, so that the compiler vectorises it, and the sums of
// slabs of rows in the same pass; compiled for SSE2, AVX2 + FMA and AVX-512, picked when the program is loaded. Parent
// cpu_v00_scalar: calls of std::erf and std::exp leave the vector units idle, and walking down columns wastes cache
// lines. Worst |err| / bound of dx over every float t, |t| in [2^-40, 40]: 0.31 without FMA, 0.31 with it.
#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "kernels/gelu_backward/exp2_form.hpp"
#include "kernels/gelu_backward/gelu_backward.hpp"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define MAGE_VECTOR_CLONES __attribute__((target_clones("default", "arch=haswell", "arch=skylake-avx512")))
#else
#define MAGE_VECTOR_CLONES
#endif

namespace mage::gelu_backward {
namespace {

constexpr int64 cpu_v01_slabs = 64;  // at most

// Where the exponents of erfc and phi are still above -126.
constexpr float cpu_v01_erfc_end = 12.8f;
constexpr float cpu_v01_phi_end = 13.2f;

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

// Compared as integers: GCC keeps a branch for floats that may be NaN, and then can't vectorise for SSE2.
inline float cpu_v01_below(float magnitude, float end) {
  return std::bit_cast<float>(std::min(std::bit_cast<int>(magnitude), std::bit_cast<int>(end)));
}

MAGE_VECTOR_CLONES void gelu_backward_cpu_v01_simd(const float* x, const float* bias, const float* dy, float* dx,
                                                   float* sums, int64 cols) {
#pragma omp simd
  for (int64 c = 0; c < cols; ++c) {
    const float t = x[c] + bias[c];
    const float a = cpu_v01_below(std::fabs(t), cpu_v01_erfc_end);
    float e = exp2_p5;
    e = e * a + exp2_p4;
    e = e * a + exp2_p3;
    e = e * a + exp2_p2;
    e = e * a + exp2_p1;
    const float erfc = cpu_v01_exp2((e * a + exp2_p0) * a);
    const float b = cpu_v01_below(std::fabs(t), cpu_v01_phi_end);
    const float density = exp2_phi * cpu_v01_exp2(b * b * exp2_square);
    // Odd about (0, 1/2); t - t is 0, but NaN where t is no number or infinite, as in the formula.
    const float half = std::copysign(0.5f - 0.5f * erfc + b * density, t) + (t - t);
    const float d = dy[c] * (0.5f + half);
    dx[c] = d;
    sums[c] += d;
  }
}

Launch prepare(const Problem& p, const Args& a) {
  const int64 rows = p.rows, cols = p.cols, slabs = std::min(rows, cpu_v01_slabs);
  return [=, partials = std::vector<float>(static_cast<std::size_t>(slabs * cols))](StreamHandle) mutable {
#pragma omp parallel for schedule(static)
    for (int64 slab = 0; slab < slabs; ++slab) {
      float* sums = partials.data() + slab * cols;
      std::fill_n(sums, cols, 0.0f);
      for (int64 r = rows * slab / slabs; r < rows * (slab + 1) / slabs; ++r) {
        gelu_backward_cpu_v01_simd(a.x + r * cols, a.bias, a.dy + r * cols, a.dx + r * cols, sums, cols);
      }
    }
    std::copy_n(partials.data(), cols, a.dbias);
    for (int64 slab = 1; slab < slabs; ++slab) {
      for (int64 c = 0; c < cols; ++c) a.dbias[c] += partials[static_cast<std::size_t>(slab * cols + c)];
    }
  };
}

[[maybe_unused]] const Register<GeluBackward> registered{{
    .parent = "cpu_v00_scalar",
    .note = "branch-free exp2 form with the sums in the same pass, vectorised for SSE2, AVX2 and AVX-512",
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::gelu_backward
