// SPDX-License-Identifier: Apache-2.0
#include "kernels/copy/copy.hpp"

#include <cstring>

#include "mage_bench/operand.hpp"
#include "mage_bench/parallel.hpp"
#include "mage_bench/problem_text.hpp"
#include "mage_bench/registry.hpp"

namespace mage::copy {
namespace {

constexpr int64 grain = 1 << 16;

Launch prepare(const Problem& problem, const Args& args) {
  return [count = problem.rows * problem.cols, args](StreamHandle) {
    parallel_blocks(count, grain, [&](int64 begin, int64 end) {
      std::memcpy(args.y + begin, args.x + begin, static_cast<std::size_t>(end - begin) * sizeof(float));
    });
  };
}

const RegisterFamily<Copy> family;
const Register<Copy> registered{{.note = "memcpy on the host, in parallel", .prepare = prepare}};

}  // namespace

ProblemList<Problem> Copy::bench_problems() {
  // The bytes of gelu's, so that the two can be read side by side.
  return {{64, 1024}, {1024, 4096}, {4096, 4096}, {8192, 16384}, {2048, 11008}, {1023, 4097}};
}

ProblemList<Problem> Copy::test_problems() {
  return {{1, 1},    {1, 3},    {1, 4},     {3, 1},     {5, 33},    {7, 127},
          {3, 1024}, {5, 1025}, {17, 4095}, {257, 255}, {64, 1024}, {524296, 4097}};  // large: more than 2^31 elements
}

Text Copy::print(const Problem& problem) { return print_shape(problem.rows, problem.cols); }

bool Copy::parse(const char* text, Problem& problem) {
  std::string_view rest{text};
  Problem read;
  if (!take_shape(rest, read.rows, read.cols) || !rest.empty()) return false;
  problem = read;
  return true;
}

Operands Copy::operands(const Problem& p) {
  return {{.name = "x", .rows = p.rows, .cols = p.cols},
          {.name = "y", .role = Role::out, .rows = p.rows, .cols = p.cols}};
}

Args Copy::bind(const Problem&, const Pointers& pointers) {
  return {.x = pointers.at<const float>(0), .y = pointers.at<float>(1)};
}

void Copy::reference(const Problem& problem, const Pointers& host, Expected& expected) {
  const auto* x = host.at<const float>(0);
  expected.resize(1);
  auto& value = expected[0].value;  // no structured binding: clang before 16 cannot capture one
  const auto count = static_cast<std::size_t>(problem.rows * problem.cols);
  value.resize(count);
  expected[0].bound.assign(count, 0);
  parallel_blocks(problem.rows * problem.cols, grain, [&](int64 begin, int64 end) {
    for (int64 i = begin; i < end; ++i) value[static_cast<std::size_t>(i)] = static_cast<double>(x[i]);
  });
}

Text Copy::tolerance(const Problem&) { return "0: a copy that changes a value is none"; }

Work Copy::work(const Problem& problem) {
  const auto bytes = 4 * static_cast<double>(problem.rows) * static_cast<double>(problem.cols);
  return {.flops = 0, .bytes_read = bytes, .bytes_written = bytes};
}

}  // namespace mage::copy
