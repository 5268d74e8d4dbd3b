// SPDX-License-Identifier: Apache-2.0
#include "mage_bench/case.hpp"

#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <stdexcept>

#include "mage_bench/parallel.hpp"
#include "mage_bench/random.hpp"

namespace mage {
namespace {

constexpr std::size_t word_bytes = 4;
constexpr std::size_t fence_bytes = 512;  // keeps the payload's 256-byte alignment
constexpr std::uint32_t fence_word = 0xFE9CE5A1U;

// A quiet NaN whose payload neither the hardware nor our inputs produce, and another one on every call.
std::uint32_t next_poison() {
  static std::atomic<std::uint32_t> calls{0};
  const std::uint32_t scattered = (++calls * 0x9E3779U) & 0x3FFFFFU;
  return 0x7FC00000U | (scattered == 0 || scattered == 0x3FFFFFU ? 0x2A5A5AU : scattered);
}

std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

template <class T>
Verdict compare_as(const Operand& operand, const void* got_bytes, const ExpectedTensor& expected,
                   std::uint32_t poison) {
  constexpr std::size_t words = sizeof(T) / word_bytes;
  const auto* got = static_cast<const T*>(got_bytes);
  std::mutex merge;
  Verdict total;
  double squares = 0;  // of the errors; NaN or infinite where a value is
  std::int64_t first_wrong = -1;
  parallel_blocks(operand.elements(), 1 << 16, [&](int64 begin, int64 end) {
    Verdict block;
    double block_squares = 0;
    std::int64_t first = -1;
    for (int64 i = begin; i < end; ++i) {
      const auto index = static_cast<std::size_t>(i);
      std::uint32_t raw[words];
      std::memcpy(raw, got + i, sizeof(T));
      std::int64_t untouched = 0;
      for (const auto word : raw) untouched += word == poison ? 1 : 0;
      const double value = expected.value[index];
      const double bound = static_cast<double>(expected.bound[index]);
      const double found = static_cast<double>(got[i]);
      const double error = std::fabs(found - value);
      const bool same = (std::isnan(value) && std::isnan(found)) || found == value;
      const bool inside = untouched == 0 && (same || error <= bound);
      block.untouched_words += untouched;
      block_squares += error * error;
      if (inside) {
        if (!same && error > 0) block.worst = std::fmax(block.worst, error / bound);
        continue;
      }
      block.wrong_elements += 1;
      if (first < 0) first = i;
      if (std::isfinite(error) && bound > 0) block.worst = std::fmax(block.worst, error / bound);
    }
    const std::scoped_lock lock{merge};
    total.worst = std::fmax(total.worst, block.worst);
    squares += block_squares;
    total.wrong_elements += block.wrong_elements;
    total.untouched_words += block.untouched_words;
    if (first >= 0 && (first_wrong < 0 || first < first_wrong)) first_wrong = first;
  });
  total.ok = total.wrong_elements == 0;
  if (total.ok) {
    // Every element is inside its bound, so that an error that is no number stands where no number is expected.
    if (expected.norm_bound == 0 || !std::isfinite(squares) || std::sqrt(squares) <= expected.norm_bound) return total;
    total.ok = false;
    total.reason = "all elements of " + operand.name + " are inside their bounds, but the 2-norm of their errors, " +
                   number(std::sqrt(squares)) + ", is outside its bound " + number(expected.norm_bound) +
                   ": was a precision lowered?";
    return total;
  }
  const auto index = static_cast<std::size_t>(first_wrong);
  const auto place = operand.name + "[" + std::to_string(first_wrong / operand.cols) + "," +
                     std::to_string(first_wrong % operand.cols) + "]";
  if (total.untouched_words > 0)
    total.reason = std::to_string(total.untouched_words) + " words of output " + operand.name +
                   " were never written; first wrong element " + place;
  else
    total.reason = std::to_string(total.wrong_elements) + " of " + std::to_string(operand.elements()) +
                   " elements outside its bound; first " + place + ": got " +
                   number(static_cast<double>(got[first_wrong])) + ", expected " + number(expected.value[index]) +
                   " +- " + number(static_cast<double>(expected.bound[index]));
  return total;
}

}  // namespace

Verdict compare(const Operand& operand, const void* got, const ExpectedTensor& expected, std::uint32_t poison) {
  const auto count = static_cast<std::size_t>(operand.elements());
  if (expected.value.size() != count || expected.bound.size() != count)
    throw std::logic_error{"compare: the reference gave " + std::to_string(expected.value.size()) + " values and " +
                           std::to_string(expected.bound.size()) + " bounds for the " + std::to_string(count) +
                           " elements of " + operand.name};
  switch (operand.dtype) {
    case DType::f32: return compare_as<float>(operand, got, expected, poison);
    case DType::f64: return compare_as<double>(operand, got, expected, poison);
    case DType::i32: return compare_as<std::int32_t>(operand, got, expected, poison);
    case DType::i64: return compare_as<std::int64_t>(operand, got, expected, poison);
  }
  throw std::logic_error{"compare: unknown dtype"};
}

/// [front fence | payload | rear fence]; the front fence also covers the elements of a misaligning offset.
struct Case::Buffer {
  Buffer(Device& owner, const Operand& operand)
      : device{owner},
        role{operand.role},
        front_bytes{fence_bytes + static_cast<std::size_t>(operand.offset) * size_of(operand.dtype)},
        payload_bytes{operand.bytes()},
        base{owner.allocate(front_bytes + payload_bytes + fence_bytes)} {
    device.fill(base, fence_word, (front_bytes + payload_bytes + fence_bytes) / word_bytes);
  }
  ~Buffer() { device.deallocate(base); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  [[nodiscard]] std::byte* payload() const { return static_cast<std::byte*>(base) + front_bytes; }
  [[nodiscard]] std::size_t words() const { return payload_bytes / word_bytes; }
  [[nodiscard]] bool intact() const {
    std::vector<std::uint32_t> fence((front_bytes + fence_bytes) / word_bytes);
    device.download(fence.data(), base, front_bytes);
    device.download(fence.data() + front_bytes / word_bytes, payload() + payload_bytes, fence_bytes);
    for (const auto word : fence)
      if (word != fence_word) return false;
    return true;
  }

  Device& device;
  Role role;
  std::size_t front_bytes, payload_bytes;
  void* base;
};

Oracle::Oracle(const Family& family, AnyProblem problem, std::uint32_t input_epoch)
    : family_{family}, problem_{std::move(problem)}, operands_{family.operands(problem_)}, inputs_(operands_.size()) {
  refresh(input_epoch);
}

void Oracle::refresh(std::uint32_t input_epoch) {
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
  family_.reference(problem_, inputs, expected_);
}

Case::Case(Device& device, const Oracle& oracle) : device_{device}, oracle_{oracle} {
  std::vector<void*> pointers;
  for (const auto& operand : oracle_.operands()) {
    buffers_.push_back(std::make_unique<Buffer>(device_, operand));
    pointers.push_back(buffers_.back()->payload());
  }
  pointers_ = std::make_unique<Pointers>(std::move(pointers));
  args_ = oracle_.family().bind(oracle_.problem(), *pointers_);
  reload();
}

Case::~Case() = default;

Launch Case::bind(const VariantInfo& variant) const { return prepare(variant, oracle_.problem(), args_); }

void Case::reload() {
  input_checksums_.clear();
  passed_.clear();
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    if (buffers_[i]->role != Role::in) continue;
    device_.upload(buffers_[i]->payload(), oracle_.input(i).data(), buffers_[i]->payload_bytes);
    input_checksums_.push_back(device_.checksum(buffers_[i]->payload(), buffers_[i]->words()));
  }
}

void Case::poison() {
  poison_ = next_poison();
  for (std::size_t i = 0; i < buffers_.size(); ++i)
    if (buffers_[i]->role == Role::out) device_.fill(buffers_[i]->payload(), poison_, buffers_[i]->words());
}

void Case::speckle() {
  speckle_pattern_ = next_poison();
  speckle_seed_ = speckle_pattern_;
  for (auto& buffer : buffers_)
    if (buffer->role == Role::out) device_.speckle(buffer->payload(), buffer->words(), speckle_seed_, speckle_pattern_);
}

bool Case::speckles_gone() {
  for (auto& buffer : buffers_)
    if (buffer->role == Role::out &&
        device_.count_speckles(buffer->payload(), buffer->words(), speckle_seed_, speckle_pattern_) != 0)
      return false;
  return true;
}

std::string Case::broken_fence() {
  for (std::size_t i = 0; i < buffers_.size(); ++i)
    if (!buffers_[i]->intact()) return oracle_.operands()[i].name;
  return {};
}

Verdict Case::check() {
  device_.synchronize();
  Verdict verdict;
  if (const auto name = broken_fence(); !name.empty()) {
    verdict.reason = "wrote outside " + name + ": a fence around it is broken";
    // Mend it, so that the next variant is judged by its own deeds.
    for (auto& buffer : buffers_) {
      device_.fill(buffer->base, fence_word, buffer->front_bytes / word_bytes);
      device_.fill(buffer->payload() + buffer->payload_bytes, fence_word, fence_bytes / word_bytes);
    }
    return verdict;
  }
  std::size_t input = 0;
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    if (buffers_[i]->role != Role::in) continue;
    auto& buffer = *buffers_[i];
    if (device_.checksum(buffer.payload(), buffer.words()) == input_checksums_[input++]) continue;
    device_.upload(buffer.payload(), oracle_.input(i).data(), buffer.payload_bytes);
    verdict.reason = "input changed: " + oracle_.operands()[i].name + " holds other values than before the call";
    return verdict;
  }
  verdict.output_checksum = 0;
  for (std::size_t i = 0; i < buffers_.size(); ++i)
    if (buffers_[i]->role == Role::out)
      verdict.output_checksum =
          verdict.output_checksum * 0x100000001B3ULL + device_.checksum(buffers_[i]->payload(), buffers_[i]->words());
  if (const auto known = passed_.find(verdict.output_checksum); known != passed_.end()) {
    verdict.ok = true;
    verdict.worst = known->second;
    return verdict;
  }
  std::size_t output = 0;
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    if (buffers_[i]->role != Role::out) continue;
    auto& buffer = *buffers_[i];
    scratch_.resize(buffer.payload_bytes);
    device_.download(scratch_.data(), buffer.payload(), buffer.payload_bytes);
    auto part = compare(oracle_.operands()[i], scratch_.data(), oracle_.expected().at(output++), poison_);
    part.worst = std::fmax(part.worst, verdict.worst);
    part.output_checksum = verdict.output_checksum;
    verdict = part;
    if (!verdict.ok) return verdict;
  }
  passed_[verdict.output_checksum] = verdict.worst;
  return verdict;
}

std::vector<std::byte> Case::read(std::size_t operand_index) {
  device_.synchronize();
  const auto& buffer = *buffers_.at(operand_index);
  std::vector<std::byte> bytes(buffer.payload_bytes);
  device_.download(bytes.data(), buffer.payload(), buffer.payload_bytes);
  return bytes;
}

std::size_t Case::device_bytes(const Operands& operands) {
  std::size_t total = 0;
  for (const auto& operand : operands)
    total += operand.bytes() + 2 * fence_bytes + static_cast<std::size_t>(operand.offset) * size_of(operand.dtype);
  return total;
}

std::size_t Case::host_bytes(const Operands& operands) {
  std::size_t total = 0;
  for (const auto& operand : operands) {
    total += operand.bytes();
    if (operand.role == Role::out)
      total += static_cast<std::size_t>(operand.elements()) * (sizeof(double) + sizeof(float));
  }
  return total;
}

}  // namespace mage
