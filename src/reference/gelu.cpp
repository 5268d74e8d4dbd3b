// SPDX-License-Identifier: Apache-2.0
#include "kernels/gelu/gelu.hpp"

#include <cmath>
#include <limits>

#include "mage_bench/operand.hpp"
#include "mage_bench/parallel.hpp"
#include "mage_bench/problem_text.hpp"
#include "mage_bench/registry.hpp"
#include "reference/summation.hpp"

namespace mage::gelu {
namespace {

constexpr int64 grain = 1 << 14;

/// x + bias as the formula sees it: a sum that FP32 cannot hold is infinite there, so it is here.
double pre_activation(float x, float bias) {
  const double t = static_cast<double>(x) + static_cast<double>(bias);
  constexpr double overflow = 0x1.ffffffp127;  // from here on, FP32 rounds to infinity
  return std::fabs(t) >= overflow ? std::copysign(std::numeric_limits<double>::infinity(), t) : t;
}

// erfc keeps its relative accuracy where 1 + erf cancels. -inf gives -inf * 0 = NaN, as every closed FP32 form does.
double gelu(double t) {
  constexpr double sqrt_half = 0.70710678118654752440;
  return 0.5 * t * std::erfc(-t * sqrt_half);
}

float bound(double t, double y) {
  if (!std::isfinite(y)) return 0;  // NaN and infinity must be met exactly: |got - inf| <= inf would pass anything
  return static_cast<float>(8 * unit_roundoff * std::fabs(t) + 2 * unit_roundoff * std::fabs(y) +
                            half_subnormal_quantum);
}

/// Calls body(element, column) for all elements, in parallel.
template <class Body>
void for_elements(int64 rows, int64 cols, const Body& body) {
  parallel_blocks(rows * cols, grain, [&](int64 begin, int64 end) {
    int64 column = begin % cols;
    for (int64 i = begin; i < end; ++i) {
      body(i, column);
      if (++column == cols) column = 0;
    }
  });
}

Launch prepare(const Problem& problem, const Args& args) {
  return [rows = problem.rows, cols = problem.cols, args](StreamHandle) {
    for_elements(rows, cols, [&](int64 i, int64 column) {
      args.y[i] = static_cast<float>(gelu(pre_activation(args.x[i], args.bias[column])));
    });
  };
}

const RegisterFamily<Gelu> family;
const Register<Gelu> registered{
    {.note = "the oracle's own arithmetic: FP64 erfc on the host, rounded once", .prepare = prepare}};

}  // namespace

ProblemList<Problem> Gelu::bench_problems() {
  return {{.rows = 64, .cols = 1024},    {.rows = 1024, .cols = 4096},  {.rows = 4096, .cols = 4096},
          {.rows = 8192, .cols = 16384}, {.rows = 2048, .cols = 11008},  // the MLP of a 7B model
          {.rows = 1023, .cols = 4097}};
}

ProblemList<Problem> Gelu::test_problems() {
  auto problems = matrix_test_problems();
  problems.push_back({.rows = 37, .cols = 516});  // a last tile of 4 KB that is not full
  for (const int64 cols : {5, 6, 7}) problems.push_back({.rows = 401, .cols = cols, .offset = 3});  // rows as vectors
  problems.push_back({.rows = 524296, .cols = 4097});  // large: more than 2^31 elements
  return problems;
}

Text Gelu::print(const Problem& problem) { return print_matrix(problem); }
bool Gelu::parse(const char* text, Problem& problem) { return parse_matrix(text, problem); }

Operands Gelu::operands(const Problem& p) {
  return {
      {.name = "x", .rows = p.rows, .cols = p.cols, .distribution = p.distribution, .seed = p.seed, .offset = p.offset},
      {.name = "bias", .rows = 1, .cols = p.cols, .seed = p.seed},
      {.name = "y", .role = Role::out, .rows = p.rows, .cols = p.cols, .offset = p.offset}};
}

Args Gelu::bind(const Problem&, const Pointers& pointers) {
  return {.x = pointers.at<const float>(0), .bias = pointers.at<const float>(1), .y = pointers.at<float>(2)};
}

void Gelu::reference(const Problem& problem, const Pointers& host, Expected& expected) {
  const auto* x = host.at<const float>(0);
  const auto* bias = host.at<const float>(1);
  expected.resize(1);
  auto& value = expected[0].value;  // no structured binding: clang before 16 cannot capture one
  auto& bounds = expected[0].bound;
  const auto count = static_cast<std::size_t>(problem.rows * problem.cols);
  value.resize(count);
  bounds.resize(count);
  for_elements(problem.rows, problem.cols, [&](int64 i, int64 column) {
    const auto index = static_cast<std::size_t>(i);
    const double t = pre_activation(x[i], bias[column]);
    const double y = gelu(t);
    value[index] = y;
    bounds[index] = bound(t, y);
  });
}

Text Gelu::tolerance(const Problem&) {
  return "8u|t| + 2u|y| + 2^-150, u = 2^-24, t = x + bias: one rounding of t, an erf of 2 ulp whose error 1 + erf makes "
         "absolute, and the roundings of three products. 2^-150 is half a quantum of FP32's subnormals, the "
         "unavoidable error of any y below 2^-126. NaN stays NaN and +inf stays +inf; t = -inf must give NaN, as "
         "-inf * 0 does in every closed form (and in PyTorch).";
}

Work Gelu::work(const Problem& problem) {
  const auto elements = static_cast<double>(problem.rows) * static_cast<double>(problem.cols);
  // An element: 2 additions, 3 products, and an erf counted as one, so that no implementation of erf inflates the rate.
  return {.flops = 6 * elements,
          .bytes_read = 4 * elements + 4 * static_cast<double>(problem.cols),
          .bytes_written = 4 * elements};
}

}  // namespace mage::gelu
