// SPDX-License-Identifier: Apache-2.0
#include "kernels/ceiling/ceiling.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

#include "mage_bench/operand.hpp"
#include "mage_bench/parallel.hpp"
#include "mage_bench/problem_text.hpp"
#include "mage_bench/registry.hpp"

namespace mage::ceiling {
namespace {

constexpr std::array<std::pair<Kind, std::string_view>, 6> kinds{{{Kind::copy, "copy"},
                                                                  {Kind::read, "read"},
                                                                  {Kind::write, "write"},
                                                                  {Kind::gather, "gather"},
                                                                  {Kind::ffma, "ffma"},
                                                                  {Kind::empty, "empty"}}};
constexpr std::array<std::pair<int64, std::string_view>, 4> units{
    {{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}, {1, "B"}}};

constexpr int64 grain = 1 << 16;
constexpr int64 word_bytes = 4;
constexpr int64 row_bytes = row_words * word_bytes;
constexpr double scale = 0x1p20;  // inputs are multiples of 2^-20

int64 words(const Problem& p) { return p.size / word_bytes; }
int64 pieces(const Problem& p) { return ceil_div(words(p), piece_words); }
int64 rows(const Problem& p) { return p.size / row_bytes; }
int64 picks(const Problem& p) { return rows(p) * p.times; }
double flops(const Problem& p) { return 2.0 * chains * static_cast<double>(p.times) * static_cast<double>(p.size); }
bool in_bytes(Kind kind) { return kind != Kind::ffma && kind != Kind::empty; }

uint32 fold(uint32 word) { return (word ^ word >> 30) & 0x3FFFFFFFU; }

uint32 xor_of(const float* from, int64 count) {
  uint32 sum = 0;
  for (int64 i = 0; i < count; ++i) sum ^= std::bit_cast<uint32>(from[i]);
  return sum;
}

uint32 piece(const float* x, int64 of_words, int64 index) {
  return xor_of(x + index * piece_words, std::min(piece_words, of_words - index * piece_words));
}

uint32 written(int64 i) {
  return fold(static_cast<uint32>(i) * 0x9E3779B9U ^ static_cast<uint32>(static_cast<uint64>(i) >> 32U));
}

uint32 gathered(const Problem& p, const float* table, const float* picked, int64 slot) {
  uint32 sum = 0;
  for (int64 i = slot * slot_picks; i < std::min(picks(p), (slot + 1) * slot_picks); ++i) {
    const auto fraction = static_cast<int64>((static_cast<double>(picked[i]) + 8) * scale);
    sum ^= xor_of(table + (fraction * rows(p) >> 24) * row_words, row_words);
  }
  return fold(sum);
}

/// The end of a chain in closed form: two steps of v = addend - v are none.
int chain(const Problem& p, float x, float addend, int index) {
  const int n = static_cast<int>(static_cast<double>(x) * scale) >> index;
  return p.times % 2 == 0 ? n : static_cast<int>(static_cast<double>(addend) * scale) - n;
}

/// The arithmetic itself, step by step, for the host's variant.
int stepped(const Problem& p, float x, float addend, float multiplier) {
  const float b = addend * static_cast<float>(scale);
  float v[chains];
  for (int k = 0; k < chains; ++k) v[k] = static_cast<float>(static_cast<int>(x * static_cast<float>(scale)) >> k);
  for (int64 step = 0; step < p.times; ++step)
    for (auto& value : v) value = multiplier * value + b;
  int all = 0;
  for (const auto value : v) all ^= static_cast<int>(value);
  return all;
}

/// Calls body(i) for each output, in parallel; `cost` is how many words one takes.
template <class Body>
void for_outputs(int64 count, int64 cost, const Body& body) {
  parallel_blocks(count, std::max<int64>(1, grain / cost), [&](int64 begin, int64 end) {
    for (int64 i = begin; i < end; ++i) body(i);
  });
}

void run(const Problem& p, const Args& a) {
  const auto put = [y = a.y](int64 i, uint32 word) { std::memcpy(y + i, &word, sizeof word); };
  switch (p.kind) {
    case Kind::copy: return for_outputs(words(p), 1, [&](int64 i) { a.y[i] = a.x[i]; });
    case Kind::read:
      return for_outputs(pieces(p), piece_words, [&](int64 block) {
        uint32 sum = 0;
        for (int64 pass = 0; pass < p.times; ++pass)
          sum = std::rotl(sum, 1) ^ piece(a.x, words(p), (block + pass) % pieces(p));
        put(block, fold(sum));
      });
    case Kind::write: return for_outputs(words(p), 1, [&](int64 i) { put(i, written(i)); });
    case Kind::gather:
      return for_outputs(ceil_div(picks(p), slot_picks), slot_picks * row_words,
                         [&](int64 slot) { put(slot, gathered(p, a.x, a.picks, slot)); });
    case Kind::ffma:
      return for_outputs(p.size, p.times,
                         [&](int64 i) { put(i, static_cast<uint32>(stepped(p, a.x[i], *a.addend, a.multiplier))); });
    case Kind::empty: return put(0, static_cast<uint32>(p.size));
  }
}

Launch prepare(const Problem& p, const Args& a) {
  return [=](StreamHandle) { run(p, a); };
}

const RegisterFamily<Ceiling> family;
const Register<Ceiling> registered{{
    .note = "all kinds on the host, by the contract's own words; of ffma what takes no seconds",
    .accepts = [](const Problem& p) { return p.kind != Kind::ffma || flops(p) < 0x1p28; },
    .prepare = prepare,
}};

constexpr int64 kib = 1 << 10, mib = 1 << 20, gib = 1 << 30;

}  // namespace

ProblemList<Problem> Ceiling::bench_problems() {
  // What is to be in L2 is small against any that matters, and moved so often that the fixed cost vanishes; what is to
  // come from memory is large against it. Four waves of 132 SMs x 2048 threads do the arithmetic.
  return {{Kind::copy, 16 * mib},
          {Kind::copy, 512 * mib},
          {Kind::read, 16 * mib, 32},
          {Kind::read, gib},
          {Kind::write, 16 * mib},
          {Kind::write, 512 * mib},
          {Kind::gather, 48 * mib, 8},
          {Kind::gather, 512 * mib},
          {Kind::ffma, int64{4} * 132 * 2048, 2047},
          {Kind::empty, 1}};
}

ProblemList<Problem> Ceiling::test_problems() {
  ProblemList<Problem> problems;
  for (const auto kind : {Kind::copy, Kind::read, Kind::write})
    // Around a word, a vector, a warp, the tiles of 4 and of 16 KiB, and the page.
    for (const int64 size : {int64{4}, int64{12}, int64{16}, int64{20}, 4 * int64{33}, kib, 4 * kib - 4, 4 * kib + 4,
                             16 * kib - 4, 16 * kib, 16 * kib + 4, 47 * kib + 20, mib, 5 * mib + 12})
      problems.push_back({kind, size});
  for (const int64 times : {2, 3, 7, 33}) problems.push_back({Kind::read, 50 * kib + 4, times});
  for (const int64 table_rows : {1, 2, 31, 32, 33, 1000, 4096})
    for (const int64 times : {1, 3}) problems.push_back({Kind::gather, table_rows * row_bytes, times});
  for (const int64 size : {1, 31, 256, 257, 1000})
    for (const int64 times : {1, 2, 31, 32, 33, 127}) problems.push_back({Kind::ffma, size, times});
  for (const int64 size : {1, 132, 65537}) problems.push_back({Kind::empty, size});
  // large: more than 2^31 bytes, or elements where the output is small
  problems.insert(
      problems.end(),
      {{Kind::copy, 2 * gib + 20}, {Kind::write, 2 * gib + 20}, {Kind::read, 8 * gib + 20}, {Kind::gather, 8 * gib}});
  return problems;
}

Text Ceiling::print(const Problem& p) {
  Text text;
  for (const auto& [kind, name] : kinds)
    if (kind == p.kind) text.append(name).append("-");
  if (in_bytes(p.kind)) {
    const auto* unit = units.begin();
    while (p.size % unit->first != 0) ++unit;
    text.append(std::to_string(p.size / unit->first)).append(unit->second);
  } else {
    text.append(std::to_string(p.size));
  }
  if (p.times != 1) text.append("-x").append(std::to_string(p.times));
  return text;
}

bool Ceiling::parse(const char* text, Problem& problem) {
  std::string_view rest{text};
  Problem read;
  const auto* kind = std::find_if(kinds.begin(), kinds.end(), [&](const auto& k) { return take(rest, k.second); });
  if (kind == kinds.end() || !take(rest, "-")) return false;
  read.kind = kind->first;
  uint64 number = 0;
  if (!take_number(rest, uint64{1} << 40U, number) || number == 0) return false;
  read.size = static_cast<int64>(number);
  if (read.kind == Kind::empty && read.size > 0x7FFFFFFF) return false;
  if (in_bytes(read.kind)) {
    const auto* unit = std::find_if(units.begin(), units.end(), [&](const auto& u) { return take(rest, u.second); });
    if (unit == units.end() || read.size > (int64{1} << 40) / unit->first) return false;
    read.size *= unit->first;
  }
  const bool repeats = read.kind == Kind::read || read.kind == Kind::gather || read.kind == Kind::ffma;
  if (repeats && take(rest, "-x")) {
    if (!take_number(rest, 1 << 16, number) || number == 0) return false;
    read.times = static_cast<int64>(number);
  }
  if (in_bytes(read.kind) && read.size % (read.kind == Kind::gather ? row_bytes : word_bytes) != 0) return false;
  // 24 bits of a pick choose among at most as many rows.
  if (read.kind == Kind::gather && rows(read) > (1 << 24)) return false;
  if (!rest.empty() || print(read) != text) return false;
  problem = read;
  return true;
}

Operands Ceiling::operands(const Problem& p) {
  const auto input = [](const char* name, int64 of_rows, int64 cols) {
    // Uniform: all bits of the fraction are random, and it takes no time to make.
    return Operand{.name = name, .rows = of_rows, .cols = cols, .distribution = Distribution::tail};
  };
  const auto integers = [](int64 count) {
    return Operand{.name = "y", .role = Role::out, .dtype = DType::i32, .rows = 1, .cols = count};
  };
  switch (p.kind) {
    case Kind::copy: return {input("x", 1, words(p)), {.name = "y", .role = Role::out, .rows = 1, .cols = words(p)}};
    case Kind::read: return {input("x", 1, words(p)), integers(pieces(p))};
    case Kind::write: return {integers(words(p))};
    case Kind::gather:
      return {input("table", rows(p), row_words), input("picks", 1, picks(p)),
              integers(ceil_div(picks(p), slot_picks))};
    case Kind::ffma: return {input("x", 1, p.size), input("addend", 1, 1), integers(p.size)};
    case Kind::empty: return {integers(1)};
  }
  return {};
}

Args Ceiling::bind(const Problem& p, const Pointers& pointers) {
  Args args{.x = nullptr, .picks = nullptr, .addend = nullptr, .y = nullptr, .multiplier = -1};
  if (pointers.size() > 1) args.x = pointers.at<const float>(0);
  if (p.kind == Kind::gather) args.picks = pointers.at<const float>(1);
  if (p.kind == Kind::ffma) args.addend = pointers.at<const float>(1);
  args.y = pointers.at<float>(pointers.size() - 1);
  return args;
}

void Ceiling::reference(const Problem& p, const Pointers& host, Expected& expected) {
  expected.resize(1);
  auto& value = expected[0].value;  // no structured binding: clang before 16 cannot capture one
  const auto resize = [&](int64 count) {
    value.resize(static_cast<std::size_t>(count));
    expected[0].bound.assign(value.size(), 0);
  };
  const auto put = [&](int64 i, double what) { value[static_cast<std::size_t>(i)] = what; };
  const auto* x = host.size() > 1 ? host.at<const float>(0) : nullptr;
  const auto* second = host.size() > 1 ? host.at<const float>(1) : nullptr;
  switch (p.kind) {
    case Kind::copy:
      resize(words(p));
      return for_outputs(words(p), 1, [&](int64 i) { put(i, static_cast<double>(x[i])); });
    case Kind::read: {
      resize(pieces(p));
      std::vector<uint32> of_piece(value.size());
      for_outputs(pieces(p), piece_words,
                  [&](int64 i) { of_piece[static_cast<std::size_t>(i)] = piece(x, words(p), i); });
      return for_outputs(pieces(p), p.times, [&](int64 block) {
        uint32 sum = 0;
        for (int64 pass = 0; pass < p.times; ++pass)
          sum ^= std::rotl(of_piece[static_cast<std::size_t>((block + pass) % pieces(p))],
                           static_cast<int>((p.times - 1 - pass) % 32));
        put(block, fold(sum));
      });
    }
    case Kind::write: resize(words(p)); return for_outputs(words(p), 1, [&](int64 i) { put(i, written(i)); });
    case Kind::gather:
      resize(ceil_div(picks(p), slot_picks));
      return for_outputs(static_cast<int64>(value.size()), slot_picks * row_words,
                         [&](int64 slot) { put(slot, gathered(p, x, second, slot)); });
    case Kind::ffma:
      resize(p.size);
      return for_outputs(p.size, chains, [&](int64 i) {
        int all = 0;
        for (int k = 0; k < chains; ++k) all ^= chain(p, x[i], *second, k);
        put(i, all);
      });
    case Kind::empty: resize(1); return put(0, static_cast<double>(p.size));
  }
}

Text Ceiling::tolerance(const Problem&) {
  return "0: copies, sums without carry, and FP32 arithmetic on integers that FP32 holds";
}

Work Ceiling::work(const Problem& p) {
  // From here on L2 has no part in it, or memory none; between the two sizes neither can be said.
  const bool from_l2 = p.size <= 48 * mib;
  const bool from_memory = p.size >= 256 * mib;
  const auto limit = [&](Limit l2, Limit memory) {
    return from_l2 ? std::optional{l2} : from_memory ? std::optional{memory} : std::nullopt;
  };
  const auto bytes = static_cast<double>(p.size), times = static_cast<double>(p.times);
  const auto output = [&](int64 count) { return static_cast<double>(word_bytes * count); };
  switch (p.kind) {
    case Kind::copy:
      return {.bytes_read = bytes, .bytes_written = bytes, .ceiling_of = limit(Limit::l2_copy, Limit::dram_copy)};
    case Kind::read:
      // Each pass once more: from L2, where x is small enough.
      return {.bytes_read = bytes * times,
              .bytes_written = output(pieces(p)),
              .ceiling_of = limit(Limit::l2_read, Limit::dram_read)};
    case Kind::write: return {.bytes_written = bytes, .ceiling_of = limit(Limit::l2_write, Limit::dram_write)};
    case Kind::gather:
      // Rows as often as they are picked, and the picks: the table's part from L2, where the table is small enough.
      return {.bytes_read = bytes * times + output(picks(p)),
              .bytes_written = output(ceil_div(picks(p), slot_picks)),
              .ceiling_of = limit(Limit::l2_gather, Limit::dram_gather)};
    case Kind::ffma:
      return {.flops = flops(p),
              .bytes_read = output(p.size) + output(1),
              .bytes_written = output(p.size),
              .ceiling_of = Limit::ffma};
    case Kind::empty: return {.bytes_written = output(1), .ceiling_of = Limit::empty};
  }
  return {};
}

}  // namespace mage::ceiling
