// SPDX-License-Identifier: Apache-2.0
// cpu_v00_scalar: one row after another on each core, std::erf in float. The first host version: frozen.
#include <cmath>

#include "kernels/gelu/gelu.hpp"

namespace mage::gelu {
namespace {

Launch prepare(const Problem& p, const Args& a) {
  const int64 rows = p.rows, cols = p.cols;
  return [=](StreamHandle) {
#pragma omp parallel for schedule(static)
    for (int64 r = 0; r < rows; ++r) {
      for (int64 c = 0; c < cols; ++c) {
        const float t = a.x[r * cols + c] + a.bias[c];
        a.y[r * cols + c] = 0.5f * t * (1.0f + std::erf(t * 0.70710678f));
      }
    }
  };
}

[[maybe_unused]] const Register<Gelu> registered{{
    .parent = "",
    .note = "OpenMP over rows, scalar std::erf",
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::gelu
