// SPDX-License-Identifier: Apache-2.0
#include "kernels/gelu_backward/gelu_backward.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "mage_bench/operand.hpp"
#include "mage_bench/parallel.hpp"
#include "mage_bench/problem_text.hpp"
#include "mage_bench/registry.hpp"
#include "reference/summation.hpp"

namespace mage::gelu_backward {
namespace {

/// x + bias as the formula sees it: a sum that FP32 cannot hold is infinite there, so it is here.
double pre_activation(float x, float bias) {
  const double t = static_cast<double>(x) + static_cast<double>(bias);
  constexpr double overflow = 0x1.ffffffp127;  // from here on, FP32 rounds to infinity
  return std::fabs(t) >= overflow ? std::copysign(std::numeric_limits<double>::infinity(), t) : t;
}

/// Phi(t) + t phi(t). Both infinities give NaN, by inf * 0 in the second term, as the closed FP32 form does.
double slope(double t) {
  constexpr double sqrt_half = 0.70710678118654752440;
  constexpr double phi_of_zero = 0.39894228040143267794;
  return 0.5 * std::erfc(-t * sqrt_half) + t * (phi_of_zero * std::exp(-0.5 * t * t));
}

/// What FP32 may err in dx.
double dx_error(double t, double dy) {
  constexpr double saturated = 16;  // beyond, the slope is 0 or 1 to far below u, however large t is
  return std::fabs(dy) * 12 * unit_roundoff * (1 + std::fmin(std::fabs(t), saturated)) + half_subnormal_quantum;
}

/// Of dbias: what it adds, and what each of that may err.
struct Column {
  Terms dx, errors;

  void add(const Column& other) {
    dx.add(other.dx);
    errors.add(other.errors);
  }
  /// The errors of dx may all have one sign, if a function's approximation leans to one side.
  [[nodiscard]] double bound(int64 rows) const { return errors.sum + of_sum(rows, swing_of_one); }
  /// Of the 2-norm: over many columns, those errors have the signs of dy.
  [[nodiscard]] double typical(int64 rows) const {
    return std::min(errors.sum, swing_of_many * std::sqrt(errors.squares)) + of_sum(rows, swing_of_many);
  }

 private:
  [[nodiscard]] double of_sum(int64 rows, double swing) const {
    Terms terms = dx;
    terms.magnitudes += errors.sum;
    return sum_error(terms, static_cast<double>(rows), static_cast<double>(column_depth(rows)), swing);
  }
};

/// Calls store(element, t, dx) for all elements in parallel; returns the columns' sums, always added in one order.
template <class Store>
std::vector<Column> backward(const Problem& p, const float* x, const float* bias, const float* dy, const Store& store) {
  constexpr int64 slabs_at_most = 256;
  const int64 rows_per_slab = std::max<int64>(32, ceil_div(p.rows, slabs_at_most));
  const int64 slabs = ceil_div(p.rows, rows_per_slab);
  std::vector<Column> partials(static_cast<std::size_t>(slabs * p.cols));
  parallel_blocks(slabs, 1, [&](int64 begin, int64 end) {
    for (int64 slab = begin; slab < end; ++slab) {
      auto* sums = partials.data() + slab * p.cols;
      for (int64 row = slab * rows_per_slab; row < std::min(p.rows, (slab + 1) * rows_per_slab); ++row) {
        for (int64 c = 0; c < p.cols; ++c) {
          const int64 i = row * p.cols + c;
          const double t = pre_activation(x[i], bias[c]);
          const double g = static_cast<double>(dy[i]);
          const double dx = g * slope(t), error = dx_error(t, g);
          sums[c].dx.add(dx);
          sums[c].errors.add(error);
          store(i, dx, error);
        }
      }
    }
  });
  std::vector<Column> columns(static_cast<std::size_t>(p.cols));
  parallel_blocks(p.cols, 256, [&](int64 begin, int64 end) {
    for (int64 slab = 0; slab < slabs; ++slab) {
      for (int64 c = begin; c < end; ++c) {
        columns[static_cast<std::size_t>(c)].add(partials[static_cast<std::size_t>(slab * p.cols + c)]);
      }
    }
  });
  return columns;
}

/// NaN and infinity must be met exactly: |got - inf| <= inf would pass anything.
float bound(double value, double error) { return std::isfinite(value) ? static_cast<float>(error) : 0; }

Launch prepare(const Problem& problem, const Args& args) {
  return [problem, args](StreamHandle) {
    const auto columns = backward(problem, args.x, args.bias, args.dy,
                                  [&](int64 i, double dx, double) { args.dx[i] = static_cast<float>(dx); });
    for (std::size_t c = 0; c < columns.size(); ++c) args.dbias[c] = static_cast<float>(columns[c].dx.sum);
  };
}

const RegisterFamily<GeluBackward> family;
const Register<GeluBackward> registered{
    {.note = "the oracle's own arithmetic: FP64 erfc, exp and sums on the host, rounded once", .prepare = prepare}};

}  // namespace

ProblemList<Problem> GeluBackward::bench_problems() {
  return {{.rows = 64, .cols = 1024},    {.rows = 1024, .cols = 4096},  {.rows = 4096, .cols = 4096},
          {.rows = 8192, .cols = 16384}, {.rows = 2048, .cols = 11008},  // the MLP of a 7B model
          {.rows = 1023, .cols = 4097}};
}

ProblemList<Problem> GeluBackward::test_problems() {
  auto problems = matrix_test_problems();
  // More slabs of rows than the lanes of a block take at once, and a last one that is not full.
  problems.push_back({.rows = 1100, .cols = 1024});
  problems.push_back({.rows = 1031, .cols = 1030});
  // Just too many rows for one slab, and threads without a column.
  problems.push_back({.rows = 129, .cols = 1028});
  // More clusters of slabs a strip than a block's lanes take at once.
  problems.push_back({.rows = 5000, .cols = 100});
  problems.push_back({.rows = 5000, .cols = 101});
  // The tallest: where a missing row is hardest to see.
  problems.push_back({.rows = 65536, .cols = 3});
  // large: more than 2^31 elements, of columns that the 16-byte variants take too
  problems.push_back({.rows = 524296, .cols = 4100});
  return problems;
}

Text GeluBackward::print(const Problem& problem) { return print_matrix(problem); }
bool GeluBackward::parse(const char* text, Problem& problem) { return parse_matrix(text, problem); }

Operands GeluBackward::operands(const Problem& p) {
  return {
      {.name = "x", .rows = p.rows, .cols = p.cols, .distribution = p.distribution, .seed = p.seed, .offset = p.offset},
      {.name = "bias", .rows = 1, .cols = p.cols, .seed = p.seed},
      {.name = "dy", .rows = p.rows, .cols = p.cols, .seed = p.seed, .offset = p.offset},
      {.name = "dx", .role = Role::out, .rows = p.rows, .cols = p.cols, .offset = p.offset},
      {.name = "dbias", .role = Role::out, .rows = 1, .cols = p.cols}};
}

Args GeluBackward::bind(const Problem&, const Pointers& pointers) {
  return {.x = pointers.at<const float>(0),
          .bias = pointers.at<const float>(1),
          .dy = pointers.at<const float>(2),
          .dx = pointers.at<float>(3),
          .dbias = pointers.at<float>(4)};
}

void GeluBackward::reference(const Problem& problem, const Pointers& host, Expected& expected) {
  expected.resize(2);
  auto& dx_value = expected[0].value;
  auto& dx_bound = expected[0].bound;
  const auto count = static_cast<std::size_t>(problem.rows * problem.cols);
  dx_value.resize(count);
  dx_bound.resize(count);
  const auto columns = backward(problem, host.at<const float>(0), host.at<const float>(1), host.at<const float>(2),
                                [&](int64 i, double dx, double error) {
                                  dx_value[static_cast<std::size_t>(i)] = dx;
                                  dx_bound[static_cast<std::size_t>(i)] = bound(dx, error);
                                });
  expected[1].value.resize(columns.size());
  expected[1].bound.resize(columns.size());
  std::vector<double> typical(columns.size());
  for (std::size_t c = 0; c < columns.size(); ++c) {
    expected[1].value[c] = columns[c].dx.sum;
    expected[1].bound[c] = bound(columns[c].dx.sum, columns[c].bound(problem.rows));
    typical[c] = columns[c].typical(problem.rows);
  }
  expected[1].norm_bound = norm_bound(typical);
}

Text GeluBackward::tolerance(const Problem&) {
  return "u = 2^-24, t = x + bias. dx: 12u|dy|(1 + min(|t|, 16)) + 2^-150: the roundings of t, of Phi and of t phi, "
         "with an erf and an exp of 2 ulp; beyond 16 the slope is 0 or 1 whatever t's last digits are. 2^-150 is half "
         "a quantum of FP32's subnormals. dbias: the sum of dx's bounds, and of dx itself min(gamma_d sum|dx|, gamma_d "
         "drift + 8u sqrt(rows sum dx^2)), drift = max(0, |sum dx| - 2 sqrt(sum dx^2)), d = min(rows - 1, 512 + rows / "
         "256), the depth of up to 256 lanes and 256 slabs of rows: an addition errs by u times its partial sum, and "
         "where those wander about zero, as the random signs of dy make them, so do their roundings, whatever the "
         "order; adding row by row is far inside. A bound for the worst data, gamma_d sum|dx|, would let a missing row "
         "pass where there are many. The 2-norm of all errors of dbias: 1 + 3 / sqrt(cols) times that of these bounds "
         "with 1 for 8, and with the root of the sum of the squares of dx's bounds for their sum: many wander less "
         "than one may. NaN stays NaN, and t = +-inf must give NaN, as t phi = inf * 0 does in every closed form (and "
         "in PyTorch).";
}

Work GeluBackward::work(const Problem& problem) {
  const auto elements = static_cast<double>(problem.rows) * static_cast<double>(problem.cols);
  const auto columns = static_cast<double>(problem.cols);
  // An element: 5 additions, 7 products, and erf and exp counted as one each, so that no form of them inflates the
  // rate.
  return {
      .flops = 14 * elements, .bytes_read = 8 * elements + 4 * columns, .bytes_written = 4 * elements + 4 * columns};
}

}  // namespace mage::gelu_backward
