// SPDX-License-Identifier: Apache-2.0
// How one sample of each timing mode is taken. A sampler sees a device and a launch, nothing of families.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mage_bench/device.hpp"

namespace mage {

/// Raw samples of one fixture in one round. All times in microseconds.
struct Samples {
  std::vector<double> us;                            ///< the mode's figure: see docs/store.md
  std::map<std::string, std::vector<double>> parts;  ///< the other raw series behind it, one value a sample
  std::map<std::string, double> figures;             ///< constants of the group: sizes, one-off costs
  std::vector<std::string> kernels;                  ///< mode kernel: names in order of execution
  int gate_missed = 0;                               ///< samples whose work began before all of it was enqueued
  int alone_missed = 0;                              ///< mode batch: of the batches of one, which are no figure
  int launch_bound = 0;                              ///< samples in which enqueueing took >= 0.9 of the span
  bool perturbed = false;  ///< spans under the tracer differ by > 5 % from those without, or kernels outlast those
};

/// What enqueues checks on the device's stream around each timed operation, batch or graph.
struct Hooks {
  std::function<void()> spoil;   ///< before anything that is timed is enqueued: may disturb caches that are swept later
  std::function<void()> before;  ///< behind what holds the stream, before the first stamp
  std::function<void()> after;   ///< behind the second stamp, without waiting
  std::uint64_t secret = 0;      ///< what an audit draws from
};

/// Those of the operations of a burst that an audit looks at: in a row, so that one which works on every second call
/// shows, and at a secret place, so that none knows when it is looked at.
struct Watched {
  int operations = 0, first = 0, count = 0;
  Watched(int of_a_sample, std::uint64_t secret);
  [[nodiscard]] bool operator()(int i) const { return i >= first && i < first + count; }
};

/// One span of `body` between stamps, behind a delay; false in `held` where the gate was missed.
struct GatedSpan {
  double us = 0;
  bool held = true;
};
class Sampler {
 public:
  Sampler(Device& device, Launch& launch) : device_{device}, launch_{launch} {}
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;
  virtual ~Sampler() = default;

  /// Once, before the first sample: pilots. Throws UnavailableError where the mode cannot be timed.
  virtual void prepare() = 0;
  /// Around a group of samples of one binding of the launch.
  virtual void open() {}
  virtual void close() {}
  /// One sample, appended to `out`, which must live until close().
  virtual void sample(Samples& out, const Hooks& hooks = {}) = 0;
  /// By the path of a sample, without a time: some of its operations have the hooks to themselves, so that none can
  /// leave its work to another.
  virtual void audit(const Hooks& hooks);
  /// Whether a trace of the device runs between open() and close().
  [[nodiscard]] virtual bool traces() const { return false; }

 protected:
  static void call(const std::function<void()>& hook) {
    if (hook) hook();
  }
  Device& device_;
  Launch& launch_;
};

/// Warm L2: the same operation untimed, a delay that hides enqueueing, stamp, operation, stamp.
class EventSampler final : public Sampler {
 public:
  using Sampler::Sampler;
  void prepare() override;
  void sample(Samples& out, const Hooks& hooks = {}) override;

 private:
  double delay_us_ = 0;
};

/// Cold and clean L2: as EventSampler, with the flush sweep in place of the delay.
class EventColdSampler final : public Sampler {
 public:
  using Sampler::Sampler;
  void prepare() override;
  void sample(Samples& out, const Hooks& hooks = {}) override;
};

/// Batches of N and of 2N operations: the slope is the time an operation, the intercept the fixed cost. A batch of one
/// is beside them, for what an operation costs that has nothing before it.
class BatchSampler final : public Sampler {
 public:
  using Sampler::Sampler;
  void prepare() override;
  void sample(Samples& out, const Hooks& hooks = {}) override;
  void audit(const Hooks& hooks) override;

 private:
  struct Span {
    double span_us, enqueue_us;
    bool held;
  };
  [[nodiscard]] Span span(int operations, const Hooks& hooks);
  int operations_ = 0;
  double delay_us_ = 0;  ///< hides the enqueueing of one operation
};

/// Replays of a graph of one operation and of a graph of K: the slope is the time an operation.
/// Each group of samples has graphs of its own, captured when it first needs them and replayed once: instances of one
/// graph differ by some tenths of a percent for as long as they live.
class GraphSampler final : public Sampler {
 public:
  using Sampler::Sampler;
  void prepare() override;
  void open() override;
  void sample(Samples& out, const Hooks& hooks = {}) override;
  void audit(const Hooks& hooks) override;

 private:
  void capture();
  void need_graphs();
  [[nodiscard]] GatedSpan replay(Graph& graph, double& launch_us, const Hooks& hooks);
  std::unique_ptr<Graph> one_, many_;
  int operations_ = 0;
  double delay_us_ = 0;
};

/// No gate, no profiler: from the call to its return (submit) and to the end of the work (latency).
class HostSampler final : public Sampler {
 public:
  using Sampler::Sampler;
  void prepare() override;
  void sample(Samples& out, const Hooks& hooks = {}) override;
};

/// As EventSampler under a CUPTI trace: the durations of the kernels that the operation ran. Throws WrongError where
/// one of them ran out of the stream's order, or where another thread enqueued it.
class KernelSampler final : public Sampler {
 public:
  KernelSampler(Device& device, Launch& launch) : Sampler{device, launch}, untraced_{device, launch} {}
  void prepare() override;
  void open() override;
  void close() override;
  void sample(Samples& out, const Hooks& hooks = {}) override;
  void audit(const Hooks& hooks) override { sample(audited_, hooks); }
  [[nodiscard]] bool traces() const override { return true; }

 private:
  struct Pending {
    Samples* out;
    double span_us;
  };
  EventSampler untraced_;
  double delay_us_ = 0;             ///< longer than without the tracer, which makes every call slower
  std::vector<double> outside_us_;  ///< spans without the tracer, just before it starts
  std::vector<Pending> pending_;    ///< sample k carries mark k + 1
  Samples audited_;                 ///< whose times nobody asks for
};

[[nodiscard]] std::unique_ptr<Sampler> make_sampler(TimingMode mode, Device& device, Launch& launch);
/// Samples a round that the protocol asks for where the user does not.
[[nodiscard]] int default_samples(TimingMode mode);
/// For variants on the host. Mode host takes many samples for the percentiles of a launch path, and a kernel on the CPU
/// has no launch path.
inline constexpr int host_variant_samples = 10;

/// The nearest nanosecond, below every clock's resolution here: keeps conversion noise out of the store.
[[nodiscard]] double whole_ns(double us);
/// The nearest picosecond, for times an operation that are quotients of measured spans.
[[nodiscard]] double whole_ps(double us);

[[nodiscard]] GatedSpan gated_span(Device& device, double delay_us, const std::function<void()>& body,
                                   const Hooks& hooks = {});
/// Median span of three gated operations: what pilots size their batches by.
[[nodiscard]] double pilot_span_us(Device& device, Launch& launch);
/// A delay that covers enqueueing stamps and body, with room to spare.
[[nodiscard]] double pilot_delay_us(Device& device, const std::function<void()>& body);

}  // namespace mage
