// SPDX-License-Identifier: Apache-2.0
// cpu_v00_rows: one row after another on each core for dx, then chunks of 256 rows for the columns' sums, then the
// chunks in order, so that the number of threads changes no bit. The first host version: frozen.
#include <vector>

#include "kernels/layernorm_backward/layernorm_backward.hpp"

namespace mage::layernorm_backward {
namespace {

constexpr int64 chunk_rows = 256;

Launch prepare(const Problem& p, const Args& a) {
  const int64 rows = p.rows, cols = p.cols, chunks = (rows + chunk_rows - 1) / chunk_rows;
  std::vector<float> partials(static_cast<std::size_t>(2 * chunks * cols));
  return [=, partials = std::move(partials)](StreamHandle) mutable {
    const auto count = static_cast<float>(cols);
#pragma omp parallel for schedule(static)
    for (int64 r = 0; r < rows; ++r) {
      const float *x = a.x + r * cols, *dy = a.dy + r * cols;
      // 32 sums side by side: as many additions in a row as a warp needs, not as many as there are columns.
      float w_sums[32]{}, w_xhat_sums[32]{}, c1 = 0, c2 = 0;
      for (int64 c = 0; c < cols; ++c) {
        const float w = a.gamma[c] * dy[c];
        w_sums[c % 32] += w;
        w_xhat_sums[c % 32] += w * ((x[c] - a.mean[r]) * a.rstd[r]);
      }
      for (int k = 0; k < 32; ++k) {
        c1 += w_sums[k] / count;
        c2 += w_xhat_sums[k] / count;
      }
      for (int64 c = 0; c < cols; ++c) {
        const float xhat = (x[c] - a.mean[r]) * a.rstd[r];
        a.dx[r * cols + c] = a.rstd[r] * (a.gamma[c] * dy[c] - c1 - xhat * c2);
      }
    }
#pragma omp parallel for schedule(static)
    for (int64 chunk = 0; chunk < chunks; ++chunk) {
      float *dgamma = partials.data() + 2 * chunk * cols, *dbeta = dgamma + cols;
      for (int64 c = 0; c < cols; ++c) dgamma[c] = dbeta[c] = 0;
      for (int64 r = chunk * chunk_rows; r < rows && r < (chunk + 1) * chunk_rows; ++r)
        for (int64 c = 0; c < cols; ++c) {
          const float g = a.dy[r * cols + c];
          dgamma[c] += g * ((a.x[r * cols + c] - a.mean[r]) * a.rstd[r]);
          dbeta[c] += g;
        }
    }
#pragma omp parallel for schedule(static)
    for (int64 c = 0; c < cols; ++c) {
      float dgamma = 0, dbeta = 0;
      for (int64 chunk = 0; chunk < chunks; ++chunk) {
        dgamma += partials[static_cast<std::size_t>(2 * chunk * cols + c)];
        dbeta += partials[static_cast<std::size_t>((2 * chunk + 1) * cols + c)];
      }
      a.dgamma[c] = dgamma;
      a.dbeta[c] = dbeta;
    }
  };
}

[[maybe_unused]] const Register<LayernormBackward> registered{{
    .parent = "",
    .note = "OpenMP over rows for dx, over chunks of 256 rows for the columns",
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::layernorm_backward
