// SPDX-License-Identifier: Apache-2.0
// A GPU without hardware: memory of the host, a simulated stream, and what spins and empty kernels cost on it. Enough
// for the whole path of a measurement of spins. Its faults can be planted.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "mage_bench/device.hpp"

namespace mage::test {

class SimulatedDevice final : public Device {
 public:
  // In microseconds, as an H200's.
  double enqueue_us = 2.2;    ///< on the host, a call
  double own_us = 0.6;        ///< of a kernel that does nothing
  double stamp_us = 2.05;     ///< what a span holds besides its kernels
  double gap_us = 0.67;       ///< between kernels of a stream
  double graph_gap_us = 0.1;  ///< between kernels of a graph
  double tick_us = 0.032;
  // Faults.
  double event_scale = 1;                     ///< of spans
  double trace_extra_us = 0;                  ///< in each record of the trace
  double uneven_us = 0;                       ///< on top of every second variant of a spin
  double longest_us = 1e9;                    ///< spins do not take longer, whatever their stamps say
  bool lose_output = false;                   ///< spins write nothing but stamps
  std::function<double(double)> span_off_us;  ///< what a span of so many microseconds is off
  std::optional<Unavailable> refuse_trace;
  std::string lost;  ///< why nothing works any more; empty while it does
  std::vector<DeviceSetting> limits{{"stack_size", 1024}, {"persisting_l2_cache_size", 0}};
  // What it was told.
  std::vector<int> streams;  ///< in the order in which they were changed for
  int captures = 0;
  std::string caches;  ///< what touched L2, in order: f fill, d disturbing, i inspection, l sweep, o operation, ! begin
                       ///< of a span

  SimulatedDevice() : host_{make_host_device()} {
    info_.name = "simulated";
    info_.compute_capability = 90;
  }

  [[nodiscard]] const DeviceInfo& info() const override { return info_; }
  [[nodiscard]] std::optional<Unavailable> unavailable(TimingMode) const override { return std::nullopt; }
  [[nodiscard]] void* allocate(std::size_t bytes) override { return host_->allocate(bytes); }
  void deallocate(void* pointer) noexcept override { host_->deallocate(pointer); }
  void upload(void* to, const void* from, std::size_t bytes) override {
    std::memcpy(to, from, bytes);
    synchronize();
  }
  void download(void* to, const void* from, std::size_t bytes) override {
    std::memcpy(to, from, bytes);
    synchronize();
  }
  void fill(void* to, std::uint32_t pattern, std::size_t bytes) override {
    host_->fill(to, pattern, bytes);
    caches += 'f';
    enqueue(own_us);
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    std::memcpy(to, from, bytes);
    enqueue(own_us);
  }
  [[nodiscard]] std::uint64_t checksum(const void* from, std::size_t bytes) override {
    synchronize();
    return host_->checksum(from, bytes);
  }
  void spoil(void* to, DType dtype, std::size_t elements, std::uint64_t secret) override {
    later([=, this] { host_->spoil(to, dtype, elements, secret); });
    caches += 'f';
    enqueue(own_us);
  }
  void disturb(const Inspection& inspection, const Question& question) override {
    later([=, this] { host_->disturb(inspection, question); });
    caches += 'd';
    enqueue(own_us);
  }
  void inspect(const Inspection& inspection, const Question& question) override {
    later([=, this] { host_->inspect(inspection, question); });
    caches += 'i';
    enqueue(own_us);
  }
  void inspect_fill(const void* from, std::uint32_t pattern, std::size_t bytes, std::uint32_t tag) override {
    host_->inspect_fill(from, pattern, bytes, tag);
    enqueue(own_us);
  }
  void judge(const Judged& output, std::uint32_t tag) override {
    host_->judge(output, tag);
    enqueue(own_us);
  }
  void amend(double* value, float* bound, const Amendment* amendments, std::size_t count) override {
    host_->amend(value, bound, amendments, count);
    enqueue(own_us);
  }
  [[nodiscard]] Findings findings() override {
    synchronize();
    return host_->findings();
  }

  int change_stream(int index) override {
    synchronize();
    constexpr int count = 3;
    streams.push_back(index % count);
    return streams.back();
  }
  void submit(Launch& launch) override { launch(StreamHandle{}); }
  void synchronize() override {
    if (!lost.empty()) throw std::runtime_error{lost};
    host_us_ = std::max(host_us_, stream_us_) + 1;
  }
  [[nodiscard]] std::vector<DeviceSetting> settings() const override { return limits; }
  void set_back(const std::vector<DeviceSetting>& settings) override { limits = settings; }
  [[nodiscard]] Launch empty_launch() const override {
    return [self = const_cast<SimulatedDevice*>(this)](StreamHandle) { self->kernel({}, "empty"); };
  }
  void spin(StreamHandle, const Spin& spin) override { kernel(spin, "spin"); }

  [[nodiscard]] double now_us() override {
    notice_sleep();
    return host_us_;
  }
  void record(Stamp stamp) override {
    const bool begin = stamp == Stamp::begin;
    if (begin) caches += '!';
    enqueue(begin ? 0 : stamp_us);
    (begin ? begin_us_ : end_us_) = stream_us_;
  }
  [[nodiscard]] bool reached(Stamp stamp) override {
    notice_sleep();
    return host_us_ >= (stamp == Stamp::begin ? begin_us_ : end_us_);
  }
  [[nodiscard]] double elapsed_us() override {
    const double us = end_us_ - begin_us_;
    return event_scale * std::round((us + (span_off_us ? span_off_us(us) : 0)) * 1e3) / 1e3;
  }
  void delay(double us) override { enqueue(us); }
  void flush_l2() override {
    caches += 'l';
    enqueue(90);
  }
  void reset_persisting_l2() override {}
  [[nodiscard]] std::optional<ClockProbe> probe_clock() override {
    enqueue(20);
    synchronize();
    return ClockProbe{1980};
  }

  struct Captured final : Graph {
    std::vector<std::function<void()>> steps;
    std::vector<std::string> names;
    [[nodiscard]] int kernel_nodes() const override { return static_cast<int>(names.size()); }
    [[nodiscard]] std::vector<std::string> nodes() const override { return names; }
    [[nodiscard]] int other_nodes() const override { return 0; }
    [[nodiscard]] double instantiate_us() const override { return 77; }
  };
  [[nodiscard]] std::unique_ptr<Graph> capture(Launch& launch, int operations) override {
    auto graph = std::make_unique<Captured>();
    capture_ = graph.get();
    ++captures;
    for (int i = 0; i < operations; ++i) launch(StreamHandle{});
    capture_ = nullptr;
    return graph;
  }
  void replay(Graph& graph) override {
    enqueue(0);
    for (const auto& step : static_cast<Captured&>(graph).steps) step();
  }

  void trace_start() override {
    if (refuse_trace) throw UnavailableError{*refuse_trace, "simulated: no trace"};
    tracing_ = true;
    records_.clear();
  }
  void trace_mark(std::uint64_t mark) override { mark_ = mark; }
  [[nodiscard]] std::vector<KernelRecord> trace_stop() override {
    synchronize();
    tracing_ = false;
    return records_;
  }
  void profiler_start() override {}
  void profiler_stop() override {}

 private:
  /// What a graph does at each replay, and a stream at once: what is enqueued takes place in that order.
  void later(std::function<void()> work) {
    if (capture_ != nullptr)
      capture_->steps.push_back(std::move(work));
    else
      work();
  }
  /// A host that really sleeps inside an operation; shorter pauses are those of the machine that simulates.
  void notice_sleep() {
    constexpr double shortest_us = 2500;
    const auto now = std::chrono::steady_clock::now();
    const double passed_us = std::chrono::duration<double, std::micro>(now - seen_).count();
    seen_ = now;
    if (passed_us > shortest_us) host_us_ += passed_us;
  }
  void enqueue(double device_us) {
    notice_sleep();
    if (capture_ != nullptr) return;
    after_kernel_ = false;
    host_us_ += enqueue_us;
    stream_us_ = std::max(host_us_, stream_us_) + device_us;
  }
  void kernel(const Spin& spin, const char* name) {
    if (capture_ != nullptr) {
      capture_->names.emplace_back(name);
      capture_->steps.emplace_back([this, spin, name] { run(spin, name, graph_gap_us); });
      return;
    }
    const bool queued = after_kernel_ && stream_us_ > host_us_;
    enqueue(0);
    run(spin, name, queued ? gap_us : 0);
  }
  void run(const Spin& spin, const std::string& name, double gap) {
    stream_us_ += gap;
    const double begin_us = stream_us_;
    const double stamped_us = std::ceil(spin.us / tick_us - 1e-6) * tick_us;
    const bool odd = reinterpret_cast<std::uintptr_t>(spin.stamps) / (2 * sizeof *spin.stamps) % 2 == 1;
    stream_us_ += own_us + std::min(stamped_us, longest_us) + jitter_(random_) + (odd ? uneven_us : 0);
    after_kernel_ = true;
    caches += 'o';
    if (spin.to != nullptr && !lose_output) std::memcpy(spin.to, spin.from, static_cast<std::size_t>(spin.words) * 4);
    if (spin.stamps != nullptr) {
      spin.stamps[0] = static_cast<std::uint64_t>(begin_us * 1e3);
      spin.stamps[1] = spin.stamps[0] + static_cast<std::uint64_t>(std::llround(stamped_us * 1e3));
    }
    if (tracing_)
      records_.push_back({name, mark_, begin_us, stream_us_ + trace_extra_us, {1, 1, 1}, {32, 1, 1}, true, 0, 0});
  }

  std::unique_ptr<Device> host_;
  DeviceInfo info_;
  std::mt19937 random_{1};  // NOLINT(bugprone-random-generator-seed): the same on every run
  std::uniform_real_distribution<double> jitter_{-0.01, 0.01};
  double host_us_ = 0, stream_us_ = 0, begin_us_ = 0, end_us_ = 0;
  bool after_kernel_ = false, tracing_ = false;
  std::uint64_t mark_ = 0;
  std::vector<KernelRecord> records_;
  Captured* capture_ = nullptr;
  std::chrono::steady_clock::time_point seen_ = std::chrono::steady_clock::now();
};

}  // namespace mage::test
