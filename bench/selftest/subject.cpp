// SPDX-License-Identifier: Apache-2.0
#include "bench/selftest/subject.hpp"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "mage_bench/case.hpp"

namespace mage::selftest {
namespace {

bool runs_on(const VariantInfo& variant, const DeviceInfo& device) {
  if (variant.skipped) return false;
  return device.is_host ? variant.on_host() : !variant.on_host() && variant.min_cc <= device.compute_capability;
}

bool has_input(const Operands& operands) {
  return std::any_of(operands.begin(), operands.end(),
                     [](const Operand& operand) { return operand.role == Role::in && operand.elements() > 0; });
}

}  // namespace

std::string Subject::name(TimingMode mode) const {
  return to_string(BenchmarkName{std::string{family->name()}, variant->name, problem.name, mode});
}

Fixture Subject::fixture(const VariantInfo& planted, TimingMode mode) const {
  return {family, &planted, problem, mode, name(mode), Status::ok, std::nullopt, {}};
}

std::optional<Subject> smallest_subject(const Device& device) {
  std::optional<Subject> smallest;
  std::size_t fewest_bytes = 0;
  for (const auto* family : families())
    for (const auto& problem : family->bench_problems()) {
      const auto operands = family->operands(problem);
      const auto bytes = Case::device_bytes(operands);
      if (!has_input(operands) || (smallest && bytes >= fewest_bytes)) continue;
      for (const auto& variant : family->variants()) {
        if (!runs_on(variant, device.info()) || !accepts(variant, problem)) continue;
        smallest = Subject{family, &variant, problem};
        fewest_bytes = bytes;
        break;
      }
    }
  return smallest;
}

std::string filter_of(const std::string& name) {
  constexpr std::string_view special = R"(.[]{}()\*+?|^$)";
  std::string text = "^";
  for (const char c : name) {
    if (special.find(c) != std::string_view::npos) text += '\\';
    text += c;
  }
  return text + "$";
}

}  // namespace mage::selftest
