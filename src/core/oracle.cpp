// SPDX-License-Identifier: Apache-2.0
#include "mage_bench/oracle.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "mage_bench/parallel.hpp"
#include "mage_bench/random.hpp"

namespace mage {
namespace {

/// Random numbers for one purpose under one secret.
class Draws {
 public:
  Draws(std::uint64_t secret, std::uint32_t purpose) : secret_{secret}, purpose_{purpose} {}
  /// Below `limit`.
  std::uint64_t operator()(std::uint64_t limit) {
    return random_bits({count_++, purpose_, 0, 0x0ACEU}, secret_) % limit;
  }

 private:
  std::uint64_t secret_;
  std::uint32_t purpose_, count_ = 0;
};

/// Exchanges pairs of elements: whatever an operand holds, it then holds the same values. Integers stay where they are:
/// an order among them, as that of row offsets, may be part of the problem.
void exchange_pairs(const Operand& operand, std::vector<std::byte>& bytes, Draws& draw) {
  constexpr std::uint64_t most_pairs = 32, elements_a_pair = 64;
  const auto elements = static_cast<std::uint64_t>(operand.elements());
  if (elements < 2 || !is_floating(operand.dtype)) return;
  const auto size = size_of(operand.dtype);
  const auto pairs = std::clamp<std::uint64_t>(elements / elements_a_pair, 1, most_pairs);
  for (std::uint64_t i = 0; i < pairs; ++i) {
    auto* a = bytes.data() + draw(elements) * size;
    auto* b = bytes.data() + draw(elements) * size;
    if (a != b) std::swap_ranges(a, a + size, b);
  }
}

/// Calls body(i) for each element of [0, elements) whose bytes differ, in order.
template <class Body>
void for_each_difference(const void* a, const void* b, std::size_t size, std::uint64_t elements, const Body& body) {
  constexpr std::uint64_t chunk = 4096;
  const auto* left = static_cast<const std::byte*>(a);
  const auto* right = static_cast<const std::byte*>(b);
  std::mutex merge;
  std::vector<std::uint64_t> chunks;
  parallel_blocks(static_cast<int64>((elements + chunk - 1) / chunk), 64, [&](int64 begin, int64 end) {
    std::vector<std::uint64_t> found;
    for (auto k = static_cast<std::uint64_t>(begin); k < static_cast<std::uint64_t>(end); ++k) {
      const auto first = k * chunk, count = std::min(chunk, elements - first);
      if (std::memcmp(left + first * size, right + first * size, count * size) != 0) found.push_back(k);
    }
    const std::scoped_lock lock{merge};
    chunks.insert(chunks.end(), found.begin(), found.end());
  });
  std::sort(chunks.begin(), chunks.end());
  for (const auto k : chunks)
    for (auto i = k * chunk; i < std::min(elements, (k + 1) * chunk); ++i)
      if (std::memcmp(left + i * size, right + i * size, size) != 0) body(i);
}

std::uint64_t bits_at(const std::vector<std::byte>& bytes, std::size_t size, std::uint64_t element) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, bytes.data() + element * size, size);
  return bits;
}

/// No value is right for both.
bool tells(double a, float a_bound, double b, float b_bound) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) != std::isnan(b);
  const double apart = std::fabs(a - b);
  return apart > static_cast<double>(a_bound) + static_cast<double>(b_bound);  // not where both are one infinity
}

/// What differs between an output's right values under one set and the other.
Variation::Output difference(const ExpectedTensor& is, ExpectedTensor& other) {
  constexpr std::size_t dense_share = 4;  // a list takes 24 bytes an element, a tensor 12
  Variation::Output found;
  found.norm_bound = other.norm_bound;
  const auto count = is.value.size();
  std::size_t differing = 0;
  const auto add = [&](std::uint64_t i) {
    if (++differing * dense_share <= count) found.elements.push_back({i, other.value[i], other.bound[i]});
  };
  for_each_difference(is.value.data(), other.value.data(), sizeof(double), count, add);
  for_each_difference(is.bound.data(), other.bound.data(), sizeof(float), count, [&](std::uint64_t i) {
    if (std::bit_cast<std::uint64_t>(is.value[i]) == std::bit_cast<std::uint64_t>(other.value[i])) add(i);
  });
  if (differing * dense_share > count) {
    found.elements = {};
    found.dense = std::move(other);
  }
  std::sort(found.elements.begin(), found.elements.end(),
            [](const Amendment& a, const Amendment& b) { return a.element < b.element; });
  return found;
}

/// The element of an output that lies where an input's does: in its row and its column, where both have them.
std::uint64_t counterpart(const Operand& input, std::uint64_t element, const Operand& output, Draws& draw) {
  const auto along = [&](int64 in, std::uint64_t index, int64 out) {
    if (out <= 1) return std::uint64_t{0};
    return in <= 1 ? draw(static_cast<std::uint64_t>(out)) : index % static_cast<std::uint64_t>(out);
  };
  const auto input_cols = static_cast<std::uint64_t>(input.cols), output_cols = static_cast<std::uint64_t>(output.cols);
  return along(input.rows, element / input_cols, output.rows) * output_cols +
         along(input.cols, element % input_cols, output.cols);
}

}  // namespace

Oracle::Oracle(const Family& family, AnyProblem problem, std::uint32_t input_epoch, Oracle* old)
    : family_{family}, problem_{std::move(problem)}, operands_{family.operands(problem_)} {
  if (old != nullptr) {
    inputs_ = std::move(old->inputs_);
    changed_ = std::move(old->changed_);
    expected_ = std::move(old->expected_);
    other_ = std::move(old->other_);
  }
  inputs_.resize(operands_.size());
  for (std::size_t i = 0; i < operands_.size(); ++i)
    if (operands_[i].role != Role::in) inputs_[i].clear();
  refresh(input_epoch);
}

void Oracle::refresh(std::uint32_t input_epoch) {
  variation_ = {};
  set_ = 0;
  std::vector<void*> host(operands_.size(), nullptr);
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    auto operand = operands_[i];
    if (operand.role != Role::in) continue;
    // Far from the seeds that problems use, so that no epoch repeats another problem's values.
    operand.seed += static_cast<uint64>(input_epoch) << 32U;
    inputs_[i].resize(operand.bytes());
    generate(operand, static_cast<std::uint32_t>(i), inputs_[i].data());
    host[i] = inputs_[i].data();
  }
  const Pointers inputs{std::move(host)};
  family_.derive(problem_, inputs);
  ask_reference(inputs, expected_);
}

void Oracle::ask_reference(const Pointers& inputs, Expected& expected) const {
  for (auto& tensor : expected) tensor.norm_bound = 0;  // not every family has one
  family_.reference(problem_, inputs, expected);
}

void Oracle::vary(std::uint64_t secret) {
  if (set_ == 1) exchange();
  variation_ = {};
  Draws draw{secret, 0};
  changed_ = inputs_;
  std::vector<void*> host(operands_.size(), nullptr);
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    if (operands_[i].role != Role::in) continue;
    exchange_pairs(operands_[i], changed_[i], draw);
    host[i] = changed_[i].data();
  }
  const Pointers inputs{std::move(host)};
  family_.derive(problem_, inputs);
  ask_reference(inputs, other_);

  variation_.inputs.resize(operands_.size());
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    const auto size = size_of(operands_[i].dtype);
    if (operands_[i].role == Role::in)
      for_each_difference(inputs_[i].data(), changed_[i].data(), size,
                          static_cast<std::uint64_t>(operands_[i].elements()), [&](std::uint64_t element) {
                            variation_.inputs[i].push_back(
                                {element, {bits_at(inputs_[i], size, element), bits_at(changed_[i], size, element)}});
                          });
  }
  for (std::size_t k = 0; k < expected_.size(); ++k)
    variation_.outputs.push_back(difference(expected_.at(k), other_.at(k)));
  choose_places(secret);
}

/// Half of the places lie where inputs were changed, as many for one input as for another, and half anywhere.
void Oracle::choose_places(std::uint64_t secret) {
  constexpr int places = 2048;
  constexpr int tries = 8;                    // for a place that tells the sets apart, or where a flipped bit shows
  constexpr double smallest_flip = 1. / 128;  // of a value: src/device/inspection.hpp
  constexpr double infinity = std::numeric_limits<double>::infinity();
  std::vector<std::size_t> changed;
  for (std::size_t i = 0; i < operands_.size(); ++i)
    if (!variation_.inputs[i].empty()) changed.push_back(i);
  std::size_t output = 0;
  for (const auto& operand : operands_) {
    if (operand.role != Role::out) continue;
    Draws draw{secret, 1 + static_cast<std::uint32_t>(output)};
    const auto& was = expected_.at(output);
    const auto& is = variation_.outputs.at(output++);
    const auto elements = static_cast<std::uint64_t>(was.value.size());
    const auto other_at = [&](std::uint64_t element) -> std::pair<double, float> {
      if (!is.dense.value.empty()) return {is.dense.value[element], is.dense.bound[element]};
      const auto found = std::lower_bound(is.elements.begin(), is.elements.end(), element,
                                          [](const Amendment& a, std::uint64_t e) { return a.element < e; });
      if (found == is.elements.end() || found->element != element) return {was.value[element], was.bound[element]};
      return {found->value, found->bound};
    };
    const auto telling = [&](std::uint64_t element) {
      const auto [value, bound] = other_at(element);
      return tells(was.value[element], was.bound[element], value, bound);
    };
    const auto where_inputs_changed = [&]() {
      const auto i = changed[draw(changed.size())];
      const auto& changes = variation_.inputs[i];
      return counterpart(operands_[i], changes[draw(changes.size())].element, operand, draw) % elements;
    };
    auto& chosen = variation_.places.emplace_back();
    auto& told = variation_.telling.emplace_back(0);
    for (int i = 0; i < places && elements > 0; ++i) {
      std::uint64_t element = 0;
      for (int k = 0; k < tries; ++k) {
        const bool changes = i % 2 == 0 && !changed.empty();
        element = changes ? where_inputs_changed() : draw(elements);
        if (changes ? telling(element)
                    : std::fabs(was.value[element]) * smallest_flip > static_cast<double>(was.bound[element]))
          break;
      }
      told += telling(element) ? 1 : 0;
      OutputPlace place;
      place.element = element;
      const std::pair<double, float> expected[2]{{was.value[element], was.bound[element]}, other_at(element)};
      for (int set = 0; set < 2; ++set) {
        const auto [value, bound] = expected[set];
        // One step outwards: |got - value| <= bound is rounded, too.
        const bool between = std::isfinite(value) && !std::isnan(bound);
        place.low[set] = between ? std::nextafter(value - static_cast<double>(bound), -infinity) : value;
        place.high[set] = between ? std::nextafter(value + static_cast<double>(bound), infinity) : value;
      }
      chosen.push_back(place);
    }
  }
}

void Oracle::exchange() const {
  for (std::size_t k = 0; k < variation_.outputs.size(); ++k) {
    auto& is = expected_.at(k);
    auto& other = variation_.outputs[k];
    std::swap(is.norm_bound, other.norm_bound);
    if (!other.dense.value.empty()) {
      std::swap(is.value, other.dense.value);
      std::swap(is.bound, other.dense.bound);
    }
    for (auto& amendment : other.elements) {
      std::swap(is.value[amendment.element], amendment.value);
      std::swap(is.bound[amendment.element], amendment.bound);
    }
  }
  set_ = 1 - set_;
}

const Expected& Oracle::expected(int set) const {
  if (set != 0 && !varied()) throw std::logic_error{"Oracle::expected: set 1 was asked for before vary()"};
  if (set != set_) exchange();
  return expected_;
}

std::size_t Oracle::host_bytes(const Operands& operands) {
  std::size_t total = 0;
  for (const auto& operand : operands) {
    const auto elements = static_cast<std::size_t>(operand.elements());
    // Inputs of both sets, and what both lead to.
    total += 2 * (operand.role == Role::in ? operand.bytes() : elements * (sizeof(double) + sizeof(float)));
  }
  return total;
}

}  // namespace mage
