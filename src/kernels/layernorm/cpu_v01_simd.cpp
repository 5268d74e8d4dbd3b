// SPDX-License-Identifier: Apache-2.0
// cpu_v01_simd: the three passes vectorised, for SSE2, AVX2 + FMA and AVX-512, picked when the program is loaded.
// Parent cpu_v00_scalar: its sums are chains of one addition after another; here several partial sums run side by side.
#include <cmath>

#include "kernels/layernorm/layernorm.hpp"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define MAGE_VECTOR_CLONES __attribute__((target_clones("default", "arch=haswell", "arch=skylake-avx512")))
#else
#define MAGE_VECTOR_CLONES
#endif

namespace mage::layernorm {
namespace {

MAGE_VECTOR_CLONES void layernorm_cpu_v01_simd(const Args& a, int64 row, int64 cols) {
  const float* x = a.x + row * cols;
  float* y = a.y + row * cols;
  double sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
  for (int64 c = 0; c < cols; ++c) sum += static_cast<double>(x[c]);
  const double mean = sum / static_cast<double>(cols);
#pragma omp simd reduction(+ : squares)
  for (int64 c = 0; c < cols; ++c) {
    const double centred = static_cast<double>(x[c]) - mean;
    squares += centred * centred;
  }
  const auto m = static_cast<float>(mean);
  const auto rstd = static_cast<float>(1 / std::sqrt(squares / static_cast<double>(cols) + 1e-5));
#pragma omp simd
  for (int64 c = 0; c < cols; ++c) y[c] = (x[c] - m) * rstd * a.gamma[c] + a.beta[c];
  a.mean[row] = m;
  a.rstd[row] = rstd;
}

Launch prepare(const Problem& p, const Args& a) {
  const int64 rows = p.rows, cols = p.cols;
  return [=](StreamHandle) {
#pragma omp parallel for schedule(static)
    for (int64 r = 0; r < rows; ++r) layernorm_cpu_v01_simd(a, r, cols);
  };
}

[[maybe_unused]] const Register<Layernorm> registered{{
    .parent = "cpu_v00_scalar",
    .note = "three passes vectorised for SSE2, AVX2 and AVX-512, partial sums side by side",
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::layernorm
