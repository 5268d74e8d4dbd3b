// SPDX-License-Identifier: Apache-2.0
// What a Case finds wrong, and the words for it.
#include <cmath>
#include <stdexcept>
#include <utility>

#include "core/case_parts.hpp"

namespace mage {
std::string Case::found() {
  const auto findings = device_.findings();
  return findings.wrong == 0 ? std::string{} : in_words(findings);
}

std::string Case::in_words(const Findings& findings) const {
  if (findings.output == Findings::outside && findings.tag == buffers_.size())
    return "wrote outside its scratch: a fence around it is broken";
  if (findings.output == Findings::outside)
    return "wrote outside " + buffers_.at(findings.tag)->operand.name + ": a fence around it is broken";
  if (findings.output == Findings::whole) {
    const auto& operand = buffers_.at(output_operands_.at(findings.tag / 2))->operand;
    return std::to_string(findings.wrong) + " wrong elements; one is " + element_name(operand, findings.element) +
           ": got " + number(findings.got) + ", expected " + number(findings.low) + " +- " + number(findings.high);
  }
  const auto output = static_cast<std::size_t>(findings.output);
  const auto& operand = buffers_.at(output_operands_.at(output))->operand;
  std::string text = element_name(operand, findings.element) + ": got " + number(findings.got) + ", expected " +
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

std::string Case::damage() {
  device_.synchronize();
  for (std::size_t i = 0; i < buffers_.size(); ++i) buffers_[i]->inspect_fences(static_cast<std::uint32_t>(i));
  device_.inspect_scratch(static_cast<std::uint32_t>(buffers_.size()));
  if (const auto findings = device_.findings(); findings.wrong != 0) {
    const auto text = in_words(findings);
    restore();  // so that the next variant is judged by its own deeds
    return text;
  }
  const auto name = changed_input();
  if (name.empty()) return {};
  restore();
  return "input changed: " + name + " holds other values than before the call";
}

Verdict Case::check() {
  Verdict verdict;
  verdict.reason = damage();
  if (!verdict.reason.empty()) return verdict;
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
    const Judged judged{buffer->payload(), operand.dtype, static_cast<std::uint64_t>(operand.elements()),
                        right.value,       right.bound,   poison_};
    device_.judge(judged, static_cast<std::uint32_t>(output));
    const auto findings = device_.findings();
    const bool norm =
        right.norm_bound == 0 || !std::isfinite(findings.squares) || std::sqrt(findings.squares) <= right.norm_bound;
    verdict.worst = std::fmax(verdict.worst, findings.worst);
    if (findings.wrong != 0 || !norm) {
      scratch_.resize(buffer->payload_bytes);
      device_.download(scratch_.data(), buffer->payload(), buffer->payload_bytes);
      auto part = compare(operand, scratch_.data(), oracle_.expected(question_.set).at(output), poison_);
      if (part.ok && findings.wrong != 0) {
        device_.judge(judged, static_cast<std::uint32_t>(output));
        if (device_.findings().wrong != 0)
          throw std::logic_error{"the device judged " + std::to_string(findings.wrong) + " elements of " +
                                 operand.name + " wrong that the host finds right"};
        part.ok = false;
        part.reason =
            std::to_string(findings.wrong) + " elements of " + operand.name +
            " were wrong behind the call and right when they were looked at again: something still wrote to it";
      }
      part.output_checksum = checksum;
      if (!part.ok) return part;
    }
    ++output;
  }
  return verdict;
}

}  // namespace mage
