// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstring>
#include <mutex>
#include <stdexcept>

#include "core/case_parts.hpp"
#include "mage_bench/parallel.hpp"

namespace mage {
namespace {

template <class T>
Verdict compare_as(const Operand& operand, const void* got_bytes, const ExpectedTensor& expected,
                   std::uint32_t poison) {
  constexpr std::size_t words = sizeof(T) / sizeof(std::uint32_t);
  const auto* got = static_cast<const T*>(got_bytes);
  std::mutex merge;
  Verdict total;
  double squares = 0;  // of the errors; NaN or infinite where a value is
  std::int64_t first_wrong = -1;
  parallel_blocks(operand.elements(), 1 << 16, [&](int64 begin, int64 end) {
    Verdict block;
    double block_squares = 0;
    std::int64_t first = -1;
    for (int64 i = begin; i < end; ++i) {
      const auto index = static_cast<std::size_t>(i);
      std::uint32_t raw[words];
      std::memcpy(raw, got + i, sizeof(T));
      std::int64_t untouched = 0;
      for (const auto word : raw) untouched += poison != 0 && word == poison ? 1 : 0;
      const double value = expected.value[index];
      const double bound = static_cast<double>(expected.bound[index]);
      const double found = static_cast<double>(got[i]);
      const double error = std::fabs(found - value);
      const bool same = (std::isnan(value) && std::isnan(found)) || found == value;
      const bool inside = untouched == 0 && (same || error <= bound);
      block.untouched_words += untouched;
      block_squares += error * error;
      if (inside) {
        if (!same && error > 0) block.worst = std::fmax(block.worst, error / bound);
        continue;
      }
      block.wrong_elements += 1;
      if (first < 0) first = i;
      if (std::isfinite(error) && bound > 0) block.worst = std::fmax(block.worst, error / bound);
    }
    const std::scoped_lock lock{merge};
    total.worst = std::fmax(total.worst, block.worst);
    squares += block_squares;
    total.wrong_elements += block.wrong_elements;
    total.untouched_words += block.untouched_words;
    if (first >= 0 && (first_wrong < 0 || first < first_wrong)) first_wrong = first;
  });
  total.ok = total.wrong_elements == 0;
  if (total.ok) {
    // Every element is inside its bound, so that an error that is no number stands where no number is expected.
    if (expected.norm_bound == 0 || !std::isfinite(squares) || std::sqrt(squares) <= expected.norm_bound) return total;
    total.ok = false;
    total.reason = "all elements of " + operand.name + " are inside their bounds, but the 2-norm of their errors, " +
                   number(std::sqrt(squares)) + ", is outside its bound " + number(expected.norm_bound) +
                   ": was a precision lowered?";
    return total;
  }
  const auto index = static_cast<std::size_t>(first_wrong);
  const auto place = element_name(operand, index);
  if (total.untouched_words > 0)
    total.reason = std::to_string(total.untouched_words) + " words of output " + operand.name +
                   " were never written; first wrong element " + place;
  else
    total.reason = std::to_string(total.wrong_elements) + " of " + std::to_string(operand.elements()) +
                   " elements outside its bound; first " + place + ": got " +
                   number(static_cast<double>(got[first_wrong])) + ", expected " + number(expected.value[index]) +
                   " +- " + number(static_cast<double>(expected.bound[index]));
  return total;
}

}  // namespace

Verdict compare(const Operand& operand, const void* got, const ExpectedTensor& expected, std::uint32_t poison) {
  const auto count = static_cast<std::size_t>(operand.elements());
  if (expected.value.size() != count || expected.bound.size() != count)
    throw std::logic_error{"compare: the reference gave " + std::to_string(expected.value.size()) + " values and " +
                           std::to_string(expected.bound.size()) + " bounds for the " + std::to_string(count) +
                           " elements of " + operand.name};
  switch (operand.dtype) {
    case DType::f32: return compare_as<float>(operand, got, expected, poison);
    case DType::f64: return compare_as<double>(operand, got, expected, poison);
    case DType::i32: return compare_as<std::int32_t>(operand, got, expected, poison);
    case DType::i64: return compare_as<std::int64_t>(operand, got, expected, poison);
  }
  throw std::logic_error{"compare: unknown dtype"};
}

}  // namespace mage
