// SPDX-License-Identifier: Apache-2.0
// One problem on one device: inputs, poisoned and fenced outputs, expected values. The gate lives here.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mage_bench/device.hpp"
#include "mage_bench/registry.hpp"

namespace mage {

/// The outcome of one check. `ok` only if every element of every output, and the norm of its errors, is inside its
/// bound, every fence stands, every input is as it was, and no output word still holds the poison.
struct Verdict {
  bool ok = false;
  std::string reason;  ///< empty when ok; otherwise operand, index, got, expected, bound
  double worst = 0;    ///< largest |error| / bound of these bits
  std::int64_t wrong_elements = 0;
  std::int64_t untouched_words = 0;  ///< output words that still hold the poison
  std::uint64_t output_checksum = 0;
};

/// Compares one output with what it must be, in parallel. NaN-safe: passes on `error <= bound` only.
/// `poison` counts the words that were never written.
[[nodiscard]] Verdict compare(const Operand& operand, const void* got, const ExpectedTensor& expected,
                              std::uint32_t poison);

/// Inputs and expected values of one problem, on the host: made once, shared by the cases of every device.
class Oracle {
 public:
  /// `input_epoch` picks the input values: epoch 0 is the problem's own seed, every other epoch other values of the
  /// same distribution.
  Oracle(const Family& family, AnyProblem problem, std::uint32_t input_epoch = 0);
  /// New input values and their reference. Every Case of this oracle needs reload() afterwards.
  void refresh(std::uint32_t input_epoch);

  [[nodiscard]] const Family& family() const { return family_; }
  [[nodiscard]] const AnyProblem& problem() const { return problem_; }
  [[nodiscard]] const Operands& operands() const { return operands_; }
  /// Bytes of input operand `index`; empty for an output.
  [[nodiscard]] const std::vector<std::byte>& input(std::size_t index) const { return inputs_.at(index); }
  [[nodiscard]] const Expected& expected() const { return expected_; }

 private:
  const Family& family_;
  AnyProblem problem_;
  Operands operands_;
  std::vector<std::vector<std::byte>> inputs_;
  Expected expected_;
};

class Case {
 public:
  /// Allocates fenced buffers and uploads the inputs. The oracle must outlive the case.
  Case(Device& device, const Oracle& oracle);
  ~Case();
  Case(const Case&) = delete;
  Case& operator=(const Case&) = delete;

  [[nodiscard]] Launch bind(const VariantInfo& variant) const;

  /// Uploads the oracle's inputs again, in place: the same addresses, other values.
  void reload();

  /// Enqueues filling all outputs with a NaN pattern that no earlier call used.
  void poison();
  /// After poison() and one operation: waits, then judges. See Verdict.
  /// Bits whose checksum equals that of bits that passed the element-wise check for these inputs pass at once.
  [[nodiscard]] Verdict check();

  /// Enqueues a few words of poison at random places of every output, for samples that count: they cost no cache.
  void speckle();
  /// After speckle() and one operation: whether it wrote over all of them. Waits.
  [[nodiscard]] bool speckles_gone();

  /// The raw pointers, in operand order.
  [[nodiscard]] const Pointers& pointers() const { return *pointers_; }
  [[nodiscard]] std::vector<std::byte> read(std::size_t operand_index);

  /// Bytes that a case of these operands takes on its device, and its oracle and check on the host.
  [[nodiscard]] static std::size_t device_bytes(const Operands& operands);
  [[nodiscard]] static std::size_t host_bytes(const Operands& operands);

 private:
  struct Buffer;
  [[nodiscard]] std::string broken_fence();

  Device& device_;
  const Oracle& oracle_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::unique_ptr<Pointers> pointers_;
  AnyArgs args_;
  std::vector<std::byte> scratch_;  ///< an output, brought to the host
  std::uint32_t poison_ = 0;
  std::vector<std::uint64_t> input_checksums_;
  std::uint32_t speckle_pattern_ = 0;
  std::uint64_t speckle_seed_ = 0;
  /// Outputs that passed the element-wise check for these inputs: checksum and worst error over bound.
  std::map<std::uint64_t, double> passed_;
};

}  // namespace mage
