// SPDX-License-Identifier: Apache-2.0
#include "kernels/layernorm/layernorm.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "mage_bench/operand.hpp"
#include "mage_bench/parallel.hpp"
#include "mage_bench/problem_text.hpp"
#include "mage_bench/registry.hpp"
#include "reference/summation.hpp"

namespace mage::layernorm {
namespace {

constexpr double subnormal_quantum = 2 * half_subnormal_quantum;
constexpr double epsilon = 1e-5;

/// Trees merge the threads of a row.
constexpr int64 depth(int64 cols) { return row_depth(cols, 8); }

struct Row {
  double mean = 0, rstd = 0;
  Terms x;
};

Row statistics(const float* x, int64 cols) {
  const auto count = static_cast<double>(cols);
  Terms terms;
  double squares = 0;
  for (int64 c = 0; c < cols; ++c) terms.add(static_cast<double>(x[c]));
  const double mean = terms.sum / count;
  for (int64 c = 0; c < cols; ++c) {
    const double centred = static_cast<double>(x[c]) - mean;
    squares += centred * centred;
  }
  return {.mean = mean, .rstd = 1 / std::sqrt(squares / count + epsilon), .x = terms};
}

/// Calls body(row) for all rows, in parallel.
template <class Body>
void for_rows(int64 rows, int64 cols, const Body& body) {
  parallel_blocks(rows, std::max<int64>(1, (1 << 14) / cols), [&](int64 begin, int64 end) {
    for (int64 row = begin; row < end; ++row) body(row);
  });
}

/// What FP32 may err in the mean: in the sum, and in the two roundings of a product with 1 / cols.
double mean_error(const Row& row, int64 cols, double swing) {
  const auto count = static_cast<double>(cols);
  return sum_error(row.x, count, static_cast<double>(depth(cols)), swing) / count +
         2 * unit_roundoff * std::fabs(row.mean) + subnormal_quantum;
}

/// Additions whose roundings may all have one sign in the sum of the squares. Behind a spike of M, squares about the
/// mean M / cols do, by up to half a digit each in rows of some thousand columns; in longer ones they are lost in
/// whole, which is less, and squares that are not all alike are each rounded their own way.
double square_depth(int64 cols) {
  constexpr int64 longest = 32768;
  return static_cast<double>(depth(std::min(cols, longest)));
}

/// NaN and infinity must be met exactly: |got - inf| <= inf would pass anything.
float finite_bound(double value, double bound) { return std::isfinite(value) ? static_cast<float>(bound) : 0.0F; }

Launch prepare(const Problem& problem, const Args& args) {
  return [rows = problem.rows, cols = problem.cols, args](StreamHandle) {
    for_rows(rows, cols, [&](int64 row) {
      const float* x = args.x + row * cols;
      float* y = args.y + row * cols;
      const Row s = statistics(x, cols);
      args.mean[row] = static_cast<float>(s.mean);
      args.rstd[row] = static_cast<float>(s.rstd);
      for (int64 c = 0; c < cols; ++c) {
        const double normalised = (static_cast<double>(x[c]) - s.mean) * s.rstd;
        y[c] = static_cast<float>(normalised * static_cast<double>(args.gamma[c]) + static_cast<double>(args.beta[c]));
      }
    });
  };
}

const RegisterFamily<Layernorm> family;
const Register<Layernorm> registered{
    {.note = "the oracle's own arithmetic: two centred passes in FP64 on the host, rounded once", .prepare = prepare}};

}  // namespace

ProblemList<Problem> Layernorm::bench_problems() {
  return {{.rows = 64, .cols = 1024},    {.rows = 4096, .cols = 1024}, {.rows = 8192, .cols = 768},
          {.rows = 65536, .cols = 256},  {.rows = 4096, .cols = 4096}, {.rows = 8192, .cols = 8192},
          {.rows = 4096, .cols = 16384}, {.rows = 16, .cols = 12288},  // few rows
          {.rows = 1023, .cols = 1000},  {.rows = 33, .cols = 4097}};
}

ProblemList<Problem> Layernorm::test_problems() {
  auto problems = matrix_test_problems();
  // Around the columns that a group of lanes, a warp, a block or a cluster holds, and rows that no block divides.
  for (const auto& [rows, cols] : std::initializer_list<std::pair<int64, int64>>{
           {131, 8},    {67, 64},    {67, 68},   {65, 132},   {300, 256},  {61, 260},    {19, 512},
           {18, 516},   {33, 768},   {21, 772},  {700, 1000}, {9, 1028},   {1100, 1028}, {600, 2052},
           {300, 4100}, {7, 8192},   {5, 8196},  {3, 12288},  {300, 8200}, {2, 16384},   {150, 16388},
           {3, 32769},  {1, 131072}, {2, 40004}, {1, 270001}})
    problems.push_back({.rows = rows, .cols = cols});
  // More rows than persistent blocks hold at once.
  problems.push_back({.rows = 5000, .cols = 260});
  problems.push_back({.rows = 2000, .cols = 516});
  // Long rows off the boundary, and the cancellations that the bound is about where a block or a cluster has a row.
  for (const int64 offset : {1, 2, 3}) problems.push_back({.rows = 3, .cols = 12289, .offset = offset});
  for (const auto distribution : {Distribution::shifted, Distribution::constant, Distribution::spike})
    for (const int64 cols : {4096, 12288}) problems.push_back({.rows = 5, .cols = cols, .distribution = distribution});
  // large: more than 2^31 elements, in rows so short that every variant takes them
  problems.push_back({.rows = 2105384, .cols = 1020});
  return problems;
}

Text Layernorm::print(const Problem& problem) { return print_matrix(problem); }
bool Layernorm::parse(const char* text, Problem& problem) { return parse_matrix(text, problem); }

Operands Layernorm::operands(const Problem& p) {
  return {
      {.name = "x", .rows = p.rows, .cols = p.cols, .distribution = p.distribution, .seed = p.seed, .offset = p.offset},
      {.name = "gamma", .rows = 1, .cols = p.cols, .seed = p.seed},
      {.name = "beta", .rows = 1, .cols = p.cols, .seed = p.seed},
      {.name = "y", .role = Role::out, .rows = p.rows, .cols = p.cols, .offset = p.offset},
      {.name = "mean", .role = Role::out, .rows = p.rows},
      {.name = "rstd", .role = Role::out, .rows = p.rows}};
}

Args Layernorm::bind(const Problem&, const Pointers& pointers) {
  return {.x = pointers.at<const float>(0),
          .gamma = pointers.at<const float>(1),
          .beta = pointers.at<const float>(2),
          .y = pointers.at<float>(3),
          .mean = pointers.at<float>(4),
          .rstd = pointers.at<float>(5)};
}

void Layernorm::reference(const Problem& problem, const Pointers& host, Expected& expected) {
  const auto* x = host.at<const float>(0);
  const auto* gamma = host.at<const float>(1);
  const auto* beta = host.at<const float>(2);
  const int64 rows = problem.rows, cols = problem.cols;
  expected.resize(3);
  for (std::size_t i = 0; i < 3; ++i) {
    const auto count = static_cast<std::size_t>(i == 0 ? rows * cols : rows);
    expected[i].value.resize(count);
    expected[i].bound.resize(count);
  }
  constexpr double u = unit_roundoff;
  const double q = square_depth(cols);
  std::vector<double> typical(static_cast<std::size_t>(rows));
  for_rows(rows, cols, [&](int64 row) {
    const float* in = x + row * cols;
    const Row s = statistics(in, cols);
    const double of_mean = mean_error(s, cols, swing_of_one);
    const double shift = of_mean * s.rstd;
    const double of_rstd = ((q / 2 + 8) * u + shift * shift / 2) * s.rstd;
    const auto r = static_cast<std::size_t>(row);
    typical[r] = mean_error(s, cols, swing_of_many);
    expected[1].value[r] = s.mean;
    expected[1].bound[r] = finite_bound(s.mean, of_mean);
    expected[2].value[r] = s.rstd;
    expected[2].bound[r] = finite_bound(s.rstd, of_rstd);
    double* value = expected[0].value.data() + row * cols;
    float* bounds = expected[0].bound.data() + row * cols;
    for (int64 c = 0; c < cols; ++c) {
      const double normalised = (static_cast<double>(in[c]) - s.mean) * s.rstd;
      const auto g = static_cast<double>(gamma[c]), b = static_cast<double>(beta[c]);
      const double y = normalised * g + b;
      const double error = std::fabs(g) * (shift + (q / 2 + 18) * u * std::fabs(normalised)) + 2 * u * std::fabs(b);
      value[c] = y;
      bounds[c] = finite_bound(y, error + subnormal_quantum);
    }
  });
  expected[1].norm_bound = norm_bound(typical);
}

Text Layernorm::tolerance(const Problem& problem) {
  return "With u = 2^-24, p = " + std::to_string(depth(problem.cols)) +
         ", the additions on an element's longest way into its row's sum: min(cols / 32, max(128, cols / 256)) + 8, a "
         "warp a row up to 4096 columns and 256 threads beyond, and the sums over a row of |x| and x^2. mean: m = "
         "min(gamma_p sum|x|, gamma_p drift + 8u sqrt(cols sum x^2)) / cols + 2u|mean| + 2^-149, drift = max(0, |sum "
         "x| - 2 sqrt(sum x^2)): an addition errs by u times its partial sum; what the elements have in common makes "
         "those grow, and where they wander about zero, as in random order, so do their roundings, whatever p. So one "
         "column that is "
         "missing shows in rows of 270001, where (p+2) u mean|x| would let it pass. Then the two roundings of a "
         "product with 1 / cols, and a quantum of FP32's subnormals. The 2-norm of all means' errors: 1 + 3 / "
         "sqrt(rows) times that of these bounds with 1 for 8, as many wander less than one may. rstd: rstd ((q/2 + 8) "
         "u + (m rstd)^2 / 2), q = min(p, 136): half the relative error of a sum of squares, whose roundings have any "
         "sign in rows longer than 32768, about a mean that is m off, and an rsqrt of 2 ulp. y: |gamma| (m rstd + (q/2 "
         "+ 18) u |xhat|) + 2u|beta| + 2^-149, xhat = (x - mean) rstd: the mean's error, those of rstd and of four "
         "roundings. E[x^2] - mean^2 exceeds this as soon as |mean| is a few hundred standard deviations. Sums of "
         "magnitudes and of squares must stay in FP32's range; a row that holds NaN or infinity has a y and an rstd of "
         "NaN, and a mean that is NaN or infinite like its sum.";
}

Work Layernorm::work(const Problem& problem) {
  const auto rows = static_cast<double>(problem.rows), cols = static_cast<double>(problem.cols);
  // An element: one addition for the mean, three operations for the variance, three for y. A row: a root, a division.
  return {.flops = 7 * rows * cols + 2 * rows,
          .bytes_read = 4 * rows * cols + 8 * cols,
          .bytes_written = 4 * rows * cols + 8 * rows};
}

}  // namespace mage::layernorm
