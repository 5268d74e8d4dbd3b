// SPDX-License-Identifier: Apache-2.0
// Carries a plan out: opens a problem, gates every fixture, takes the rounds, gates again on fresh inputs, closes.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/audits.hpp"
#include "bench/options.hpp"
#include "bench/plan.hpp"
#include "bench/samplers.hpp"
#include "mage_bench/case.hpp"
#include "mage_bench/device.hpp"

namespace mage {

/// The devices of a run; `cuda` is null where there is none.
struct Devices {
  std::unique_ptr<Device> host;
  std::unique_ptr<Device> cuda;
  [[nodiscard]] Device& of(const VariantInfo& variant) const { return variant.on_host() ? *host : *cuda; }
};

/// One measured round of one fixture.
struct RoundResult {
  Samples samples;
  double median_us = 0;
  nlohmann::ordered_json block;  ///< the row's `mage` object
};

/// What was measured could not be recorded: ends the run, and is no variant's fault.
class RecordError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Where the runner tells what happened; the journal and the console stand behind it.
struct RunnerEvents {
  std::function<void(const nlohmann::ordered_json& entry)> record;
  /// All rounds of a problem are over and both gates passed or failed.
  std::function<void(const ProblemPlan& problem)> problem_done;
  /// A reading of the GPU's state, at most some times a second; null where there is none.
  std::function<std::optional<nlohmann::ordered_json>(double now_us)> device_state;
};

class Runner {
 public:
  Runner(const Options& options, const Plan& plan, Devices& devices, std::uint32_t fresh_epoch, RunnerEvents events);
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  /// Steps come in the plan's order. Nothing where the fixture has no time; why was recorded.
  [[nodiscard]] std::optional<RoundResult> run(std::size_t problem, const Step& step);
  /// Gates only, through every timed path.
  void verify(std::size_t problem);
  /// Closes the last problem. On an interrupt the closing gate is left out, and its rows say so.
  void finish(bool interrupted);

  [[nodiscard]] double inside_samples_s() const { return inside_samples_us_ * 1e-6; }
  [[nodiscard]] int failures() const { return failures_; }  ///< fixtures found wrong or failed
  /// False where a fixture dropped out, so that its neighbours met each other more often than planned.
  [[nodiscard]] bool order_as_planned() const { return order_as_planned_; }

 private:
  struct FixtureState;
  struct Floors;
  struct Session;

  void open(std::size_t problem);
  void make_oracle();
  void close(bool interrupted);
  void begin_round(int round);
  void renew_inputs();
  [[nodiscard]] std::uint64_t place_seed(std::uint64_t what, int round) const;
  /// Another one each time, which nobody knows before the run.
  [[nodiscard]] std::uint64_t secret();
  void prepare(FixtureState& state, int fixture);
  void bind(FixtureState& state, int round);
  void release(FixtureState& state);
  void judge_settings(FixtureState& state, Changes which);
  void gate(FixtureState& state, const char* when, int calls);
  [[nodiscard]] bool pilot(FixtureState& state);
  void audit_once(FixtureState& state);
  [[nodiscard]] bool take_samples(FixtureState& state, const Step& step, RoundResult& result);
  void judge_times(const FixtureState& state, const Step& step, const RoundResult& result);
  [[nodiscard]] nlohmann::ordered_json quantum_us(const Device& device, TimingMode mode,
                                                  std::vector<double> samples_us);
  [[nodiscard]] nlohmann::ordered_json describe(const FixtureState& state, const Step& step);
  void set_status(FixtureState& state, Status status, const std::string& reason, std::optional<Unavailable> code = {});
  void record_status(int fixture, Status status, const std::string& reason, std::optional<Unavailable> code = {});
  /// Of all modes of a variant on a problem, also those measured already: it was found wrong in one.
  void condemn(const FixtureState& state, const std::string& reason);
  void restore(const FixtureState& state);
  template <class Body>
  bool guarded(FixtureState& state, Body&& body);
  [[nodiscard]] std::optional<double> floor_us(Device& device, TimingMode mode, int round);
  [[nodiscard]] bool settle(Device& device);
  [[nodiscard]] std::optional<double> clock_mhz(Device& device);
  /// Whether the device says that it is throttled, by its newest reading; nothing where it cannot say.
  std::optional<bool> read_device_state(Device& device);
  [[nodiscard]] RoundResult measure(FixtureState& state, const Step& step);

  const Options& options_;
  const Plan& plan_;
  Devices& devices_;
  std::uint32_t fresh_epoch_;
  RunnerEvents events_;
  std::unique_ptr<Session> session_;
  std::optional<Oracle> old_oracle_;  ///< whose memory the next problem's uses
  std::map<std::pair<const Device*, TimingMode>, Floors> floors_;
  double best_clock_mhz_ = 0;
  std::optional<bool> throttled_;                                      ///< by the newest reading
  std::map<std::pair<const Device*, TimingMode>, double> quantum_us_;  ///< smallest step between samples seen so far
  bool order_as_planned_ = true;
  double inside_samples_us_ = 0;
  std::map<const Device*, std::vector<DeviceSetting>> settings_;  ///< as they were before any variant
  std::map<std::string, std::string> condemned_;                  ///< family/variant/problem, and why
  struct Slopes {
    std::vector<double> each_us, own_us;  ///< see Slope in bench/audits.hpp; medians of rounds
  };
  std::map<std::string, std::map<TimingMode, Slopes>> slopes_;  ///< by family/variant/problem
  std::set<int> without_time_;                                  ///< fixtures whose status was recorded
  std::string device_lost_;  ///< why the CUDA device can do nothing any more; empty while it can
  std::int64_t sequence_ = 0;
  std::uint32_t secrets_ = 0;
  int failures_ = 0;
};

/// Set by SIGINT and SIGTERM; the runner and main look at it between samples and steps.
extern std::atomic<int> interrupt_signal;

}  // namespace mage
