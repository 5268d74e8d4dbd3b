// SPDX-License-Identifier: Apache-2.0
#include "mage_bench/problem_text.hpp"

#include <algorithm>
#include <charconv>
#include <limits>

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
  constexpr uint64 most = static_cast<uint64>(std::numeric_limits<int64>::max()) / 8;  // elements of the widest dtype
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

}  // namespace mage
