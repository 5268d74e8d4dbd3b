// SPDX-License-Identifier: Apache-2.0
// What spoiling and inspecting do to one element, on either side of the bus.
#pragma once

#include "device/checksum.hpp"
#include "mage_bench/inspection.hpp"

namespace mage {

/// Elements of each output that a question spoils and looks at: few enough to cost no cache.
inline constexpr int inspected_places = 64;

/// Which of `count` places of a table number `index` of a question is.
MAGE_BOTH_SIDES constexpr uint64 place_of(uint64 secret, int index, int count) {
  return checksum_term(secret, static_cast<uint32>(index)) % static_cast<uint64>(count);
}

/// The bit to flip in an element: one of the upper six of a mantissa, so that the value moves by 1/128 to 1/2, or of
/// the lower six of an integer. The same wherever an element is spoilt under one secret; none under the secret 0.
MAGE_BOTH_SIDES constexpr uint64 flipped_bit(DType dtype, uint64 secret, uint64 element) {
  if (secret == 0) return 0;
  const int bit = static_cast<int>(checksum_term(secret ^ 0x9E3779B97F4A7C15ULL * (element + 1), 0x5B01U) % 6);
  switch (dtype) {
    case DType::f32: return uint64{1} << (17 + bit);
    case DType::f64: return uint64{1} << (46 + bit);
    case DType::i32:
    case DType::i64: break;
  }
  return uint64{1} << bit;
}

/// The bits of an element that is spoilt.
MAGE_BOTH_SIDES inline uint64 spoilt_bits(const void* payload, DType dtype, uint64 secret, uint64 element) {
  const auto flipped = flipped_bit(dtype, secret, element);
  switch (dtype) {
    case DType::f32:
    case DType::i32: return static_cast<const uint32*>(payload)[element] ^ flipped;
    case DType::f64:
    case DType::i64: break;
  }
  return static_cast<const uint64*>(payload)[element] ^ flipped;
}

MAGE_BOTH_SIDES inline void change_element(void* payload, int element_bytes, uint64 element, uint64 bits) {
  switch (element_bytes) {
    case 1: static_cast<unsigned char*>(payload)[element] = static_cast<unsigned char>(bits); return;
    case 2: static_cast<unsigned short*>(payload)[element] = static_cast<unsigned short>(bits); return;
    case 4: static_cast<uint32*>(payload)[element] = static_cast<uint32>(bits); return;
    default: static_cast<uint64*>(payload)[element] = bits; return;
  }
}

MAGE_BOTH_SIDES inline void put_bits(void* payload, DType dtype, uint64 element, uint64 bits) {
  const bool narrow = dtype == DType::f32 || dtype == DType::i32;
  change_element(payload, narrow ? 4 : 8, element, bits);
}

MAGE_BOTH_SIDES inline void spoil_element(void* payload, DType dtype, uint64 secret, uint64 element) {
  put_bits(payload, dtype, element, spoilt_bits(payload, dtype, secret, element));
}

MAGE_BOTH_SIDES inline double element_value(const void* payload, DType dtype, uint64 element) {
  switch (dtype) {
    case DType::f32: return static_cast<double>(static_cast<const float*>(payload)[element]);
    case DType::f64: return static_cast<const double*>(payload)[element];
    case DType::i32: return static_cast<double>(static_cast<const std::int32_t*>(payload)[element]);
    case DType::i64: return static_cast<double>(static_cast<const int64*>(payload)[element]);
  }
  return 0;
}

/// NaN passes where a NaN must be, and nowhere else.
MAGE_BOTH_SIDES inline bool is_within(double value, double low, double high) {
  return low != low ? value != value : value >= low && value <= high;
}

/// One element against what it must be, as compare() of case.hpp says it.
struct ElementVerdict {
  bool inside = false;
  double error = 0;  ///< NaN where either is
  bool same = false;
};
MAGE_BOTH_SIDES inline ElementVerdict judge_element(double got, double value, float bound) {
  const double error = got > value ? got - value : value - got;
  const bool same = (value != value && got != got) || got == value;
  return {same || error <= static_cast<double>(bound), error, same};
}

/// Whether a word of an element holds the poison; never where that is 0.
MAGE_BOTH_SIDES inline bool is_poisoned(const void* payload, DType dtype, uint64 element, uint32 poison) {
  const auto* words = static_cast<const uint32*>(payload);
  if (poison == 0) return false;
  if (dtype == DType::f32 || dtype == DType::i32) return words[element] == poison;
  return words[2 * element] == poison || words[2 * element + 1] == poison;
}

/// The byte of a pattern at an address.
MAGE_BOTH_SIDES inline unsigned char pattern_byte(uint32 pattern, uint64 address) {
  return static_cast<unsigned char>(pattern >> 8 * (address % 4));
}

}  // namespace mage
