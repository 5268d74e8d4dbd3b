// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "bench/samplers.hpp"

namespace mage {
namespace {

constexpr double target_us = 1000;
constexpr double longest_us = 5000;
constexpr int most_operations = 100;

}  // namespace

void GraphSampler::prepare() {
  const double operation_us = std::max(pilot_span_us(device_, launch_), 0.1);
  const int fewest = 4 * operation_us <= longest_us ? 4 : 2;
  operations_ = std::clamp(static_cast<int>(std::lround(target_us / operation_us)), fewest, most_operations);
  one_ = device_.capture(launch_, 1);
  if (one_->kernel_nodes() + one_->other_nodes() == 0)
    throw std::runtime_error{"the captured graph is empty: the operation did not use the stream that it was given"};
  many_ = device_.capture(launch_, operations_);
  // An operation that skips work on some calls would leave a shorter list.
  if (many_->kernel_nodes() != operations_ * one_->kernel_nodes() ||
      many_->other_nodes() != operations_ * one_->other_nodes())
    throw std::runtime_error{"a graph of " + std::to_string(operations_) + " operations has " +
                             std::to_string(many_->kernel_nodes()) + " kernel nodes, a graph of one has " +
                             std::to_string(one_->kernel_nodes()) + ": the operation is not the same on every call"};
  delay_us_ = pilot_delay_us(device_, [this] { device_.replay(*many_); });
}

void GraphSampler::open() {
  for (auto* graph : {one_.get(), many_.get()}) {
    device_.renew(*graph);
    device_.replay(*graph);
  }
}

GatedSpan GraphSampler::replay(Graph& graph, double& launch_us, const std::function<void()>& before) {
  if (before) before();
  return gated_span(device_, delay_us_, [&] {
    const double begin_us = device_.now_us();
    device_.replay(graph);
    launch_us = device_.now_us() - begin_us;
  });
}

void GraphSampler::sample(Samples& out, const Hooks& hooks) {
  device_.replay(*one_);
  double launch_us = 0;
  double launch_many_us = 0;
  GatedSpan one;
  GatedSpan many;
  // An audit poisons before the graph that comes last, and that is now the one, now the other.
  if (hooks.poison && audits_++ % 2 == 1) {
    many = replay(*many_, launch_many_us, {});
    one = replay(*one_, launch_us, hooks.poison);
  } else {
    one = replay(*one_, launch_us, hooks.speckle);
    many = replay(*many_, launch_many_us, hooks.poison ? hooks.poison : hooks.speckle);
  }
  out.us.push_back(whole_ps((many.us - one.us) / (operations_ - 1)));
  out.parts["replay_latency_us"].push_back(one.us);
  out.parts["span_k_us"].push_back(many.us);
  out.parts["launch_us"].push_back(whole_ns(launch_us));
  out.figures["operations_k"] = operations_;
  out.figures["kernel_nodes"] = one_->kernel_nodes();
  out.figures["other_nodes"] = one_->other_nodes();
  out.figures["instantiate_us"] = one_->instantiate_us();
  out.gate_missed += one.held && many.held ? 0 : 1;
}

}  // namespace mage
