// SPDX-License-Identifier: Apache-2.0
#include "test/chain/chain.hpp"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "mage_bench/random.hpp"

namespace mage::test {
namespace {

constexpr std::size_t alignment = 256;
constexpr std::uint32_t nan_word = 0x7FC0A5A5U;
constexpr double delay_us = 100;  // hides the enqueueing of a dozen kernels
constexpr std::size_t word_bytes = sizeof(std::uint32_t);

std::size_t offset_bytes(const Operand& operand) {
  return static_cast<std::size_t>(operand.offset) * size_of(operand.dtype);
}

class Chain {
 public:
  Chain(Device& device, const Chained& chained, AllocateShared allocate_x)
      : device_{device}, has_stream_{!device.unavailable(TimingMode::graph)} {
    const auto& operands = chained.operands;
    const auto [out, in] = chained.link;
    std::vector<void*> host(operands.size(), nullptr);
    std::vector<std::vector<std::byte>> values(operands.size());
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (operands[i].role == Role::out) continue;
      values[i].resize(operands[i].bytes());
      generate(operands[i], static_cast<std::uint32_t>(i), values[i].data());
      host[i] = values[i].data();
    }
    if (chained.derive) chained.derive(Pointers{std::move(host)});

    std::vector<void*> forth(operands.size()), back(operands.size());
    x_ = hold(allocate_x(offset_bytes(operands[in]) + operands[in].bytes()), operands[in]);
    start_ = values[in];
    for (std::size_t i = 0; i < operands.size(); ++i) {
      forth[i] = i == in ? x_ : allocate(operands[i]);
      if (operands[i].role == Role::in) {
        back[i] = forth[i];
        if (i != in) device_.upload(forth[i], values[i].data(), values[i].size());
        continue;
      }
      back[i] = i == out ? x_ : allocate(operands[i]);
      outputs_.push_back({operands[i].name + " of the call forth", forth[i], operands[i].bytes() / word_bytes});
      outputs_.push_back({operands[i].name + " of the call back", back[i], operands[i].bytes() / word_bytes});
    }
    back[in] = forth[out];
    forth_ = chained.prepare(Pointers{std::move(forth)});
    back_ = chained.prepare(Pointers{std::move(back)});
  }

  ChainVerdict check(int repetitions) {
    restart();
    // Each twice: where a kernel of a call does not wait for another of the same call, the first leaves in scratch what
    // the second should find.
    for (auto* call : {&forth_, &forth_, &back_, &back_, &forth_, &forth_}) {
      device_.submit(*call);
      device_.synchronize();
    }
    const auto right = bits();

    ChainVerdict verdict;
    for (int i = 0; i < repetitions; ++i) {
      restart();
      if (has_stream_) device_.delay(delay_us);
      for (auto* call : {&forth_, &back_, &forth_}) device_.submit(*call);
      verdict.broken_on_stream += differ(right, verdict.reason) ? 1 : 0;
    }
    if (has_stream_) {
      Launch all = [this](StreamHandle stream) {
        for (auto* call : {&forth_, &back_, &forth_}) (*call)(stream);
      };
      const auto graph = device_.capture(all, 1);
      for (int i = 0; i < repetitions; ++i) {
        restart();
        device_.replay(*graph);
        verdict.broken_in_graph += differ(right, verdict.reason) ? 1 : 0;
      }
    }
    if (!verdict.ok())
      verdict.reason += ": other bits than where each call is waited for, in " +
                        std::to_string(verdict.broken_on_stream) + " repetitions on the stream and " +
                        std::to_string(verdict.broken_in_graph) + " in a graph, of " + std::to_string(repetitions);
    return verdict;
  }

 private:
  struct Output {
    std::string name;
    void* pointer;
    std::size_t words;
  };

  void* hold(std::shared_ptr<void> memory, const Operand& operand) {
    memory_.push_back(std::move(memory));
    return static_cast<std::byte*>(memory_.back().get()) + offset_bytes(operand);
  }
  void* allocate(const Operand& operand) {
    void* raw = device_.allocate(offset_bytes(operand) + operand.bytes());
    return hold({raw, [&device = device_](void* pointer) { device.deallocate(pointer); }}, operand);
  }

  /// x as it was at first, NaN in everything else that a call writes.
  void restart() {
    device_.synchronize();
    std::memcpy(x_, start_.data(), start_.size());
    for (const auto& output : outputs_)
      if (output.pointer != x_) device_.fill(output.pointer, nan_word, output.words);
  }

  [[nodiscard]] std::vector<std::uint64_t> bits() {
    std::vector<std::uint64_t> sums;
    for (const auto& output : outputs_) sums.push_back(device_.checksum(output.pointer, output.words));
    return sums;
  }

  [[nodiscard]] bool differ(const std::vector<std::uint64_t>& right, std::string& first) {
    device_.synchronize();
    const auto got = bits();
    if (got == right) return false;
    for (std::size_t i = 0; first.empty(); ++i)
      if (got[i] != right[i]) first = outputs_[i].name;
    return true;
  }

  Device& device_;
  bool has_stream_;  ///< and so graphs and delays
  std::vector<std::shared_ptr<void>> memory_;
  void* x_ = nullptr;
  std::vector<std::byte> start_;
  std::vector<Output> outputs_;
  Launch forth_, back_;
};

}  // namespace

std::vector<Link> links(const Operands& operands) {
  std::vector<Link> found;
  for (std::size_t out = 0; out < operands.size(); ++out)
    for (std::size_t in = 0; in < operands.size(); ++in) {
      const auto& from = operands[out];
      const auto& to = operands[in];
      if (from.role == Role::out && to.role == Role::in && from.dtype == to.dtype && from.rows == to.rows &&
          from.cols == to.cols && from.offset == to.offset)
        found.push_back({out, in});
    }
  return found;
}

std::shared_ptr<void> plain_memory(std::size_t bytes) {
  void* memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc{};
  return {memory, &std::free};
}

ChainVerdict check_chain(Device& device, const Chained& chained, AllocateShared allocate_x, int repetitions) {
  return Chain{device, chained, allocate_x}.check(repetitions);
}

}  // namespace mage::test
