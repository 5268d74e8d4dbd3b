// SPDX-License-Identifier: Apache-2.0
// One problem on one device: inputs, fenced outputs, and every way to find out that an operation is wrong.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mage_bench/device.hpp"
#include "mage_bench/oracle.hpp"
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
/// `poison` counts the words that were never written; 0: none is looked for.
[[nodiscard]] Verdict compare(const Operand& operand, const void* got, const ExpectedTensor& expected,
                              std::uint32_t poison);

/// Over how many bytes the place of an operand is drawn where it is measured.
inline constexpr std::size_t device_slack_bytes = std::size_t{8} << 20U;
inline constexpr std::size_t host_slack_bytes = std::size_t{128} << 10U;  // fences are read behind every call there

struct CaseOptions {
  std::size_t slack_bytes = 0;           ///< over which place() draws where an operand lies; 0: it cannot
  std::optional<Trials::Border> border;  ///< set: operands begin or end where nobody may read or write
  std::uint64_t secret = 1;              ///< what disturb() and spoil() do follows from it and from nothing else
};

class Case {
 public:
  /// Allocates fenced buffers and uploads the inputs. The oracle must outlive the case.
  Case(Device& device, const Oracle& oracle, const CaseOptions& options = {});
  ~Case();
  Case(const Case&) = delete;
  Case& operator=(const Case&) = delete;

  [[nodiscard]] Launch bind(const VariantInfo& variant) const;

  /// After the oracle has other inputs: they take the place of the old ones, at the same addresses.
  void reload();
  /// Draws anew where every operand lies; launches must be bound again. Needs slack.
  void place(std::uint64_t seed);
  /// Of each operand, bytes from the beginning of its memory.
  [[nodiscard]] std::vector<std::size_t> offsets() const;

  /// Enqueues filling all outputs with a NaN pattern that no earlier call used.
  void poison();
  /// Enqueues flipping a bit of each element of all outputs: unlike poison, nothing that can be recognised.
  void spoil();
  /// Enqueues the accesses of spoil() and changes nothing.
  void touch();
  /// Enqueues what makes a call's answer known before it: one of two sets of inputs at random, and a few spoilt
  /// elements of each output. Costs no cache. Nothing without a variation of the oracle. `set` names the set; without
  /// it, one is drawn.
  void disturb(std::optional<int> set = {});
  /// As disturb(), by a kernel that a dependent launch overtakes unless it waits.
  void disturb_late();
  /// Enqueues looking at those elements, and at some that must differ between the sets.
  void inspect();
  /// As inspect(), by a kernel that depends on the operation by programmatic dependent launch.
  void inspect_as_dependent();
  /// Which set of inputs is in place: 0 or 1.
  [[nodiscard]] int set() const { return question_.set; }
  /// Waits. Why anything that inspect() saw since the last call was wrong; empty where nothing was.
  [[nodiscard]] std::string found();

  /// A number that nobody knows before, another one each time.
  [[nodiscard]] std::uint64_t next_secret();

  /// A checksum of the outputs as they are now, without waiting for what was enqueued.
  [[nodiscard]] std::uint64_t glance();

  /// Waits, then judges all of the outputs for the inputs that are in place. See Verdict.
  /// Bits whose checksum equals that of bits that passed for these inputs pass at once.
  [[nodiscard]] Verdict check();
  /// Enqueues judging all elements of the outputs; found() says what came of it.
  void judge();

  /// The operation on other input memory, with other values, and the same outputs: see spoil_copies().
  [[nodiscard]] Launch bind_to_copies(const VariantInfo& variant) const;
  /// Enqueues spoiling the copies of the inputs, those of floating-point values: an integer may be an index. Needs
  /// slack.
  void spoil_copies();
  /// Waits. Undoes it. In words, which of them an operation changed; empty where none.
  [[nodiscard]] std::string unspoil_copies();

  /// Waits. What an operation changed and may not: a fence around an operand or its scratch, or an input. In words;
  /// empty where nothing was. Restores all of it.
  [[nodiscard]] std::string damage();
  /// Inputs, their copies and fences as they were at first, whatever an operation did to them; what was found is
  /// forgotten. From the oracle's memory: nothing on the device is taken for right.
  void restore();

  /// The raw pointers, in operand order.
  [[nodiscard]] const Pointers& pointers() const { return *pointers_; }
  [[nodiscard]] std::vector<std::byte> read(std::size_t operand_index);

  /// Bytes that a case of these operands takes on its device: the operands alone, and with all that measuring needs but
  /// a variant's scratch.
  [[nodiscard]] static std::size_t device_bytes(const Operands& operands);
  [[nodiscard]] static std::size_t measured_bytes(const Operands& operands);
  /// Bytes on the host, those of its oracle and of a check.
  [[nodiscard]] static std::size_t host_bytes(const Operands& operands);

 private:
  struct Buffer;
  struct Memory;
  struct Right;

  [[nodiscard]] std::byte* payload_of_copy(std::size_t operand) const;
  void load_copies();
  void load_inputs();
  void put_in_place(int set);
  void bind_pointers();
  void make_tables();
  [[nodiscard]] const Right& right(std::size_t output, int set);
  void spoil_outputs(std::uint64_t secret);
  [[nodiscard]] std::string in_words(const Findings& findings) const;
  void mend_fences();
  [[nodiscard]] std::vector<std::uint64_t> checksums(Role role);
  [[nodiscard]] std::string changed_input();
  void spoil_copies_under(std::uint64_t secret);
  [[nodiscard]] Verdict judge_outputs(std::uint64_t checksum);

  Device& device_;
  const Oracle& oracle_;
  CaseOptions options_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::vector<std::unique_ptr<Memory>> tables_, copies_;  ///< of changes and places; of inputs
  std::unique_ptr<Pointers> pointers_;
  AnyArgs args_;
  Inspection inspection_;
  std::vector<std::size_t> output_operands_;                   ///< by output: which operand it is
  std::map<std::pair<std::size_t, int>, Right> right_;         ///< by output and set
  std::vector<std::array<std::uint64_t, 2>> input_checksums_;  ///< by input, and set
  std::vector<std::byte> scratch_;                             ///< an output, brought to the host
  std::uint32_t poison_ = 0;
  Question question_;
  std::uint64_t secrets_ = 0, secret_of_copies_ = 0;
  /// Outputs that passed for these inputs: set and checksum, and worst error over bound.
  std::map<std::pair<int, std::uint64_t>, double> passed_;
};

}  // namespace mage
