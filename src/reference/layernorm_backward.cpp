// SPDX-License-Identifier: Apache-2.0
#include "kernels/layernorm_backward/layernorm_backward.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "mage_bench/operand.hpp"
#include "mage_bench/parallel.hpp"
#include "mage_bench/problem_text.hpp"
#include "mage_bench/registry.hpp"
#include "reference/summation.hpp"

namespace mage::layernorm_backward {
namespace {

/// The sums of up to 32 lanes may be added one after another.
double depth(int64 cols) { return static_cast<double>(row_depth(cols, 32)); }

/// Doubles become floats only here: NaN and infinity must be met exactly.
float bound_of(double value, double bound) { return std::isfinite(value) ? static_cast<float>(bound) : 0.0F; }

/// To FP32, with the same NaN on every machine: it becomes an input.
float rounded(double value) {
  return std::isnan(value) ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(value);
}

/// What a row adds to its columns.
struct ColumnSums {
  Terms dgamma, dbeta;
};

/// Calls row(r, sums) for all rows, in parallel, and leaves in totals[c] what they added to sums[c]. The order of the
/// additions is fixed: it depends on the shape alone.
template <class Row>
void for_rows(int64 rows, int64 cols, std::vector<ColumnSums>& totals, const Row& row) {
  constexpr int64 most_chunks = 64;
  const int64 chunk = ceil_div(rows, most_chunks);
  const int64 chunks = ceil_div(rows, chunk);
  std::vector<std::vector<ColumnSums>> sums(static_cast<std::size_t>(chunks));
  parallel_blocks(chunks, 1, [&](int64 begin, int64 end) {
    for (int64 k = begin; k < end; ++k) {
      auto& own = sums[static_cast<std::size_t>(k)];
      own.resize(static_cast<std::size_t>(cols));
      for (int64 r = k * chunk; r < std::min(rows, (k + 1) * chunk); ++r) row(r, own.data());
    }
  });
  totals.assign(static_cast<std::size_t>(cols), {});
  parallel_blocks(cols, 256, [&](int64 begin, int64 end) {
    for (const auto& part : sums)
      for (auto c = static_cast<std::size_t>(begin); c < static_cast<std::size_t>(end); ++c) {
        totals[c].dgamma.add(part[c].dgamma);
        totals[c].dbeta.add(part[c].dbeta);
      }
  });
}

/// Calls emit(c, dx, error) for the elements of row r, with what FP32 may err in dx.
template <class Emit>
void backward_row(const Args& a, int64 cols, int64 r, ColumnSums* sums, const Emit& emit) {
  const float *x = a.x + r * cols, *dy = a.dy + r * cols;
  const double mean = a.mean[r], rstd = a.rstd[r];
  Terms ws, ws_xhat;
  for (int64 c = 0; c < cols; ++c) {
    const double g = dy[c], xhat = (x[c] - mean) * rstd, w = a.gamma[c] * g;
    ws.add(w);
    ws_xhat.add(w * xhat);
    sums[c].dgamma.add(g * xhat);
    sums[c].dbeta.add(g);
  }
  const auto count = static_cast<double>(cols);
  const double c1 = ws.sum / count, c2 = ws_xhat.sum / count;
  // A term of c1 is rounded once, one of c2 four times.
  const double c1_error = (sum_error(ws, count, depth(cols)) + unit_roundoff * ws.magnitudes) / count;
  const double c2_error = (sum_error(ws_xhat, count, depth(cols)) + 4 * unit_roundoff * ws_xhat.magnitudes) / count;
  for (int64 c = 0; c < cols; ++c) {
    const double xhat = (x[c] - mean) * rstd, w = static_cast<double>(a.gamma[c]) * static_cast<double>(dy[c]);
    const double parts = std::fabs(w) + std::fabs(c1) + std::fabs(xhat * c2);
    emit(c, rstd * (w - c1 - xhat * c2), rstd * (c1_error + std::fabs(xhat) * c2_error + 8 * unit_roundoff * parts));
  }
}

Launch prepare(const Problem& problem, const Args& args) {
  return [rows = problem.rows, cols = problem.cols, args](StreamHandle) {
    std::vector<ColumnSums> totals;
    for_rows(rows, cols, totals, [&](int64 r, ColumnSums* sums) {
      backward_row(args, cols, r, sums,
                   [&](int64 c, double dx, double) { args.dx[r * cols + c] = static_cast<float>(dx); });
    });
    for (std::size_t c = 0; c < totals.size(); ++c) {
      args.dgamma[c] = static_cast<float>(totals[c].dgamma.sum);
      args.dbeta[c] = static_cast<float>(totals[c].dbeta.sum);
    }
  };
}

const RegisterFamily<LayernormBackward> family;
const Register<LayernormBackward> registered{
    {.note = "the oracle's own arithmetic: FP64 on the host, rounded once", .prepare = prepare}};

}  // namespace

ProblemList<Problem> LayernormBackward::bench_problems() {
  return {{.rows = 64, .cols = 1024},    {.rows = 4096, .cols = 1024}, {.rows = 8192, .cols = 768},
          {.rows = 65536, .cols = 256},  {.rows = 4096, .cols = 4096}, {.rows = 8192, .cols = 8192},
          {.rows = 4096, .cols = 16384}, {.rows = 16, .cols = 12288},  {.rows = 1023, .cols = 1000},
          {.rows = 33, .cols = 4097}};
}

ProblemList<Problem> LayernormBackward::test_problems() {
  auto problems = matrix_test_problems();
  // Rows on both sides of what a thread, a warp, a group of warps, a block and a cluster hold, more rows than the
  // stages and blocks of a pipeline, and columns that leave a block or a cluster's last member nearly empty.
  for (const auto& [rows, cols] : std::initializer_list<std::pair<int64, int64>>{
           {1100, 64},  {2300, 256}, {2200, 260}, {1023, 512}, {9, 516},    {541, 1000}, {400, 1028}, {140, 2052},
           {401, 2048}, {9, 3076},   {300, 4096}, {150, 4100}, {420, 5124}, {407, 8192}, {3, 8196},   {135, 12288},
           {70, 16384}, {5, 16389},  {3, 32772},  {2, 65536},  {2, 65540},  {3, 100003}})
    problems.push_back({.rows = rows, .cols = cols});
  for (const int64 offset : {1, 2, 3}) {
    problems.push_back({.rows = 150, .cols = 1030, .offset = offset});
    problems.push_back({.rows = 5, .cols = 9001, .offset = offset});
  }
  // The tallest: where a missing row is hardest to see.
  problems.push_back({.rows = 65536, .cols = 3});
  problems.push_back({.rows = 300, .cols = 4097, .distribution = Distribution::shifted});
  problems.push_back({.rows = 20, .cols = 12000, .distribution = Distribution::shifted});
  // large: more than 2^31 elements; the columns are a multiple of 4, so that vector paths take it too.
  problems.push_back({.rows = 524296, .cols = 4100});
  return problems;
}

Text LayernormBackward::print(const Problem& problem) { return print_matrix(problem); }
bool LayernormBackward::parse(const char* text, Problem& problem) { return parse_matrix(text, problem); }

Operands LayernormBackward::operands(const Problem& p) {
  return {
      {.name = "x", .rows = p.rows, .cols = p.cols, .distribution = p.distribution, .seed = p.seed, .offset = p.offset},
      {.name = "dy", .rows = p.rows, .cols = p.cols, .seed = p.seed, .offset = p.offset},
      {.name = "mean", .rows = p.rows, .cols = 1, .seed = p.seed},
      {.name = "rstd", .rows = p.rows, .cols = 1, .seed = p.seed},
      {.name = "gamma", .rows = 1, .cols = p.cols, .seed = p.seed},
      {.name = "dx", .role = Role::out, .rows = p.rows, .cols = p.cols, .offset = p.offset},
      {.name = "dgamma", .role = Role::out, .rows = 1, .cols = p.cols},
      {.name = "dbeta", .role = Role::out, .rows = 1, .cols = p.cols}};
}

Args LayernormBackward::bind(const Problem&, const Pointers& pointers) {
  return {.x = pointers.at<const float>(0),
          .dy = pointers.at<const float>(1),
          .mean = pointers.at<const float>(2),
          .rstd = pointers.at<const float>(3),
          .gamma = pointers.at<const float>(4),
          .dx = pointers.at<float>(5),
          .dgamma = pointers.at<float>(6),
          .dbeta = pointers.at<float>(7)};
}

// The centred biased variance, eps = 1e-5.
void LayernormBackward::derive(const Problem& p, const Pointers& host) {
  const auto* x = host.at<const float>(0);
  auto* means = host.at<float>(2);
  auto* rstds = host.at<float>(3);
  const auto count = static_cast<double>(p.cols);
  parallel_blocks(p.rows, 1, [&](int64 begin, int64 end) {
    for (int64 r = begin; r < end; ++r) {
      const float* row = x + r * p.cols;
      double sum = 0, squares = 0;
      for (int64 c = 0; c < p.cols; ++c) sum += static_cast<double>(row[c]);
      const double mean = sum / count;
      for (int64 c = 0; c < p.cols; ++c) squares += (row[c] - mean) * (row[c] - mean);
      means[r] = rounded(mean);
      rstds[r] = rounded(1 / std::sqrt(squares / count + 1e-5));
    }
  });
}

void LayernormBackward::reference(const Problem& p, const Pointers& host, Expected& expected) {
  const Args a{.x = host.at<const float>(0),
               .dy = host.at<const float>(1),
               .mean = host.at<const float>(2),
               .rstd = host.at<const float>(3),
               .gamma = host.at<const float>(4),
               .dx = nullptr,
               .dgamma = nullptr,
               .dbeta = nullptr};
  expected.resize(3);
  const auto count = static_cast<std::size_t>(p.rows * p.cols), cols = static_cast<std::size_t>(p.cols);
  auto &dx = expected[0], &dgamma = expected[1], &dbeta = expected[2];
  dx.value.resize(count);
  dx.bound.resize(count);
  for (auto* sum : {&dgamma, &dbeta}) {
    sum->value.resize(cols);
    sum->bound.resize(cols);
  }
  std::vector<ColumnSums> totals;
  for_rows(p.rows, p.cols, totals, [&](int64 r, ColumnSums* sums) {
    backward_row(a, p.cols, r, sums, [&](int64 c, double value, double error) {
      const auto i = static_cast<std::size_t>(r * p.cols + c);
      dx.value[i] = value;
      dx.bound[i] = bound_of(value, error + half_subnormal_quantum);
    });
  });
  const auto rows = static_cast<double>(p.rows), deep = static_cast<double>(column_depth(p.rows));
  std::vector<double> dgamma_typical(cols), dbeta_typical(cols);
  for (std::size_t c = 0; c < cols; ++c) {
    const auto& total = totals[c];
    // A term of dgamma is rounded three times.
    const double of_terms = gamma_n(3) * total.dgamma.magnitudes;
    const double of_subnormals = half_subnormal_quantum * (rows + total.dbeta.magnitudes);
    dgamma.value[c] = total.dgamma.sum;
    dgamma.bound[c] = bound_of(total.dgamma.sum, sum_error(total.dgamma, rows, deep) + of_terms + of_subnormals);
    dgamma_typical[c] = sum_error(total.dgamma, rows, deep, swing_of_many) + of_subnormals +
                        std::min(of_terms, swing_of_many * gamma_n(3) * std::sqrt(total.dgamma.squares));
    dbeta.value[c] = total.dbeta.sum;
    dbeta.bound[c] = bound_of(total.dbeta.sum, sum_error(total.dbeta, rows, deep));
    dbeta_typical[c] = sum_error(total.dbeta, rows, deep, swing_of_many);
  }
  dgamma.norm_bound = norm_bound(dgamma_typical);
  dbeta.norm_bound = norm_bound(dbeta_typical);
}

Text LayernormBackward::tolerance(const Problem&) {
  return "With u = 2^-24, an addition errs by u times the partial sum it gives: a sum of n terms t by s = min(gamma_d "
         "sum|t|, gamma_d drift + 8u sqrt(n sum t^2)), drift = max(0, |sum t| - 2 sqrt(sum t^2)), for what terms have "
         "in common makes partial sums grow, and where they wander about zero, as in random order, so do their "
         "roundings, whatever the "
         "depth d. A bound of d max|t| would let a missing column or row pass where there are many. dx: rstd (s1 + "
         "|xhat| s2 + 8u (|w| + |c1| + |xhat c2|)) + 2^-150, w = gamma dy: s1 and s2 are s and 1 and 4 roundings a "
         "term of w and w xhat, over cols, with d = min(cols / 32, max(128, cols / 256)) + 32: a warp a row up to 4096 "
         "columns and 256 threads beyond, and 32 lanes. dgamma: s + gamma_3 sum|dy xhat|, the roundings of x - mean, "
         "xhat and the product; dbeta: s; both with d = 512 + rows / 256: up to 256 lanes and 256 slabs of rows. d is "
         "less than the number of terms. The 2-norm of all errors of dgamma and of dbeta: 1 + 3 / sqrt(cols) times "
         "that of these bounds with 1 for 8, and sqrt(sum (dy xhat)^2) for the magnitudes that gamma_3 is of: many "
         "wander less than one may. mean and rstd are inputs, so that they have no error. 2^-150, half a quantum of "
         "subnormals, is what xhat and each product may lose there. NaN and infinity must be met exactly.";
}

Work LayernormBackward::work(const Problem& p) {
  const auto rows = static_cast<double>(p.rows), cols = static_cast<double>(p.cols);
  // An element: 2 for xhat, 1 for w, 1 + 2 for the sums of its row, 2 + 1 for those of its column, 4 for dx.
  return {.flops = 13 * rows * cols,
          .bytes_read = 4 * (2 * rows * cols + 2 * rows + cols),
          .bytes_written = 4 * (rows * cols + 2 * cols)};
}

}  // namespace mage::layernorm_backward
