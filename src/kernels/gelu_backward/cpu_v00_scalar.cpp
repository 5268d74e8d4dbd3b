// SPDX-License-Identifier: Apache-2.0
// cpu_v00_scalar: dx one row after another on each core, std::erf and std::exp in float; then each column's sum, one
// column after another. The first host version: frozen.
#include <cmath>

#include "kernels/gelu_backward/gelu_backward.hpp"

namespace mage::gelu_backward {
namespace {

Launch prepare(const Problem& p, const Args& a) {
  const int64 rows = p.rows, cols = p.cols;
  return [=](StreamHandle) {
#pragma omp parallel for schedule(static)
    for (int64 r = 0; r < rows; ++r) {
      for (int64 c = 0; c < cols; ++c) {
        const float t = a.x[r * cols + c] + a.bias[c];
        const float cdf = 0.5f * (1.0f + std::erf(t * 0.70710678f));
        const float pdf = 0.39894228f * std::exp(-0.5f * t * t);
        a.dx[r * cols + c] = a.dy[r * cols + c] * (cdf + t * pdf);
      }
    }
#pragma omp parallel for schedule(static)
    for (int64 c = 0; c < cols; ++c) {
      float sum = 0;
      for (int64 r = 0; r < rows; ++r) sum += a.dx[r * cols + c];
      a.dbias[c] = sum;
    }
  };
}

[[maybe_unused]] const Register<GeluBackward> registered{{
    .parent = "",
    .note = "OpenMP over rows, scalar std::erf and std::exp; then OpenMP over columns",
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::gelu_backward
