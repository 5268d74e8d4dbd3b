// SPDX-License-Identifier: Apache-2.0
// What the runner looks at beside outputs: settings of the device, the stream's order, times that cannot be.
#include <fmt/format.h>

#include "bench/runner_state.hpp"
#include "bench/statistics.hpp"

namespace mage {
namespace {

constexpr std::size_t few_rounds = 3;  // whose medians one bad round does not move

}  // namespace

/// Whatever changed is set back, so that the next one finds what this one found. Whether it is the variant's fault:
/// see Changes.
void Runner::judge_settings(FixtureState& state, Changes which) {
  auto& device = *state.device;
  const auto& right = settings_.at(&device);
  const auto now = device.settings();
  if (changed_settings(right, now, Changes::any).empty()) return;
  auto forbidden = changed_settings(right, now, which);
  try {
    device.set_back(right);
    device.reset_persisting_l2();
  } catch (const std::exception& error) {
    if (forbidden.empty()) throw;
    forbidden += std::string{", which cannot be set back: "} + error.what();
  }
  if (!forbidden.empty()) throw WrongError{"it changed a setting of the device: " + forbidden};
  if (!changed_settings(right, now, Changes::forbidden_in_a_call).empty()) state.persisting_l2_denied = true;
}

/// What is the same in every mode is looked at in the first: whether all work is on the stream, and in its order; and
/// what the operation owes to inputs that repeat.
void Runner::audit_once(FixtureState& state) {
  auto& device = *state.device;
  if (device.info().is_host || session_->audited[state.subject()].complete) return;
  Session::Audited audited;     // an audit that fails by an error is made again in the next mode
  device.submit(state.launch);  // what a first call loads or allocates a capture may not
  device.synchronize();
  try {
    const auto graph = device.capture(state.launch, 1);
    audited.nodes = graph->kernel_nodes() + graph->other_nodes();
    if (audited.nodes == 0) throw WrongError{"the operation put nothing on the stream that it was given"};
  } catch (const UnavailableError&) {
    // It cannot be captured: mode graph says so, and for the others that is no fault.
    device.synchronize();
  }
  const auto out_of_turn = work_out_of_turn(device, *state.bound_case, state.launch);
  for (const auto& why : {out_of_turn.wrong, work_left_behind(device, state.launch)})
    if (!why.empty()) throw WrongError{why};
  audited.spoilt = spoilt_ratio(device, *state.bound_case, state.launch);
  const auto work = state.fixture->family->work(state.fixture->problem);
  if (!work.ceiling_of && work.bytes() > static_cast<double>(device.info().l2_bytes)) {
    auto copies = state.bound_case->bind_to_copies(*state.fixture->variant);
    judge_settings(state, Changes::forbidden_before_calls);
    audited.unrepeated = unrepeated_ratio(device, *state.bound_case, state.launch, copies);
  }
  audited.complete = out_of_turn.lacking.empty();
  session_->audited[state.subject()] = audited;
}

/// Why the times of a round, or of all rounds so far, cannot be those of their work.
void Runner::judge_times(const FixtureState& state, const Step& step, const RoundResult& result) {
  const auto& info = state.device->info();
  if (info.is_host) return;
  const auto expect = [&](const std::string& why) {
    if (!why.empty()) throw WrongError{fmt::format("round {}: {}", step.round, why)};
  };
  const auto mode = state.fixture->mode;
  const auto work = state.fixture->family->work(state.fixture->problem);
  if (mode == TimingMode::event_cold && !work.ceiling_of)
    expect(faster_than_memory(work, result.median_us, info.peak_gbytes_per_s, info.l2_bytes));
  auto& slopes = slopes_[state.subject()];
  const auto& audited = session_->audited[state.subject()];
  const char* alone = mode == TimingMode::batch   ? "span_1_us"
                      : mode == TimingMode::graph ? "replay_latency_us"
                                                  : nullptr;
  const auto floor = floors_.find({state.device, mode});
  const auto empty = floors_.find({state.device, TimingMode::graph});
  const double start_us = empty == floors_.end() ? 0 : empty->second.median_us;
  if (alone != nullptr && floor != floors_.end() && floor->second.sampler) {
    auto& [each_us, own_us] = slopes[mode];
    each_us.push_back(result.median_us);
    own_us.push_back(statistics::median(result.samples.parts.at(alone)) - floor->second.parts_us.at(alone));
    Slope slope{.each_us = each_us.back(),
                .own_us = own_us.back(),
                .kernels = audited.nodes,
                .start_us = start_us,
                .repetition = audited.gains_by_repetition()};
    expect(too_good_for_one(slope));
    if (each_us.size() >= few_rounds) {
      slope.each_us = statistics::median(each_us);
      slope.own_us = statistics::median(own_us);
      slope.many_rounds = true;
      expect(too_good_for_one(slope));
    }
  }
  if (mode != TimingMode::kernel) return;
  // What batches and graphs of the same operation took, against what its kernels took by the profiler.
  for (const auto each : {TimingMode::batch, TimingMode::graph}) {
    const auto found = slopes.find(each);
    if (found == slopes.end()) continue;
    const auto why = too_good_for_one({.each_us = statistics::median(found->second.each_us),
                                       .own_us = statistics::median(result.samples.parts.at("busy_us")),
                                       .kernels = static_cast<int>(result.samples.kernels.size()),
                                       .start_us = start_us,
                                       .repetition = audited.gains_by_repetition()});
    if (!why.empty()) expect(fmt::format("mode {}, by its kernels' durations: {}", to_string(each), why));
  }
}

}  // namespace mage
