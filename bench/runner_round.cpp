// SPDX-License-Identifier: Apache-2.0
// One round of one fixture: settling, floor, samples, flags.
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "bench/gate.hpp"
#include "bench/nvtx.hpp"
#include "bench/runner_state.hpp"
#include "bench/statistics.hpp"
#include "bench/store.hpp"

namespace mage {
namespace {

using Json = nlohmann::ordered_json;

constexpr double settle_tolerance = 0.01;
constexpr double settle_limit_us = 500e3;
constexpr double invalid_share = 0.2;  // more samples than this behind a missed gate: no verdict
constexpr double floor_factor = 3;

int floor_samples(TimingMode mode) {
  switch (mode) {
    case TimingMode::event:
    case TimingMode::event_cold:
    case TimingMode::kernel: return 10;
    case TimingMode::batch:
    case TimingMode::graph: return 5;
    case TimingMode::host: return 50;
  }
  throw std::logic_error{"floor_samples: unknown mode"};
}

/// The profiler's capture range: open around the samples, closed however they end.
class ProfiledRegion {
 public:
  explicit ProfiledRegion(Device& device) : device_{device} { device_.profiler_start(); }
  ~ProfiledRegion() { device_.profiler_stop(); }
  ProfiledRegion(const ProfiledRegion&) = delete;
  ProfiledRegion& operator=(const ProfiledRegion&) = delete;

 private:
  Device& device_;
};

}  // namespace

std::optional<double> Runner::floor_us(Device& device, TimingMode mode, int round) {
  auto [found, created] = floors_.try_emplace({&device, mode});
  auto& floors = found->second;
  if (created) {
    floors.empty = device.empty_launch();
    auto sampler = make_sampler(mode, device, floors.empty);
    try {
      sampler->prepare();
      floors.sampler = std::move(sampler);
    } catch (const UnavailableError&) {
      // No floor where the mode cannot be timed; the fixture itself reports why.
      floors.sampler.reset();
    } catch (...) {
      floors_.erase(found);  // a failure is tried again, and not taken for a mode without a floor
      throw;
    }
  }
  if (!floors.sampler) return std::nullopt;
  const auto& problem = session_->plan;
  const auto problem_name = std::string{problem.family->name()} + "/" + problem.problem.name;
  if (floors.round == round && floors.problem == problem_name) return floors.median_us;
  Samples samples;
  SamplerGroup group{*floors.sampler};
  for (int i = 0; i < floor_samples(mode); ++i) floors.sampler->sample(samples);
  group.close();
  floors.median_us = statistics::median(samples.us);
  floors.parts_us.clear();
  for (const auto& [part, values] : samples.parts) floors.parts_us[part] = statistics::median(values);
  floors.round = round;
  floors.problem = problem_name;
  events_.record({{"kind", "floor"},
                  {"device", device.info().is_host ? "host" : "cuda"},
                  {"mode", to_string(mode)},
                  {"problem", problem_name},
                  {"round", round},
                  {"median_us", floors.median_us},
                  {"samples_us", samples.us},
                  {"parts_us", samples.parts}});
  return floors.median_us;
}

std::optional<double> Runner::clock_mhz(Device& device) {
  const auto probe = device.probe_clock();
  if (!probe) return std::nullopt;
  best_clock_mhz_ = std::max(best_clock_mhz_, probe->sm_mhz);
  return probe->sm_mhz;
}

// An idle GPU runs at a fraction of its clock: spin until the clock is that of the best probe of this run.
bool Runner::settle(Device& device) {
  const NvtxRange phase{"settle"};
  const double begin_us = device.now_us();
  if (best_clock_mhz_ == 0) {
    // The first time there is nothing to settle to: spin long enough for an idle clock to rise.
    while (device.now_us() - begin_us < settle_limit_us && clock_mhz(device)) {
    }
    return true;
  }
  do {
    const auto mhz = clock_mhz(device);
    if (!mhz || *mhz >= best_clock_mhz_ * (1 - settle_tolerance)) return true;
  } while (device.now_us() - begin_us < settle_limit_us);
  return false;
}

std::optional<bool> Runner::read_device_state(Device& device) {
  if (device.info().is_host || !events_.device_state) return std::nullopt;
  if (auto reading = events_.device_state(device.now_us())) {
    const auto throttled = reading->value("throttled", Json(nullptr));
    throttled_ = throttled.is_boolean() ? std::optional{throttled.get<bool>()} : std::nullopt;
    (*reading)["kind"] = "device";
    events_.record(*reading);
  }
  return throttled_;
}

/// What a row says of its fixture, its place in the order, and its origin.
Json Runner::describe(const FixtureState& state, const Step& step) {
  const auto& fixture = *state.fixture;
  const auto& variant = *fixture.variant;
  // A fixture that dropped out ran no round: name the one that really ran before.
  auto& last = session_->last_in_block[{fixture.mode, variant.on_host(), step.round}];
  Json block;
  block["family"] = variant.family;
  block["variant"] = variant.name;
  block["problem"] = fixture.problem.name;
  block["mode"] = to_string(fixture.mode);
  block["provider"] = variant.provider;
  block["parent"] = variant.parent.empty() ? Json(nullptr) : Json(variant.parent);
  block["source"] = variant.source;
  if (const auto& runs = picked(variant, fixture.problem); &runs != &variant) block["picked"] = runs.name;
  block["device"] = variant.on_host() ? "host" : "cuda";
  block["inputs_sha256"] = session_->inputs_sha256;
  block["round"] = step.round;
  block["rounds"] = plan_.rounds[static_cast<std::size_t>(step.fixture)];
  block["sequence"] = sequence_++;
  block["position"] = step.position;
  block["predecessor"] = last.empty() ? Json(nullptr) : Json(last);
  block["work"] = work_json(fixture.family->work(fixture.problem));
  block["peak_gbytes_per_s"] =
      state.device->info().peak_gbytes_per_s > 0 ? Json(state.device->info().peak_gbytes_per_s) : Json(nullptr);
  block["samples_asked"] = state.samples_asked;
  block["input_epoch"] = session_->epoch;
  block["offsets"] = state.bound_case->offsets();
  block["scratch_offsets"] = state.device->scratch_offsets();
  const auto& audited = session_->audited[state.subject()];
  block["unrepeated_ratio"] = audited.unrepeated ? Json(*audited.unrepeated) : Json(nullptr);
  block["spoilt_ratio"] = audited.spoilt ? Json(*audited.spoilt) : Json(nullptr);
  last = fixture.name;
  return block;
}

/// The counted samples of a round, one of them checked as a whole, and before them one that is audited and does not
/// count. Those of warm modes see an L2 that only the operation filled.
/// False where there is no round: the fixture was found wrong, or the user interrupted.
bool Runner::take_samples(FixtureState& state, const Step& step, RoundResult& result) {
  auto& device = *state.device;
  auto& bound = *state.bound_case;
  const int checked = static_cast<int>(secret() % static_cast<unsigned>(state.samples));
  result.block["checked_sample"] = checked;
  const auto wrong = [&](const std::string& reason) {
    set_status(state, Status::wrong, fmt::format("checked inside round {}: {}", step.round, reason));
    return false;
  };
  const auto passes = [&](const Verdict& verdict) {
    if (!verdict.ok) return wrong(verdict.reason);
    const auto [known, first] = state.bits.try_emplace({session_->epoch, bound.set()}, verdict.output_checksum);
    if (first || !state.fixture->variant->deterministic || known->second == verdict.output_checksum) return true;
    return wrong("two calls gave different bits, though the variant says it is deterministic");
  };

  Samples discarded;
  SamplerGroup group{*state.sampler};
  const auto begin_afresh = [&] {
    if (!state.warms_up()) return;
    const NvtxRange phase{"warm_up"};
    warm_up(device, *state.sampler, discarded);
  };
  const auto check = [&] {
    const NvtxRange phase{"verify"};
    return passes(check_all(bound));
  };
  // Where a round affords one sample and no cache is to be kept warm, that one is the audit, too.
  const bool apart = state.samples > 1 || state.warms_up();
  if (apart) {
    const NvtxRange phase{"verify"};
    state.sampler->audit(audit_hooks(bound, !state.sampler->traces()));
    if (!passes(check_all(bound))) return false;
  }
  begin_afresh();
  // Where caches are swept, all is spoilt before the sweep: a spoilt output is in L2.
  const auto hooks = apart || state.spoils_all() ? counted_hooks(bound, state.spoils_all()) : audit_hooks(bound, false);
  const ProfiledRegion profiled{device};
  for (int i = 0; i < state.samples; ++i) {
    if (interrupt_signal != 0) return false;  // half a round is no round
    const double begin_us = device.now_us();
    {
      const NvtxRange phase{"samples"};
      state.sampler->sample(result.samples, hooks);
    }
    inside_samples_us_ += device.now_us() - begin_us;
    if (i != checked) continue;
    if (!check()) return false;
    if (i + 1 < state.samples) begin_afresh();
  }
  if (const auto reason = bound.found(); !reason.empty()) return wrong(reason);
  if (const auto reason = bound.damage(); !reason.empty()) return wrong(reason);
  group.close();
  return true;
}

RoundResult Runner::measure(FixtureState& state, const Step& step) {
  auto& device = *state.device;
  const auto& fixture = *state.fixture;
  const NvtxRange fixture_range{fixture.name};
  if (step.round == 0 && !pilot(state)) return {};
  auto throttled = read_device_state(device);
  const int stream = device.change_stream(step.round);  // the same for every fixture of a round, and for its floor
  device.reset_persisting_l2();
  const bool settled = settle(device);
  const auto floor = floor_us(device, fixture.mode, step.round);
  const auto clock_before = clock_mhz(device);

  RoundResult result;
  result.block = describe(state, step);
  result.block["stream"] = stream;
  result.block["host_us_begin"] = device.now_us();
  if (!take_samples(state, step, result)) return {};
  result.block["host_us_end"] = device.now_us();
  judge_settings(state, Changes::forbidden_in_a_call);
  const auto clock_after = clock_mhz(device);
  if (const auto after = read_device_state(device); after) throttled = *after || throttled.value_or(false);

  auto& samples = result.samples;
  result.median_us = statistics::median(samples.us);
  if (!(result.median_us > 0))
    throw std::runtime_error{fmt::format("the median of {} samples is {} us: the operation is too short for this mode",
                                         samples.us.size(), result.median_us)};
  const auto count = static_cast<double>(samples.us.size());
  const bool missed_many = samples.gate_missed > invalid_share * count;
  // A span that holds host time is nothing to judge others by.
  if (!missed_many && samples.alone_missed <= invalid_share * count) judge_times(state, step, result);
  const bool counts_gates =
      !device.info().is_host && fixture.mode != TimingMode::batch && fixture.mode != TimingMode::host;
  const bool moved = clock_before && clock_after && std::fabs(*clock_after / *clock_before - 1) > settle_tolerance;
  Json flags = Json::array();
  if (!settled) flags.push_back(flag::clock_unsettled);
  if (moved) flags.push_back(flag::clock_moved);
  if (throttled == true) flags.push_back(flag::throttled);
  if (samples.gate_missed > 0) flags.push_back(flag::gate_missed);
  if (missed_many || !settled || (moved && throttled == true)) flags.push_back(flag::unstable);
  if (samples.launch_bound > count / 2) flags.push_back(flag::launch_bound);
  if (samples.perturbed) flags.push_back(flag::perturbed);
  if (state.samples < state.samples_asked) flags.push_back(flag::fewer_samples);
  if (floor && result.median_us < floor_factor * *floor) flags.push_back(flag::floor_dominated);
  if (!state.fixture->variant->counter_example.empty()) flags.push_back(flag::counter_example);
  if (state.persisting_l2_denied) flags.push_back(flag::persisting_l2_denied);
  if (fixture.mode != TimingMode::event_cold && session_->audited[state.subject()].gains_by_repetition())
    flags.push_back(flag::gains_by_repetition);

  auto& block = result.block;
  block["flags"] = std::move(flags);
  block["floor_us"] = floor ? Json(*floor) : Json(nullptr);
  block["sm_mhz_before"] = clock_before ? Json(*clock_before) : Json(nullptr);
  block["sm_mhz_after"] = clock_after ? Json(*clock_after) : Json(nullptr);
  block["gate_missed"] = counts_gates ? Json(samples.gate_missed) : Json(nullptr);
  block["quantum_us"] = quantum_us(device, fixture.mode, samples.us);
  block["figures"] = samples.figures;
  block["kernels"] = samples.kernels;
  const auto autocorrelation = statistics::lag1_autocorrelation(samples.us);
  const auto drift = statistics::drift(samples.us);
  block["lag1_autocorrelation"] = autocorrelation ? Json(*autocorrelation) : Json(nullptr);
  block["drift"] = drift ? Json(*drift) : Json(nullptr);
  block["parts_us"] = samples.parts;
  return result;
}

/// The step of the clock behind these samples: the smallest difference that this run has seen in the mode.
Json Runner::quantum_us(const Device& device, TimingMode mode, std::vector<double> samples_us) {
  std::sort(samples_us.begin(), samples_us.end());
  const auto found = quantum_us_.find({&device, mode});
  double smallest = found == quantum_us_.end() ? 0 : found->second;
  for (std::size_t i = 1; i < samples_us.size(); ++i) {
    const double step = whole_ps(samples_us[i] - samples_us[i - 1]);
    if (step > 0 && (smallest == 0 || step < smallest)) smallest = step;
  }
  if (smallest == 0) return nullptr;
  quantum_us_[{&device, mode}] = smallest;
  return smallest;
}

}  // namespace mage
