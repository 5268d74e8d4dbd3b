// SPDX-License-Identifier: Apache-2.0
// What a Case is made of, for the files that it is written in.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>

#include "mage_bench/case.hpp"

namespace mage {

namespace case_memory {

inline constexpr std::size_t alignment = 256;
inline constexpr std::size_t fence_bytes = 4096;
inline constexpr std::uint32_t fence_word = 0xFE9CE5A1U;

}  // namespace case_memory

[[nodiscard]] inline std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

[[nodiscard]] inline std::string element_name(const Operand& operand, std::uint64_t element) {
  const auto cols = static_cast<std::uint64_t>(std::max<int64>(operand.cols, 1));
  return operand.name + "[" + std::to_string(element / cols) + "," + std::to_string(element % cols) + "]";
}

/// Memory of a device, by its owner.
struct Case::Memory {
  Memory(Device& owner, std::size_t bytes) : device{owner}, begin{owner.allocate(std::max<std::size_t>(bytes, 1))} {}
  ~Memory() { device.deallocate(begin); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  template <class T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(begin);
  }
  Device& device;
  void* begin;
};

/// [front fence | payload | rear fence]; the front fence also covers the elements of a misaligning offset, and both
/// share the slack.
struct Case::Buffer {
  Buffer(Device& owner, const Operand& what, const CaseOptions& options)
      : device{owner}, operand{what}, payload_bytes{what.bytes()} {
    if (options.border) {
      auto* trials = owner.trials();
      if (trials == nullptr) throw std::logic_error{"Case: this device has no memory at a border"};
      // At the rear border the payload ends less than one vector in front of it.
      bytes = rounded_up(std::max<std::size_t>(what.offset_bytes() + payload_bytes, 1), Trials::vector_bytes);
      base = static_cast<std::byte*>(trials->allocate_at_border(bytes, *options.border));
      front = what.offset_bytes();
    } else {
      bytes = 2 * case_memory::fence_bytes + what.offset_bytes() + payload_bytes + options.slack_bytes;
      base = static_cast<std::byte*>(owner.allocate(bytes));
      front = case_memory::fence_bytes + what.offset_bytes();
    }
    device.fill(base, case_memory::fence_word, bytes);
  }
  ~Buffer() { device.deallocate(base); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  [[nodiscard]] std::byte* payload() const { return base + front; }
  [[nodiscard]] bool is_input() const { return operand.role == Role::in; }
  void move_to(std::size_t slack) {
    front = case_memory::fence_bytes + slack + operand.offset_bytes();
    device.fill(base, case_memory::fence_word, bytes);
  }
  void inspect_fences(std::uint32_t tag) const {
    device.inspect_fill(base, case_memory::fence_word, front, tag);
    device.inspect_fill(payload() + payload_bytes, case_memory::fence_word, bytes - front - payload_bytes, tag);
  }
  void mend_fences() const {
    device.fill(base, case_memory::fence_word, front);
    device.fill(payload() + payload_bytes, case_memory::fence_word, bytes - front - payload_bytes);
  }

  Device& device;
  const Operand& operand;
  std::size_t payload_bytes, bytes = 0;
  std::byte* base = nullptr;
  std::size_t front = 0;  ///< bytes of `base` before the payload
};

/// An output's right values where the device can read them.
struct Case::Right {
  const double* value = nullptr;
  const float* bound = nullptr;
  double norm_bound = 0;
  std::shared_ptr<Memory> values, bounds;  ///< on a device that does not read the host's memory
};

}  // namespace mage
