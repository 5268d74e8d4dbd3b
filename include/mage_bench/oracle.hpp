// SPDX-License-Identifier: Apache-2.0
// The inputs of a problem and what they must lead to, on the host: made once, shared by the cases of every device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "mage_bench/inspection.hpp"
#include "mage_bench/registry.hpp"

namespace mage {

/// What set 1 of a problem's inputs has other than set 0, and what it leads to.
struct Variation {
  /// An output's elements that differ, in order. Where many do, `dense` has all instead and the list is empty.
  struct Output {
    std::vector<Amendment> elements;
    ExpectedTensor dense;
    double norm_bound = 0;
  };
  std::vector<std::vector<InputChange>> inputs;  ///< by operand; empty for outputs
  std::vector<Output> outputs;                   ///< by output
  std::vector<std::vector<OutputPlace>> places;  ///< by output: where to look
  std::vector<int> telling;                      ///< by output: places where no value is right under both sets
};

class Oracle {
 public:
  /// `input_epoch` picks the input values: epoch 0 is the problem's own seed, every other epoch other values of the
  /// same distribution.
  /// Takes over the memory of `old`: the first use of memory is slow.
  Oracle(const Family& family, AnyProblem problem, std::uint32_t input_epoch = 0, Oracle* old = nullptr);
  /// New input values and their reference, and no variation. Every Case of this oracle needs reload() afterwards.
  void refresh(std::uint32_t input_epoch);
  /// Makes set 1: in each input of floating-point values some pairs of elements change places, at places that follow
  /// from `secret`; inputs that follow from others follow. Costs what a reference costs. Every Case needs reload()
  /// afterwards.
  void vary(std::uint64_t secret);

  [[nodiscard]] const Family& family() const { return family_; }
  [[nodiscard]] const AnyProblem& problem() const { return problem_; }
  [[nodiscard]] const Operands& operands() const { return operands_; }
  /// Bytes of input operand `index` in set 0; empty for an output.
  [[nodiscard]] const std::vector<std::byte>& input(std::size_t index) const { return inputs_.at(index); }
  /// Good until it is asked for another set: the two share their memory.
  [[nodiscard]] const Expected& expected(int set = 0) const;
  [[nodiscard]] bool varied() const { return !variation_.inputs.empty(); }
  [[nodiscard]] const Variation& variation() const { return variation_; }

  /// Bytes that an oracle takes at most while it has a variation made.
  [[nodiscard]] static std::size_t host_bytes(const Operands& operands);

 private:
  void ask_reference(const Pointers& inputs, Expected& expected) const;
  void exchange() const;
  void choose_places(std::uint64_t secret);

  const Family& family_;
  AnyProblem problem_;
  Operands operands_;
  std::vector<std::vector<std::byte>> inputs_;
  // The variation's values and those in `expected_` change places: one of the two is set 0, the other set 1.
  mutable Expected expected_;
  mutable Variation variation_;
  mutable int set_ = 0;
  // What vary() needs, kept from one time to the next.
  std::vector<std::vector<std::byte>> changed_;
  Expected other_;
};

}  // namespace mage
