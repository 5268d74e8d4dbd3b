// SPDX-License-Identifier: Apache-2.0
#include "bench/admission/chain.hpp"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "mage_bench/case.hpp"
#include "mage_bench/random.hpp"

namespace mage {
namespace {

constexpr std::uint32_t nan_word = 0x7FC0A5A5U;
constexpr double delay_us = 100;  // hides the enqueueing of a dozen kernels

class Chain {
 public:
  Chain(Device& device, const Chained& chained)
      : device_{device}, has_stream_{!device.unavailable(TimingMode::graph)}, varies_{chained.varies} {
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
    x_ = allocate(operands[in], device.trials());
    start_ = values[in];
    for (std::size_t i = 0; i < operands.size(); ++i) {
      forth[i] = i == in ? x_ : allocate(operands[i], nullptr);
      if (operands[i].role == Role::in) {
        back[i] = forth[i];
        if (i != in) device_.upload(forth[i], values[i].data(), values[i].size());
        continue;
      }
      back[i] = i == out ? x_ : allocate(operands[i], nullptr);
      outputs_.push_back({operands[i].name + " of the call forth", forth[i], operands[i].bytes(), operands[i].dtype});
      outputs_.push_back({operands[i].name + " of the call back", back[i], operands[i].bytes(), operands[i].dtype});
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
    if (has_stream_) repeat_in_graph(right, verdict, repetitions);
    if (!verdict.ok())
      verdict.reason += ": not what it is where each call is waited for, in " +
                        std::to_string(verdict.broken_on_stream) + " repetitions on the stream and " +
                        std::to_string(verdict.broken_in_graph) + " in a graph, of " + std::to_string(repetitions);
    return verdict;
  }

 private:
  using Bits = std::vector<std::vector<std::byte>>;
  struct Output {
    std::string name;
    void* pointer;
    std::size_t bytes;
    DType dtype;
  };

  void repeat_in_graph(const Bits& right, ChainVerdict& verdict, int repetitions) {
    Launch all = [this](StreamHandle stream) {
      for (auto* call : {&forth_, &back_, &forth_}) (*call)(stream);
    };
    std::unique_ptr<Graph> graph;
    try {
      graph = device_.capture(all, 1);
    } catch (const UnavailableError&) {
      return;  // what cannot be captured has no graph in which it could be wrong
    }
    for (int i = 0; i < repetitions; ++i) {
      restart();
      device_.replay(*graph);
      verdict.broken_in_graph += differ(right, verdict.reason) ? 1 : 0;
    }
  }

  void* allocate(const Operand& operand, Trials* shared) {
    const auto bytes = operand.offset_bytes() + operand.bytes();
    void* raw = shared != nullptr ? shared->allocate_shared(bytes) : device_.allocate(bytes);
    memory_.emplace_back(raw, [&device = device_](void* pointer) { device.deallocate(pointer); });
    return static_cast<std::byte*>(raw) + operand.offset_bytes();
  }

  /// x as it was at first, NaN in everything else that a call writes.
  void restart() {
    device_.synchronize();
    std::memcpy(x_, start_.data(), start_.size());
    for (const auto& output : outputs_)
      if (output.pointer != x_) device_.fill(output.pointer, nan_word, output.bytes);
  }

  [[nodiscard]] Bits bits() {
    device_.synchronize();
    Bits all;
    for (const auto& output : outputs_) {
      all.emplace_back(output.bytes);
      if (output.pointer == x_)
        std::memcpy(all.back().data(), x_, output.bytes);
      else
        device_.download(all.back().data(), output.pointer, output.bytes);
    }
    return all;
  }

  [[nodiscard]] bool differ(const Bits& right, std::string& first) {
    const auto got = bits();
    bool found = false;
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      if (varies_ ? near(got[i], right[i], outputs_[i].dtype) : got[i] == right[i]) continue;
      found = true;
      if (first.empty()) first = outputs_[i].name;
    }
    return found;
  }

  /// Within a thousandth of the largest value: roundings are far below that, and another call's values far above.
  static bool near(const std::vector<std::byte>& got, const std::vector<std::byte>& right, DType dtype) {
    if (dtype != DType::f32) return got == right;
    constexpr float tolerance = 1e-3F;
    std::vector<float> a(got.size() / sizeof(float)), b(a.size());
    std::memcpy(a.data(), got.data(), got.size());
    std::memcpy(b.data(), right.data(), right.size());
    float largest = 0;
    for (const float value : b) largest = std::fmax(largest, std::isfinite(value) ? std::fabs(value) : 0);
    for (std::size_t i = 0; i < a.size(); ++i) {
      const bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]));
      if (!same && !(std::fabs(a[i] - b[i]) <= tolerance * largest)) return false;
    }
    return true;
  }

  Device& device_;
  bool has_stream_;  ///< and so graphs and delays
  bool varies_;
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

std::vector<AnyProblem> chained_problems(const Family& family) {
  // Small: where a call leaves room on the device, all of the next one can start. With a single row, an output has the
  // shape of a bias and of weights too.
  constexpr std::size_t most_bytes = std::size_t{8} << 20U;
  std::vector<AnyProblem> problems;
  for (const auto* name : {"64x1024", "1x4096", "37x515-o1", "600x768", "16x12288"})
    if (auto problem = family.parse(name)) problems.push_back(std::move(*problem));
  if (problems.empty()) problems = family.test_problems();  // a family whose problems are no matrices
  std::erase_if(problems, [&](const AnyProblem& problem) {
    const auto operands = family.operands(problem);
    return links(operands).empty() || Case::device_bytes(operands) > most_bytes;
  });
  return problems;
}

ChainVerdict check_chain(Device& device, const Chained& chained, int repetitions) {
  return Chain{device, chained}.check(repetitions);
}

}  // namespace mage
