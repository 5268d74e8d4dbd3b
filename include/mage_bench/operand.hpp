// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mage_bench/contract.hpp"
#include "mage_bench/dtype.hpp"

namespace mage {

enum class Role { in, out };

/// A short string returned across the light/heavy border.
class Text : public std::string {
 public:
  using std::string::string;
  Text(std::string text) : std::string{std::move(text)} {}  // NOLINT(google-explicit-constructor)
};

/// How the elements of an input come about. All are functions of (seed, stream, index) alone: see random.hpp.
enum class Distribution {
  normal,     ///< mean 0, standard deviation 1
  shifted,    ///< mean 1e4, standard deviation 1
  large,      ///< normal x 1e4
  constant,   ///< every row one value, another value in each row
  spike,      ///< normal, one element a row is 1e6
  subnormal,  ///< |x| in [2^-149, 2^-126)
  zeros,      ///< +0 and -0 at random
  special,    ///< normal; every seventh row is +Inf, the next -Inf, the next NaN
  tail,       ///< uniform in [-8, 8): where Phi and erf lose their last digits
};
inline constexpr std::array all_distributions{Distribution::normal,   Distribution::shifted, Distribution::large,
                                              Distribution::constant, Distribution::spike,   Distribution::subnormal,
                                              Distribution::zeros,    Distribution::special, Distribution::tail};
[[nodiscard]] std::string_view to_string(Distribution distribution);
[[nodiscard]] bool parse_distribution(std::string_view text, Distribution& out);

/// A named tensor of a problem: row-major, `offset` elements behind a 256-byte boundary (misaligned on purpose).
struct Operand {
  std::string name;
  Role role = Role::in;
  DType dtype = DType::f32;
  int64 rows = 0;
  int64 cols = 1;
  Distribution distribution = Distribution::normal;  ///< inputs only
  uint64 seed = 0;                                   ///< inputs only
  int64 offset = 0;                                  ///< elements

  [[nodiscard]] int64 elements() const { return rows * cols; }
  [[nodiscard]] std::size_t bytes() const { return static_cast<std::size_t>(elements()) * size_of(dtype); }
  [[nodiscard]] std::size_t offset_bytes() const { return static_cast<std::size_t>(offset) * size_of(dtype); }
};

/// A family's operands in the order in which `bind` and `reference` expect their pointers.
class Operands : public std::vector<Operand> {
  using std::vector<Operand>::vector;
};

/// One pointer an operand, in the order of Operands.
class Pointers {
 public:
  explicit Pointers(std::vector<void*> raw) : raw_{std::move(raw)} {}
  template <class T>
  [[nodiscard]] T* at(std::size_t index) const {
    return static_cast<T*>(raw_.at(index));
  }
  [[nodiscard]] std::size_t size() const { return raw_.size(); }

 private:
  std::vector<void*> raw_;
};

/// What an output must be: accepted where |got - value| <= bound, where both are NaN,
/// or where both are the same infinity. Nothing else passes. Where all values are finite, the 2-norm of all errors must
/// also be <= norm_bound: many errors that are each inside their bound may still be a precision that was lowered.
struct ExpectedTensor {
  std::vector<double> value;
  std::vector<float> bound;
  double norm_bound = 0;  ///< 0: no such check
};

/// One tensor an output operand, in their order. The reference fills it.
class Expected : public std::vector<ExpectedTensor> {
  using std::vector<ExpectedTensor>::vector;
};

/// What a machine can do at most of one kind of work. A problem that is made to measure one says so in its Work.
enum class Limit {
  dram_copy,    ///< bytes from and to the device's memory, as many read as written
  dram_read,    ///< bytes from memory
  dram_write,   ///< bytes to memory
  dram_gather,  ///< bytes from memory, in rows at random places
  l2_copy,      ///< the same of data that fits in L2
  l2_read,
  l2_write,
  l2_gather,
  ffma,   ///< FP32 multiply-adds, two flops each
  empty,  ///< operations that do nothing but write one word
};
inline constexpr std::array all_limits{Limit::dram_copy, Limit::dram_read, Limit::dram_write, Limit::dram_gather,
                                       Limit::l2_copy,   Limit::l2_read,   Limit::l2_write,   Limit::l2_gather,
                                       Limit::ffma,      Limit::empty};
[[nodiscard]] std::string_view to_string(Limit limit);

/// Necessary work of one operation, counted from the contract so that every variant is judged by the same numbers.
struct Work {
  double flops = 0;
  double bytes_read = 0;     ///< compulsory: each input once
  double bytes_written = 0;  ///< each output once
  /// Set: the problem's only purpose is to measure this, and its bytes are those that move, however often.
  std::optional<Limit> ceiling_of{};
  [[nodiscard]] double bytes() const { return bytes_read + bytes_written; }
};

}  // namespace mage
