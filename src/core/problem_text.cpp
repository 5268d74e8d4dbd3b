// SPDX-License-Identifier: Apache-2.0
#include "mage_bench/problem_text.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <stdexcept>

namespace mage {

bool take(std::string_view& text, std::string_view literal) {
  if (!text.starts_with(literal)) return false;
  text.remove_prefix(literal.size());
  return true;
}

bool take_number(std::string_view& text, uint64 at_most, uint64& out) {
  const auto end = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto digits = text.substr(0, end);
  if (digits.empty() || (digits.size() > 1 && digits.front() == '0')) return false;
  uint64 value = 0;
  const auto [rest, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || value > at_most) return false;
  out = value;
  text.remove_prefix(end);
  return true;
}

bool take_shape(std::string_view& text, int64& rows, int64& cols) {
  constexpr uint64 most = (uint64{1} << 50U) - 1;
  auto rest = text;
  uint64 r = 0, c = 0;
  if (!take_number(rest, most, r) || !take(rest, "x") || !take_number(rest, most, c)) return false;
  if (r == 0 || c == 0 || r > most / c) return false;
  rows = static_cast<int64>(r);
  cols = static_cast<int64>(c);
  text = rest;
  return true;
}

bool take_distribution(std::string_view& text, Distribution& out) {
  auto rest = text;
  if (!take(rest, "-")) return false;
  const auto end = std::min(rest.find('-'), rest.size());
  if (!parse_distribution(rest.substr(0, end), out)) return false;
  rest.remove_prefix(end);
  text = rest;
  return true;
}

Text print_shape(int64 rows, int64 cols) { return std::to_string(rows) + "x" + std::to_string(cols); }

Text print_matrix(const MatrixProblem& problem) {
  auto text = print_shape(problem.rows, problem.cols);
  if (problem.distribution != Distribution::normal) text.append("-").append(to_string(problem.distribution));
  if (problem.seed != 0) text.append("-s").append(std::to_string(problem.seed));
  if (problem.offset != 0) text.append("-o").append(std::to_string(problem.offset));
  return text;
}

std::string shortened(std::string_view text) {
  constexpr std::size_t longest = 80;
  return text.size() > longest ? std::string{text.substr(0, longest)} + "..." : std::string{text};
}

namespace {

/// The first number in `text` that begins with a zero and goes on; empty where there is none.
std::string_view zero_led(std::string_view text) {
  constexpr std::string_view digits = "0123456789";
  for (auto begin = text.find_first_of(digits); begin < text.size(); begin = text.find_first_of(digits, begin)) {
    const auto end = std::min(text.find_first_not_of(digits, begin), text.size());
    if (text[begin] == '0' && end - begin > 1) return text.substr(begin, end - begin);
    begin = end;
  }
  return {};
}

/// What is wrong with `text`, as the end of a sentence; empty where it was read.
std::string read_matrix(std::string_view text, MatrixProblem& problem) {
  auto rest = text;
  MatrixProblem read;
  uint64 offset = 0;
  if (const auto number = zero_led(text); !number.empty())
    return "the number " + shortened(number) + " begins with a zero";
  if (!take_shape(rest, read.rows, read.cols))
    return "it does not begin with ROWSxCOLS, both from 1 on and fewer than 2^50 elements in all";
  static_cast<void>(take_distribution(rest, read.distribution));
  if (take(rest, "-s") && !take_number(rest, std::numeric_limits<uint64>::max(), read.seed))
    return "-s is not followed by a seed from 0 to 18446744073709551615";
  // 64 floats are the next 256-byte boundary.
  if (take(rest, "-o") && !take_number(rest, 63, offset))
    return "-o is not followed by an offset from 0 to 63 elements";
  read.offset = static_cast<int64>(offset);
  if (!rest.empty()) {
    std::string names;
    for (const auto distribution : all_distributions)
      names.append(names.empty() ? "" : ", ").append(to_string(distribution));
    return "'" + shortened(rest) + "' is none of -DISTRIBUTION (" + names + "), -sSEED and -oOFFSET, in this order";
  }
  if (const auto name = print_matrix(read); name != text)  // a suffix spells out a default
    return "one problem has one name, and the name of this one is " + name;
  problem = read;
  return {};
}

}  // namespace

bool parse_matrix(const char* text, MatrixProblem& problem) { return read_matrix(text, problem).empty(); }

AnyProblem read_problem(const Family& family, const std::string& text) {
  if (auto problem = family.parse(text)) return *problem;
  const auto known = family.bench_problems();
  MatrixProblem unused;
  std::string why;
  if (read_matrix(known.front().name, unused).empty()) why = read_matrix(text, unused);
  if (why.empty()) why = "the family has problems of another form";
  const auto prefix = std::string{family.name()} + "/";
  throw std::invalid_argument{prefix + shortened(text) + " is no problem: " + why + ". Right are " + prefix +
                              known.front().name + " and " + prefix + known.back().name};
}

ProblemList<MatrixProblem> matrix_test_problems() {
  ProblemList<MatrixProblem> problems;
  for (const auto& [rows, cols] : std::initializer_list<std::pair<int64, int64>>{
           {1, 1},    {1, 3},    {3, 1},     {1, 4},     {2, 31},   {5, 32},   {3, 33},
           {7, 127},  {4, 128},  {3, 129},   {2, 1023},  {3, 1024}, {5, 1025}, {17, 4095},
           {2, 4096}, {3, 4097}, {1, 16385}, {257, 255}, {1000, 1}, {64, 1024}})
    problems.push_back({.rows = rows, .cols = cols});
  // Odd columns take a kernel's scalar path, even ones its vector path.
  for (const auto distribution : all_distributions) {
    problems.push_back({.rows = 37, .cols = 515, .distribution = distribution});
    problems.push_back({.rows = 32, .cols = 512, .distribution = distribution});
  }
  problems.push_back({.rows = 32, .cols = 512, .seed = 1});
  for (const int64 offset : {1, 2, 3}) {
    problems.push_back({.rows = 37, .cols = 515, .offset = offset});
    problems.push_back({.rows = 32, .cols = 512, .offset = offset});
  }
  // Fewer elements than lie before the first aligned vector and in it.
  for (const auto& [cols, offset] : std::initializer_list<std::pair<int64, int64>>{{4, 1}, {5, 2}, {6, 1}})
    problems.push_back({.rows = 1, .cols = cols, .offset = offset});
  return problems;
}

}  // namespace mage
