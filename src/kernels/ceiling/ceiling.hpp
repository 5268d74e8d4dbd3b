// SPDX-License-Identifier: Apache-2.0
// Family ceiling: what the machine can do at most, one kind of work a problem. Unlike elsewhere the work is what moves,
// however often, and every result is exact. Words are 32 bits; fold(w) = (w ^ w >> 30) & 0x3FFFFFFF, no NaN pattern.
#pragma once

#include "mage_bench/contract.hpp"

namespace mage::ceiling {

enum class Kind {
  copy,    ///< y = x
  read,    ///< y[b] = fold(sum of rotl(P[(b + p) % pieces], passes - 1 - p)), P[i] = xor of the words of piece i
  write,   ///< y[i] = fold of a hash of i: no input
  gather,  ///< y[s] = xor, folded, of the words of the rows that picks [32 s, 32 s + 32) name
  ffma,    ///< y[i] = xor of 8 chains: from n >> k with n = 2^20 x[i], `times` steps v = multiplier v + 2^20 addend
  empty,   ///< y = blocks: one word, since only an output shows that it ran
};

/// The one list of a problem's shape: `size` is bytes (of x, y, or the table), outputs of ffma, or blocks of empty;
/// `times` is passes of read, picks of gather a row of its table, or steps of ffma.
struct Problem {
  Kind kind = Kind::empty;
  int64 size = 1;
  int64 times = 1;
  bool operator==(const Problem&) const = default;
};

inline constexpr int64 piece_words = 4096;  ///< of read: 16 KiB
inline constexpr int64 row_words = 128;     ///< of gather: 512 bytes
inline constexpr int64 slot_picks = 32;     ///< picks of gather that one output covers
inline constexpr int chains = 8;            ///< of ffma

/// Null where the kind has none; 16-byte aligned.
struct Args {
  const float* x;       ///< copy, read: [size / 4]; gather: the table, rows of 128; ffma: [size], multiples of 2^-20
  const float* picks;   ///< gather: row = (2^20 (pick + 8)) rows / 2^24, picks being multiples of 2^-20 in [-8, 8)
  const float* addend;  ///< ffma: one multiple of 2^-20
  float* y;             ///< copy: floats; else integers of 32 bits
  float multiplier;     ///< ffma: -1, known at run time only
};

struct Ceiling {
  static constexpr const char* name = "ceiling";
  using Problem = ceiling::Problem;
  using Args = ceiling::Args;
  static ProblemList<Problem> bench_problems();
  static ProblemList<Problem> test_problems();
  static Text print(const Problem& problem);
  static bool parse(const char* text, Problem& problem);
  static Operands operands(const Problem& problem);
  static Args bind(const Problem& problem, const Pointers& pointers);
  static void reference(const Problem& problem, const Pointers& host, Expected& expected);
  static Text tolerance(const Problem& problem);
  static Work work(const Problem& problem);
};

}  // namespace mage::ceiling
