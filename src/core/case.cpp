// SPDX-License-Identifier: Apache-2.0
#include "mage_bench/case.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "mage_bench/random.hpp"

namespace mage {
namespace {

constexpr std::size_t alignment = 256;
constexpr std::size_t fence_bytes = 4096;
constexpr std::uint32_t fence_word = 0xFE9CE5A1U;

// A quiet NaN whose payload neither the hardware nor our inputs produce, and another one on every call.
std::uint32_t next_poison() {
  static std::atomic<std::uint32_t> calls{0};
  const std::uint32_t scattered = (++calls * 0x9E3779U) & 0x3FFFFFU;
  return 0x7FC00000U | (scattered == 0 || scattered == 0x3FFFFFU ? 0x2A5A5AU : scattered);
}

std::size_t rounded_up(std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

std::size_t offset_bytes(const Operand& operand) {
  return static_cast<std::size_t>(operand.offset) * size_of(operand.dtype);
}

std::uint64_t mixed(std::uint64_t secret, std::uint64_t number, std::uint32_t purpose) {
  const auto bits = philox({static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32U), purpose, 0},
                           {static_cast<std::uint32_t>(secret), static_cast<std::uint32_t>(secret >> 32U)});
  return std::uint64_t{bits[0]} << 32U | bits[1];
}

std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

std::string element_name(const Operand& operand, std::uint64_t element) {
  const auto cols = static_cast<std::uint64_t>(std::max<int64>(operand.cols, 1));
  return operand.name + "[" + std::to_string(element / cols) + "," + std::to_string(element % cols) + "]";
}

}  // namespace

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
      bytes = rounded_up(offset_bytes(what) + payload_bytes);
      base = static_cast<std::byte*>(trials->allocate_at_border(std::max(bytes, alignment), *options.border));
      // At the rear border the payload's end is as near as its alignment lets it be.
      const auto space = bytes - offset_bytes(what) - payload_bytes;
      front = offset_bytes(what) + (*options.border == Trials::Border::rear ? space / alignment * alignment : 0);
    } else {
      bytes = 2 * fence_bytes + offset_bytes(what) + payload_bytes + options.slack_bytes;
      base = static_cast<std::byte*>(owner.allocate(bytes));
      front = fence_bytes + offset_bytes(what);
    }
    device.fill(base, fence_word, bytes);
  }
  ~Buffer() { device.deallocate(base); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  [[nodiscard]] std::byte* payload() const { return base + front; }
  [[nodiscard]] bool is_input() const { return operand.role == Role::in; }
  void move_to(std::size_t slack) {
    front = fence_bytes + slack + offset_bytes(operand);
    device.fill(base, fence_word, bytes);
  }
  void inspect_fences(std::uint32_t tag) const {
    device.inspect_fill(base, fence_word, front, tag);
    device.inspect_fill(payload() + payload_bytes, fence_word, bytes - front - payload_bytes, tag);
  }
  void mend_fences() const {
    device.fill(base, fence_word, front);
    device.fill(payload() + payload_bytes, fence_word, bytes - front - payload_bytes);
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
                            ? std::make_unique<Memory>(device_, offset_bytes(buffer->operand) + buffer->payload_bytes)
                            : nullptr);
  for (std::size_t i = 0; i < copies_.size(); ++i)
    if (copies_[i])
      device_.upload(copies_[i]->as<std::byte>() + offset_bytes(buffers_[i]->operand), oracle_.input(i).data(),
                     buffers_[i]->payload_bytes);
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

void Case::load_inputs() {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    if (!buffers_[i]->is_input()) continue;
    auto& buffer = *buffers_[i];
    if (copies_.empty())
      device_.upload(buffer.payload(), oracle_.input(i).data(), buffer.payload_bytes);
    else
      device_.copy(buffer.payload(), copies_[i]->as<std::byte>() + offset_bytes(buffer.operand), buffer.payload_bytes);
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

std::string Case::found() {
  const auto findings = device_.findings();
  return findings.wrong == 0 ? std::string{} : in_words(findings);
}

std::string Case::in_words(const Findings& findings) const {
  if (findings.output == Findings::outside)
    return "wrote outside " + buffers_.at(findings.tag)->operand.name + ": a fence around it is broken";
  if (findings.output == Findings::whole) {
    const auto& operand = buffers_.at(output_operands_.at(findings.tag / 2))->operand;
    return std::to_string(findings.wrong) + " wrong elements; one is " + element_name(operand, findings.element) +
           ": got " + number(findings.got) + ", expected " + number(findings.low) + " +- " + number(findings.high);
  }
  const auto output = static_cast<std::size_t>(findings.output);
  const auto& operand = buffers_.at(output_operands_.at(output))->operand;
  const std::string text = element_name(operand, findings.element) + ": got " + number(findings.got) + ", expected " +
                           number(findings.low) + " to " + number(findings.high);
  const auto other = 1 - static_cast<int>(findings.tag % 2);
  for (const auto& place : oracle_.variation().places.at(output)) {
    if (place.element != findings.element) continue;
    const bool right_for_other = findings.got >= place.low[other] && findings.got <= place.high[other];
    if (right_for_other)
      return text +
             ", and got what is right for the inputs of an earlier call: an answer was kept, or inputs were read "
             "before they changed";
    break;
  }
  return text;
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

void Case::mend_fences() {
  for (const auto& buffer : buffers_) buffer->mend_fences();
}

std::vector<std::uint64_t> Case::checksums(Role role) {
  std::vector<Device::Region> regions;
  for (const auto& buffer : buffers_)
    if (buffer->operand.role == role) regions.push_back({buffer->payload(), buffer->payload_bytes});
  return device_.checksums(regions);
}

std::string Case::changed_input() {
  const auto sums = checksums(Role::in);
  std::size_t input = 0;
  for (const auto& buffer : buffers_) {
    if (!buffer->is_input()) continue;
    if (sums[input] != input_checksums_[input][static_cast<std::size_t>(question_.set)]) return buffer->operand.name;
    ++input;
  }
  return {};
}

const Case::Right& Case::right(std::size_t output, int set) {
  const auto& expected = oracle_.expected(set).at(output);
  const auto known = right_.find({output, set});
  // The host's sets share their memory, so pointers to it are for now only.
  if (known != right_.end() && known->second.values) return known->second;
  Right right{expected.value.data(), expected.bound.data(), expected.norm_bound, {}, {}};
  if (!device_.info().is_host) {
    const auto count = expected.value.size();
    right.values = std::make_shared<Memory>(device_, count * sizeof(double));
    right.bounds = std::make_shared<Memory>(device_, count * sizeof(float));
    right.value = right.values->as<double>();
    right.bound = right.bounds->as<float>();
    const auto* variation = oracle_.varied() ? &oracle_.variation().outputs.at(output) : nullptr;
    const auto zero = right_.find({output, 0});
    if (set == 1 && zero != right_.end() && variation != nullptr && variation->dense.value.empty()) {
      device_.copy(right.values->begin, zero->second.values->begin, count * sizeof(double));
      device_.copy(right.bounds->begin, zero->second.bounds->begin, count * sizeof(float));
      // The oracle holds set 1 now; what it exchanged for it is what is asked for.
      static_cast<void>(oracle_.expected(0));
      const auto& changed = variation->elements;
      const Memory list{device_, changed.size() * sizeof(Amendment)};
      if (!changed.empty()) device_.upload(list.begin, changed.data(), changed.size() * sizeof(Amendment));
      device_.amend(right.values->as<double>(), right.bounds->as<float>(), list.as<Amendment>(), changed.size());
      device_.synchronize();
    } else {
      device_.upload(right.values->begin, expected.value.data(), count * sizeof(double));
      device_.upload(right.bounds->begin, expected.bound.data(), count * sizeof(float));
    }
  }
  return right_[{output, set}] = std::move(right);
}

void Case::judge() {
  std::uint32_t output = 0;
  for (const auto& buffer : buffers_) {
    if (buffer->is_input()) continue;
    const auto& right = this->right(output, question_.set);
    device_.judge({buffer->payload(), buffer->operand.dtype, static_cast<std::uint64_t>(buffer->operand.elements()),
                   right.value, right.bound, poison_},
                  2 * output + static_cast<std::uint32_t>(question_.set));
    ++output;
  }
}

Verdict Case::check() {
  device_.synchronize();
  Verdict verdict;
  for (std::size_t i = 0; i < buffers_.size(); ++i) buffers_[i]->inspect_fences(static_cast<std::uint32_t>(i));
  if (const auto findings = device_.findings(); findings.wrong != 0) {
    verdict.reason = in_words(findings);
    mend_fences();  // so that the next variant is judged by its own deeds
    return verdict;
  }
  if (const auto name = changed_input(); !name.empty()) {
    load_inputs();
    verdict.reason = "input changed: " + name + " holds other values than before the call";
    return verdict;
  }
  std::uint64_t checksum = 0;
  for (const auto sum : checksums(Role::out)) checksum = checksum * 0x100000001B3ULL + sum;
  if (const auto known = passed_.find({question_.set, checksum}); known != passed_.end()) {
    verdict.ok = true;
    verdict.worst = known->second;
    verdict.output_checksum = checksum;
    return verdict;
  }
  verdict = judge_outputs(checksum);
  if (verdict.ok) passed_[{question_.set, checksum}] = verdict.worst;
  return verdict;
}

/// By the device; where it finds anything, again on the host, which has the words for it.
Verdict Case::judge_outputs(std::uint64_t checksum) {
  Verdict verdict;
  verdict.ok = true;
  verdict.output_checksum = checksum;
  std::size_t output = 0;
  for (auto& buffer : buffers_) {
    if (buffer->is_input()) continue;
    const auto& operand = buffer->operand;
    const auto& right = this->right(output, question_.set);
    device_.judge({buffer->payload(), operand.dtype, static_cast<std::uint64_t>(operand.elements()), right.value,
                   right.bound, poison_},
                  static_cast<std::uint32_t>(output));
    const auto findings = device_.findings();
    const bool norm =
        right.norm_bound == 0 || !std::isfinite(findings.squares) || std::sqrt(findings.squares) <= right.norm_bound;
    verdict.worst = std::fmax(verdict.worst, findings.worst);
    if (findings.wrong != 0 || !norm) {
      scratch_.resize(buffer->payload_bytes);
      device_.download(scratch_.data(), buffer->payload(), buffer->payload_bytes);
      auto part = compare(operand, scratch_.data(), oracle_.expected(question_.set).at(output), poison_);
      if (part.ok && findings.wrong != 0)
        throw std::logic_error{"the device judged " + std::to_string(findings.wrong) + " elements of " + operand.name +
                               " wrong that the host finds right"};
      part.output_checksum = checksum;
      if (!part.ok) return part;
    }
    ++output;
  }
  return verdict;
}

Launch Case::bind_to_copies(const VariantInfo& variant) const {
  std::vector<void*> pointers;
  for (std::size_t i = 0; i < buffers_.size(); ++i)
    pointers.push_back(buffers_[i]->is_input() && !copies_.empty()
                           ? copies_[i]->as<std::byte>() + offset_bytes(buffers_[i]->operand)
                           : buffers_[i]->payload());
  const Pointers bound{std::move(pointers)};
  return prepare(variant, oracle_.problem(), oracle_.family().bind(oracle_.problem(), bound));
}

void Case::spoil_copies() {
  const auto secret = next_secret();
  for (std::size_t i = 0; i < copies_.size(); ++i)
    if (copies_[i]) {
      const auto& operand = buffers_[i]->operand;
      device_.spoil(copies_[i]->as<std::byte>() + offset_bytes(operand), operand.dtype,
                    static_cast<std::size_t>(operand.elements()), secret);
    }
}

void Case::restore_copies() {
  put_in_place(0);
  for (std::size_t i = 0; i < copies_.size(); ++i)
    if (copies_[i])
      device_.copy(copies_[i]->as<std::byte>() + offset_bytes(buffers_[i]->operand), buffers_[i]->payload(),
                   buffers_[i]->payload_bytes);
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
  for (const auto& operand : operands) total += operand.bytes() + 2 * fence_bytes + offset_bytes(operand);
  return total;
}

std::size_t Case::measured_bytes(const Operands& operands) {
  std::size_t total = device_bytes(operands);
  for (const auto& operand : operands) {
    const auto elements = static_cast<std::size_t>(operand.elements());
    // Copies of inputs; right values under both sets.
    total += device_slack_bytes + (operand.role == Role::in ? operand.bytes() + offset_bytes(operand)
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
