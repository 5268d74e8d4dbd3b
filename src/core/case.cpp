// SPDX-License-Identifier: Apache-2.0
#include "mage_bench/case.hpp"

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <utility>

#include "core/case_parts.hpp"
#include "mage_bench/random.hpp"

namespace mage {

using case_memory::alignment;
using case_memory::fence_bytes;

namespace {

// A quiet NaN whose payload neither the hardware nor our inputs produce, and another one on every call.
std::uint32_t next_poison() {
  static std::atomic<std::uint32_t> calls{0};
  const std::uint32_t scattered = (++calls * 0x9E3779U) & 0x3FFFFFU;
  return 0x7FC00000U | (scattered == 0 || scattered == 0x3FFFFFU ? 0x2A5A5AU : scattered);
}

std::uint64_t mixed(std::uint64_t secret, std::uint64_t number, std::uint32_t purpose) {
  return random_bits({static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32U), purpose, 0},
                     secret);
}

}  // namespace

Case::Case(Device& device, const Oracle& oracle, const CaseOptions& options)
    : device_{device}, oracle_{oracle}, options_{options} {
  for (const auto& operand : oracle_.operands()) {
    if (operand.role == Role::out) output_operands_.push_back(buffers_.size());
    buffers_.push_back(std::make_unique<Buffer>(device_, operand, options_));
  }
  bind_pointers();
  reload();
}

Case::~Case() = default;

void Case::bind_pointers() {
  std::vector<void*> pointers;
  pointers.reserve(buffers_.size());
  for (const auto& buffer : buffers_) pointers.push_back(buffer->payload());
  pointers_ = std::make_unique<Pointers>(std::move(pointers));
  args_ = oracle_.family().bind(oracle_.problem(), *pointers_);
  int input = 0, output = 0;
  for (const auto& buffer : buffers_)
    if (buffer->is_input() && input < inspection_.input_count)
      inspection_.inputs[input++].payload = buffer->payload();
    else if (!buffer->is_input() && output < inspection_.output_count)
      inspection_.outputs[output++].payload = buffer->payload();
}

Launch Case::bind(const VariantInfo& variant) const { return prepare(variant, oracle_.problem(), args_); }

void Case::reload() {
  right_.clear();
  passed_.clear();
  input_checksums_.clear();
  if (options_.slack_bytes > 0 && !device_.info().is_host && copies_.empty())
    for (const auto& buffer : buffers_)
      copies_.push_back(buffer->is_input()
                            ? std::make_unique<Memory>(device_, buffer->operand.offset_bytes() + buffer->payload_bytes)
                            : nullptr);
  load_copies();
  load_inputs();
  for (const auto& buffer : buffers_) {
    if (!buffer->is_input()) continue;
    const auto sum = device_.checksum(buffer->payload(), buffer->payload_bytes);
    input_checksums_.push_back({sum, sum});
  }
  make_tables();
}

/// What disturb() and inspect() need, on the device. Set 1's input checksums are those of the inputs with set 1's
/// elements.
void Case::make_tables() {
  inspection_ = {};
  tables_.clear();
  if (!oracle_.varied()) return;
  const auto& variation = oracle_.variation();
  const auto table = [&](const auto& entries) {
    const auto bytes = entries.size() * sizeof entries[0];
    tables_.push_back(std::make_unique<Memory>(device_, bytes));
    if (bytes != 0) device_.upload(tables_.back()->begin, entries.data(), bytes);
    return tables_.back()->begin;
  };
  std::size_t output = 0;
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const auto& operand = buffers_[i]->operand;
    auto& count = buffers_[i]->is_input() ? inspection_.input_count : inspection_.output_count;
    if (count == Inspection::most_operands)
      throw std::logic_error{"Case: a problem has more than " + std::to_string(Inspection::most_operands) +
                             " inputs or outputs, which Inspection has no room for"};
    if (buffers_[i]->is_input()) {
      const auto& changes = variation.inputs[i];
      inspection_.inputs[count++] = {buffers_[i]->payload(), static_cast<const InputChange*>(table(changes)),
                                     static_cast<int>(changes.size()), static_cast<int>(size_of(operand.dtype))};
    } else {
      const auto& places = variation.places.at(output++);
      inspection_.outputs[count++] = {buffers_[i]->payload(), static_cast<const OutputPlace*>(table(places)),
                                      static_cast<int>(places.size()), operand.dtype};
    }
  }
  for (const int set : {1, 0}) {
    put_in_place(set);
    std::size_t input = 0;
    for (const auto& buffer : buffers_)
      if (buffer->is_input())
        input_checksums_[input++][static_cast<std::size_t>(set)] =
            device_.checksum(buffer->payload(), buffer->payload_bytes);
  }
}

/// Enqueues it, and leaves the outputs alone.
void Case::put_in_place(int set) {
  auto inputs = inspection_;
  inputs.output_count = 0;
  if (inputs.input_count > 0) device_.disturb(inputs, {.set = set, .secret = 0, .tag = 0});
  question_.set = set;
}

std::byte* Case::payload_of_copy(std::size_t operand) const {
  return copies_[operand]->as<std::byte>() + buffers_[operand]->operand.offset_bytes();
}

void Case::load_copies() {
  for (std::size_t i = 0; i < copies_.size(); ++i)
    if (copies_[i]) device_.upload(payload_of_copy(i), oracle_.input(i).data(), buffers_[i]->payload_bytes);
}

void Case::load_inputs() {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    if (!buffers_[i]->is_input()) continue;
    auto& buffer = *buffers_[i];
    if (copies_.empty())
      device_.upload(buffer.payload(), oracle_.input(i).data(), buffer.payload_bytes);
    else
      device_.copy(buffer.payload(), payload_of_copy(i), buffer.payload_bytes);
  }
  question_.set = 0;
}

void Case::place(std::uint64_t seed) {
  if (options_.slack_bytes == 0) throw std::logic_error{"Case::place: this case has no slack"};
  for (std::size_t i = 0; i < buffers_.size(); ++i)
    buffers_[i]->move_to(mixed(seed, i, 0x91ACU) % (options_.slack_bytes / alignment + 1) * alignment);
  bind_pointers();
  load_inputs();
}

std::vector<std::size_t> Case::offsets() const {
  std::vector<std::size_t> all;
  all.reserve(buffers_.size());
  for (const auto& buffer : buffers_) all.push_back(buffer->front);
  return all;
}

std::uint64_t Case::next_secret() { return mixed(options_.secret, ++secrets_, 0x5EC2U); }

void Case::poison() {
  poison_ = next_poison();
  for (auto& buffer : buffers_)
    if (!buffer->is_input()) device_.fill(buffer->payload(), poison_, buffer->payload_bytes);
}

void Case::spoil_outputs(std::uint64_t secret) {
  for (auto& buffer : buffers_)
    if (!buffer->is_input())
      device_.spoil(buffer->payload(), buffer->operand.dtype, static_cast<std::size_t>(buffer->operand.elements()),
                    secret);
}

void Case::spoil() {
  poison_ = 0;
  spoil_outputs(next_secret());
}

void Case::touch() { spoil_outputs(0); }

void Case::disturb(std::optional<int> set) {
  if (!oracle_.varied()) return;
  question_.secret = next_secret();
  question_.set = set.value_or(static_cast<int>(question_.secret >> 63U));
  question_.tag = static_cast<std::uint32_t>(question_.set);
  device_.disturb(inspection_, question_);
}

void Case::disturb_late() {
  if (!oracle_.varied()) return;
  // The other set than the one in place: what is read too early is then wrong.
  question_.secret = next_secret();
  question_.set = 1 - question_.set;
  question_.tag = static_cast<std::uint32_t>(question_.set);
  device_.disturb_late(inspection_, question_);
}

void Case::inspect() {
  if (oracle_.varied()) device_.inspect(inspection_, question_);
}

void Case::inspect_as_dependent() {
  if (oracle_.varied()) device_.inspect_as_dependent(inspection_, question_);
}

std::uint64_t Case::glance() {
  auto* trials = device_.trials();
  if (trials == nullptr) throw std::logic_error{"Case::glance: this device always waits"};
  std::uint64_t sum = 0;
  for (const auto& buffer : buffers_)
    if (!buffer->is_input())
      sum = sum * 0x100000001B3ULL + trials->checksum_meanwhile(buffer->payload(), buffer->payload_bytes);
  return sum;
}

Launch Case::bind_to_copies(const VariantInfo& variant) const {
  std::vector<void*> pointers;
  pointers.reserve(buffers_.size());
  for (std::size_t i = 0; i < buffers_.size(); ++i)
    pointers.push_back(buffers_[i]->is_input() && !copies_.empty() ? payload_of_copy(i) : buffers_[i]->payload());
  const Pointers bound{std::move(pointers)};
  return prepare(variant, oracle_.problem(), oracle_.family().bind(oracle_.problem(), bound));
}

void Case::spoil_copies_under(std::uint64_t secret) {
  for (std::size_t i = 0; i < copies_.size(); ++i) {
    const auto& operand = buffers_[i]->operand;
    if (copies_[i] && is_floating(operand.dtype))
      device_.spoil(payload_of_copy(i), operand.dtype, static_cast<std::size_t>(operand.elements()), secret);
  }
}

void Case::spoil_copies() {
  secret_of_copies_ = next_secret();
  spoil_copies_under(secret_of_copies_);
}

std::string Case::unspoil_copies() {
  spoil_copies_under(secret_of_copies_);  // a bit that is flipped twice is what it was
  std::size_t input = 0;
  for (std::size_t i = 0; i < copies_.size(); ++i) {
    if (!copies_[i]) continue;
    const auto& buffer = *buffers_[i];
    const auto sum = device_.checksum(payload_of_copy(i), buffer.payload_bytes);
    if (sum != input_checksums_[input++][0])
      return "input changed: " + buffer.operand.name + ", where it lay elsewhere";
  }
  return {};
}

void Case::restore() {
  device_.wait_idle();
  try {
    static_cast<void>(device_.findings());
  } catch (const std::exception&) {
    static_cast<void>(device_.findings());  // an error of a launch that nobody asked for yet is told once
  }
  mend_fences();
  load_copies();
  load_inputs();
  device_.synchronize();
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
  for (const auto& operand : operands) total += operand.bytes() + 2 * fence_bytes + operand.offset_bytes();
  return total;
}

std::size_t Case::measured_bytes(const Operands& operands) {
  std::size_t total = device_bytes(operands);
  for (const auto& operand : operands) {
    const auto elements = static_cast<std::size_t>(operand.elements());
    // Copies of inputs; right values under both sets.
    total += device_slack_bytes + (operand.role == Role::in ? operand.bytes() + operand.offset_bytes()
                                                            : 2 * elements * (sizeof(double) + sizeof(float)));
  }
  return total;
}

std::size_t Case::host_bytes(const Operands& operands) {
  std::size_t largest_output = 0;
  for (const auto& operand : operands)
    if (operand.role == Role::out) largest_output = std::max(largest_output, operand.bytes());
  return Oracle::host_bytes(operands) + largest_output;
}

}  // namespace mage
