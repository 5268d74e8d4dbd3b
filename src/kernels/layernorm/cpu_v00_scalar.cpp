// SPDX-License-Identifier: Apache-2.0
// cpu_v00_scalar: one row after another on each core, three passes, sums in double. The first host version: frozen.
#include <cmath>

#include "kernels/layernorm/layernorm.hpp"

namespace mage::layernorm {
namespace {

Launch prepare(const Problem& p, const Args& a) {
  const int64 rows = p.rows, cols = p.cols;
  return [=](StreamHandle) {
#pragma omp parallel for schedule(static)
    for (int64 r = 0; r < rows; ++r) {
      const float* x = a.x + r * cols;
      double sum = 0;
      for (int64 c = 0; c < cols; ++c) sum += static_cast<double>(x[c]);
      const double mean = sum / static_cast<double>(cols);
      double squares = 0;
      for (int64 c = 0; c < cols; ++c) {
        const double centred = static_cast<double>(x[c]) - mean;
        squares += centred * centred;
      }
      const auto m = static_cast<float>(mean);
      const auto rstd = static_cast<float>(1 / std::sqrt(squares / static_cast<double>(cols) + 1e-5));
      for (int64 c = 0; c < cols; ++c) a.y[r * cols + c] = (x[c] - m) * rstd * a.gamma[c] + a.beta[c];
      a.mean[r] = m;
      a.rstd[r] = rstd;
    }
  };
}

[[maybe_unused]] const Register<Layernorm> registered{{
    .parent = "",
    .note = "OpenMP over rows, three passes, sums in double",
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::layernorm
