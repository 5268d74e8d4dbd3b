// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "bench/samplers.hpp"

namespace mage {
namespace {

constexpr double target_us = 400;
constexpr double longest_us = 5000;
constexpr int most_operations = 100;

std::string first_difference(const std::vector<std::string>& one, const std::vector<std::string>& many,
                             std::size_t operations) {
  for (std::size_t i = 0; i < many.size(); ++i) {
    const auto& wanted = one.at(std::min(i / operations, one.size() - 1));
    if (many[i] != wanted) return "one is '" + many[i] + "', not '" + wanted + "'";
  }
  return "they differ in number alone";
}

}  // namespace

void GraphSampler::prepare() {
  const double operation_us = std::max(pilot_span_us(device_, launch_), 0.1);
  const int fewest = 3 * operation_us <= longest_us ? 3 : 2;
  operations_ = std::clamp(static_cast<int>(std::lround(target_us / operation_us)), fewest, most_operations);
  capture();
  delay_us_ = pilot_delay_us(device_, [this] { device_.replay(*many_); });
}

void GraphSampler::capture() {
  one_ = device_.capture(launch_, 1);
  if (one_->kernel_nodes() + one_->other_nodes() == 0)
    throw WrongError{"the captured graph is empty: the operation did not use the stream that it was given"};
  many_ = device_.capture(launch_, operations_);
  // An operation that skips work on some calls leaves a shorter list, or other kernels. Both lists are sorted.
  const auto one = one_->nodes(), many = many_->nodes();
  const auto operations = static_cast<std::size_t>(operations_);
  bool same = many.size() == operations * one.size();
  for (std::size_t i = 0; same && i < many.size(); ++i) same = many[i] == one[i / operations];
  if (!same)
    throw WrongError{"a graph of " + std::to_string(operations_) + " operations has " + std::to_string(many.size()) +
                     " nodes, a graph of one has " + std::to_string(one.size()) + ", and " +
                     first_difference(one, many, operations) + ": the operation is not the same on every call"};
}

void GraphSampler::open() {
  one_.reset();
  many_.reset();
}

void GraphSampler::need_graphs() {
  if (many_) return;
  capture();
  for (auto* graph : {one_.get(), many_.get()}) device_.replay(*graph);
}

GatedSpan GraphSampler::replay(Graph& graph, double& launch_us, const Hooks& hooks) {
  return gated_span(
      device_, delay_us_,
      [&] {
        const double begin_us = device_.now_us();
        device_.replay(graph);
        launch_us = device_.now_us() - begin_us;
      },
      hooks);
}

void GraphSampler::sample(Samples& out, const Hooks& hooks) {
  need_graphs();
  call(hooks.spoil);
  device_.replay(*one_);
  double launch_us = 0;
  double launch_many_us = 0;
  const auto one = replay(*one_, launch_us, hooks);
  const auto many = replay(*many_, launch_many_us, hooks);
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

void GraphSampler::audit(const Hooks& hooks) {
  // The secret decides whether this graph is captured before or after those that are timed: a count of captures tells
  // a variant nothing.
  if (hooks.secret >> 63U != 0) need_graphs();
  const Watched watched{operations_, hooks.secret};
  int captured = 0;
  Launch audited = [&](StreamHandle stream) {
    const bool is_watched = watched(captured++);
    if (is_watched) call(hooks.spoil);
    if (is_watched) call(hooks.before);
    launch_(stream);
    if (is_watched) call(hooks.after);
  };
  const auto graph = device_.capture(audited, watched.operations);
  device_.replay(*graph);
  device_.synchronize();
}

}  // namespace mage
