// SPDX-License-Identifier: Apache-2.0
// The operation of known duration as a family of its own, which no registry knows: it copies a few words and spins.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mage_bench/case.hpp"
#include "mage_bench/device.hpp"
#include "mage_bench/registry.hpp"

namespace mage::selftest {

/// One variant of the spin.
struct SpinVariant {
  std::string name;
  double factor = 1;         ///< on the duration of the problem
  double host_sleep_us = 0;  ///< before it is enqueued, inside the operation
};

/// Its problems are durations. All its cases must lie on `device`, and it must outlive them.
class SpinFamily final : public Family {
 public:
  static constexpr std::size_t most_variants = 8;

  SpinFamily(Device& device, std::vector<SpinVariant> variants);
  ~SpinFamily() override;
  SpinFamily(const SpinFamily&) = delete;
  SpinFamily& operator=(const SpinFamily&) = delete;

  [[nodiscard]] static AnyProblem problem(double us);
  [[nodiscard]] std::span<const VariantInfo> spins() const { return infos_; }
  /// Makes all of its launches from now on longer by `factor`. Graphs that were captured before keep their duration.
  void set_drift(double factor) { drift_ = factor; }
  /// How long the newest launch of that variant took by its own stamps. Waits for it.
  [[nodiscard]] double stamped_us(std::size_t variant) const;

  [[nodiscard]] std::string_view name() const override { return "spin"; }
  [[nodiscard]] std::vector<AnyProblem> bench_problems() const override { return {}; }
  [[nodiscard]] std::vector<AnyProblem> test_problems() const override { return {}; }
  [[nodiscard]] std::optional<AnyProblem> parse(const std::string&) const override { return std::nullopt; }
  [[nodiscard]] Operands operands(const AnyProblem& problem) const override;
  [[nodiscard]] AnyArgs bind(const AnyProblem& problem, const Pointers& pointers) const override;
  void reference(const AnyProblem& problem, const Pointers& host_pointers, Expected& expected) const override;
  [[nodiscard]] std::string tolerance(const AnyProblem&) const override { return "equal bits"; }
  [[nodiscard]] Work work(const AnyProblem& problem) const override;

 private:
  struct Args;
  template <std::size_t Index>
  static Launch prepare_variant(detail::ErasedFunction, const void* problem, const void* args);
  [[nodiscard]] Launch launch(std::size_t variant, double us, const Args& args) const;

  Device& device_;
  std::vector<SpinVariant> variants_;
  std::vector<VariantInfo> infos_;
  std::uint64_t* stamps_ = nullptr;  // on the device, two a variant
  double drift_ = 1;
};

/// A spin that is bound to memory, for proofs that take their samples themselves.
class BoundSpin {
 public:
  BoundSpin(Device& device, double us);
  /// From the next launch on, in the same memory: what its stores cost depends on where they go.
  void set_duration(double us) { family_.set_drift(us / bound_us_); }
  /// Once, poisoned and checked. Throws std::runtime_error where its output is wrong.
  void verify();
  [[nodiscard]] Launch& launch() { return launch_; }
  [[nodiscard]] double stamped_us() const { return family_.stamped_us(0); }

 private:
  Device& device_;
  double bound_us_;
  SpinFamily family_;
  Oracle oracle_;
  Case case_;
  Launch launch_;
};

/// Spins until an idle clock has risen, as the first round of a measurement does. Nothing on the host.
void raise_clock(Device& device);

}  // namespace mage::selftest
