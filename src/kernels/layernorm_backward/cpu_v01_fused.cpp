// SPDX-License-Identifier: Apache-2.0
// cpu_v01_fused: a thread takes chunks of 256 rows and adds to their columns' sums while it computes dx; 32 sums side
// by side, so that the compiler vectorises. Parent cpu_v00_rows: x and dy come from memory once instead of twice.
#include <vector>

#include "kernels/layernorm_backward/layernorm_backward.hpp"

namespace mage::layernorm_backward {
namespace {

constexpr int64 chunk_rows = 256;
constexpr int lanes = 32;

/// One row: dx, and what it adds to the columns' sums.
void fused_row(const Args& a, int64 cols, int64 r, float* dgamma, float* dbeta) {
  const float *x = a.x + r * cols, *dy = a.dy + r * cols;
  const float mean = a.mean[r], rstd = a.rstd[r], count = static_cast<float>(cols);
  float w_sums[lanes]{}, w_xhat_sums[lanes]{}, c1 = 0, c2 = 0;
  const auto add = [&](int64 c, int lane) {
    const float g = dy[c], xhat = (x[c] - mean) * rstd, w = a.gamma[c] * g;
    w_sums[lane] += w;
    w_xhat_sums[lane] += w * xhat;
    dgamma[c] += g * xhat;
    dbeta[c] += g;
  };
  int64 c = 0;
  for (; c + lanes <= cols; c += lanes) {
#pragma omp simd
    for (int lane = 0; lane < lanes; ++lane) add(c + lane, lane);
  }
  for (; c < cols; ++c) add(c, static_cast<int>(c % lanes));
  for (int lane = 0; lane < lanes; ++lane) {
    c1 += w_sums[lane] / count;
    c2 += w_xhat_sums[lane] / count;
  }
  float* dx = a.dx + r * cols;
#pragma omp simd
  for (int64 i = 0; i < cols; ++i) dx[i] = rstd * (a.gamma[i] * dy[i] - c1 - (x[i] - mean) * rstd * c2);
}

Launch prepare(const Problem& p, const Args& a) {
  const int64 rows = p.rows, cols = p.cols, chunks = ceil_div(rows, chunk_rows);
  std::vector<float> partials(static_cast<std::size_t>(2 * chunks * cols));
  return [=, partials = std::move(partials)](StreamHandle) mutable {
#pragma omp parallel for schedule(static)
    for (int64 chunk = 0; chunk < chunks; ++chunk) {
      float *dgamma = partials.data() + 2 * chunk * cols, *dbeta = dgamma + cols;
      for (int64 c = 0; c < cols; ++c) dgamma[c] = dbeta[c] = 0;
      for (int64 r = chunk * chunk_rows; r < rows && r < (chunk + 1) * chunk_rows; ++r)
        fused_row(a, cols, r, dgamma, dbeta);
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
    .parent = "cpu_v00_rows",
    .note = "dx and the columns' sums in one pass over chunks of 256 rows, vectorised",
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::layernorm_backward
