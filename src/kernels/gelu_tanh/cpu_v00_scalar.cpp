// SPDX-License-Identifier: Apache-2.0
// cpu_v00_scalar: one row after another on each core, std::tanh in float. The first host version: frozen.
#include <cmath>

#include "kernels/gelu_tanh/gelu_tanh.hpp"

namespace mage::gelu_tanh {
namespace {

Launch prepare(const Problem& p, const Args& a) {
  const int64 rows = p.rows, cols = p.cols;
  return [=](StreamHandle) {
#pragma omp parallel for schedule(static)
    for (int64 r = 0; r < rows; ++r) {
      for (int64 c = 0; c < cols; ++c) {
        const float t = a.x[r * cols + c] + a.bias[c];
        a.y[r * cols + c] = 0.5f * t * (1.0f + std::tanh(0.79788456f * (t + 0.044715f * t * t * t)));
      }
    }
  };
}

[[maybe_unused]] const Register<GeluTanh> registered{{
    .parent = "",
    .note = "OpenMP over rows, scalar std::tanh",
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::gelu_tanh
