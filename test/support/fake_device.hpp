// SPDX-License-Identifier: Apache-2.0
// A device without hardware: it writes down what it was told to do and lets a simulated clock run.
#pragma once

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "mage_bench/device.hpp"

namespace mage::test {

/// Device work runs on a simulated stream: an action enqueued at host time h begins at max(h, end of the one before).
class FakeDevice : public Device {
 public:
  // What the fake hardware costs, in microseconds.
  double operation_us = 10;  ///< on the device
  double enqueue_us = 2;     ///< on the host, every enqueueing call
  double flush_us = 90;
  double stamp_us = 0;
  double record_extra_us = 0;  ///< added to each record of the trace
  double traced_extra_us = 0;  ///< added to an operation while a trace runs
  bool begin_reached = false;  ///< what reached() answers
  int kernels_per_operation = 1;
  std::string odd_node;                     ///< in the place of a kernel in graphs of more than one operation
  std::function<void(Launch&)> on_capture;  ///< told what is captured
  int nodes_missing = 0;                    ///< left out of graphs of more than one operation
  std::optional<Unavailable> refuse_trace, refuse_capture;
  bool drop_records = false;

  std::vector<std::string> actions;  ///< in the order in which they were asked for

  FakeDevice() { info_.name = "fake"; }

  [[nodiscard]] const DeviceInfo& info() const override { return info_; }
  [[nodiscard]] std::optional<Unavailable> unavailable(TimingMode) const override { return std::nullopt; }
  [[nodiscard]] void* allocate(std::size_t) override { throw std::logic_error{"the fake device has no memory"}; }
  void deallocate(void*) noexcept override {}
  void upload(void*, const void*, std::size_t) override { throw std::logic_error{"no memory"}; }
  void download(void*, const void*, std::size_t) override { throw std::logic_error{"no memory"}; }
  void fill(void*, std::uint32_t, std::size_t) override { enqueue("fill", operation_us); }
  void copy(void*, const void*, std::size_t) override { enqueue("copy", operation_us); }
  [[nodiscard]] std::uint64_t checksum(const void*, std::size_t) override { return 0; }
  void spoil(void*, DType, std::size_t, std::uint64_t) override { enqueue("spoil", operation_us); }
  void disturb(const Inspection&, const Question&) override { enqueue("disturb", 0); }
  void inspect(const Inspection&, const Question&) override { enqueue("inspect", 0); }
  void inspect_fill(const void*, std::uint32_t, std::size_t, std::uint32_t) override { enqueue("inspect fill", 0); }
  void judge(const Judged&, std::uint32_t) override { enqueue("judge", operation_us); }
  void amend(double*, float*, const Amendment*, std::size_t) override { enqueue("amend", 0); }
  [[nodiscard]] Findings findings() override { return {}; }

  void submit(Launch& launch) override {
    launch(StreamHandle{});
    run_operation("submit");
  }
  void synchronize() override {
    actions.emplace_back("synchronize");
    host_us_ = std::max(host_us_, stream_us_);
  }
  [[nodiscard]] Launch empty_launch() const override {
    return [](StreamHandle) {};
  }
  void spin(StreamHandle, const Spin& spin) override { enqueue("spin", spin.us); }
  [[nodiscard]] double now_us() override { return host_us_; }
  void record(Stamp stamp) override {
    enqueue(stamp == Stamp::begin ? "record begin" : "record end", stamp_us);
    (stamp == Stamp::begin ? begin_us_ : end_us_) = stream_us_;
  }
  [[nodiscard]] bool reached(Stamp) override {
    actions.emplace_back("reached?");
    return begin_reached;
  }
  [[nodiscard]] double elapsed_us() override {
    actions.emplace_back("elapsed");
    return end_us_ - begin_us_;
  }
  void delay(double us) override { enqueue("delay", us); }
  void flush_l2() override { enqueue("flush", flush_us); }
  void reset_persisting_l2() override { actions.emplace_back("reset persisting"); }
  [[nodiscard]] std::optional<ClockProbe> probe_clock() override { return ClockProbe{1980}; }

  struct FakeGraph final : Graph {
    int operations = 0, kernels = 0;
    std::string odd_node;  ///< in the place of one of them
    [[nodiscard]] std::vector<std::string> nodes() const override {
      std::vector<std::string> all(static_cast<std::size_t>(kernels), "kernel");
      if (!odd_node.empty() && !all.empty()) all.back() = odd_node;
      return all;
    }
    [[nodiscard]] int kernel_nodes() const override { return kernels; }
    [[nodiscard]] int other_nodes() const override { return 0; }
    [[nodiscard]] double instantiate_us() const override { return 77; }
  };
  [[nodiscard]] std::unique_ptr<Graph> capture(Launch& launch, int operations) override {
    if (refuse_capture) throw UnavailableError{*refuse_capture, "fake"};
    actions.push_back("capture " + std::to_string(operations));
    if (on_capture) on_capture(launch);
    auto graph = std::make_unique<FakeGraph>();
    graph->operations = operations;
    graph->kernels = operations * kernels_per_operation - (operations > 1 ? nodes_missing : 0);
    if (operations > 1) graph->odd_node = odd_node;
    return graph;
  }
  void replay(Graph& graph) override {
    const int operations = static_cast<FakeGraph&>(graph).operations;
    enqueue("replay " + std::to_string(operations), operation_us * operations);
  }

  void trace_start() override {
    if (refuse_trace) throw UnavailableError{*refuse_trace, "fake"};
    actions.emplace_back("trace start");
    tracing_ = true;
    records_.clear();
  }
  void trace_mark(std::uint64_t mark) override {
    actions.push_back("mark " + std::to_string(mark));
    mark_ = mark;
  }
  [[nodiscard]] std::vector<KernelRecord> trace_stop() override {
    actions.emplace_back("trace stop");
    tracing_ = false;
    if (drop_records) return {};
    return records_;
  }
  void profiler_start() override { actions.emplace_back("profiler start"); }
  void profiler_stop() override { actions.emplace_back("profiler stop"); }

 protected:
  void enqueue(const std::string& action, double device_us) {
    actions.push_back(action);
    host_us_ += enqueue_us;
    stream_us_ = std::max(host_us_, stream_us_) + device_us;
  }
  DeviceInfo info_;

 private:
  void run_operation(const std::string& action) {
    const double extra_us = tracing_ ? traced_extra_us : 0;
    enqueue(action, operation_us + extra_us);
    if (!tracing_) return;
    const double each_us = operation_us / kernels_per_operation;
    for (int k = 0; k < kernels_per_operation; ++k) {
      const double begin_us = stream_us_ - operation_us + k * each_us;
      records_.push_back(
          {"kernel_" + std::to_string(k), mark_, begin_us, begin_us + each_us + record_extra_us, {}, {}, true, 0, 0});
    }
  }

  double host_us_ = 0, stream_us_ = 0, begin_us_ = 0, end_us_ = 0;
  bool tracing_ = false;
  std::uint64_t mark_ = 0;
  std::vector<KernelRecord> records_;
};

}  // namespace mage::test
