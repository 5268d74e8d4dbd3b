// SPDX-License-Identifier: Apache-2.0
#include "bench/runner.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <tuple>

#include "bench/gate.hpp"
#include "bench/nvtx.hpp"
#include "bench/sha256.hpp"
#include "bench/statistics.hpp"
#include "bench/store.hpp"
#include "mage_bench/random.hpp"

namespace mage {

std::atomic<int> interrupt_signal{0};

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

Json work_json(const Work& work) {
  Json json{{"flops", work.flops}, {"bytes_read", work.bytes_read}, {"bytes_written", work.bytes_written}};
  if (work.ceiling_of) json["ceiling_of"] = to_string(*work.ceiling_of);
  return json;
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

struct Runner::FixtureState {
  const Fixture* fixture = nullptr;
  Device* device = nullptr;
  Case* bound_case = nullptr;
  Launch launch;
  std::unique_ptr<Sampler> sampler;
  Status status = Status::ok;
  int samples_asked = 0;
  int samples = 0;
  int rounds_done = 0;
};

/// The same sampler on an operation that does nothing.
struct Runner::Floors {
  Launch empty;
  std::unique_ptr<Sampler> sampler;  ///< null where the mode has no floor here
  std::string problem;               ///< of the newest floor
  int round = -1;
  double median_us = 0;
};

struct Runner::Session {
  Session(std::size_t index, const ProblemPlan& problem)
      : problem_index{index}, plan{problem}, oracle{*problem.family, problem.problem} {}
  std::size_t problem_index;
  const ProblemPlan& plan;
  Oracle oracle;
  std::map<const Device*, std::unique_ptr<Case>> cases;
  std::map<int, FixtureState> fixtures;
  std::string inputs_sha256;
  std::map<std::tuple<TimingMode, bool, int>, std::string> last_in_block;  ///< by mode, host or CUDA, and round
};

Runner::Runner(const Options& options, const Plan& plan, Devices& devices, std::uint32_t fresh_epoch,
               RunnerEvents events)
    : options_{options},
      plan_{plan},
      devices_{devices},
      fresh_epoch_{std::max(fresh_epoch, 1U)},
      events_{std::move(events)} {}

Runner::~Runner() = default;

void Runner::set_status(FixtureState& state, Status status, const std::string& reason,
                        std::optional<Unavailable> code) {
  state.status = status;
  order_as_planned_ = false;
  if (status == Status::wrong || status == Status::failed) failures_ += 1;
  events_.record({{"kind", "status"},
                  {"name", state.fixture->name},
                  {"status", to_string(status)},
                  {"code", code ? Json(to_string(*code)) : Json(nullptr)},
                  {"reason", reason}});
}

/// Runs body; whatever it throws becomes the fixture's status. True where the fixture is still ok.
template <class Body>
bool Runner::guarded(FixtureState& state, Body&& body) {
  if (state.status != Status::ok) return false;
  if (!device_lost_.empty() && state.device == devices_.cuda.get()) {
    set_status(state, Status::failed, device_lost_);
    return false;
  }
  try {
    body();
    return state.status == Status::ok;
  } catch (const RecordError&) {
    throw;
  } catch (const UnavailableError& error) {
    set_status(state, Status::unavailable, error.what(), error.reason());
  } catch (const std::exception& error) {
    set_status(state, Status::failed, error.what());
  }
  try {
    state.device->synchronize();
  } catch (const std::exception& error) {
    // An illegal address poisons the context for good: say so once, and blame the one that did it.
    try {
      state.device->synchronize();
    } catch (const std::exception&) {
      device_lost_ = "the device is unusable since " + state.fixture->name + " failed: " + error.what();
    }
  }
  return false;
}

void Runner::prepare(FixtureState& state, int fixture) {
  state.fixture = &plan_.fixtures[static_cast<std::size_t>(fixture)];
  state.device = &devices_.of(*state.fixture->variant);
  guarded(state, [&] {
    const auto mode = state.fixture->mode;
    if (const auto reason = state.device->unavailable(mode))
      throw UnavailableError{*reason, std::string{explain(*reason)}};
    auto shared = session_->cases.find(state.device);
    if (shared == session_->cases.end())  // only a case that could be made is kept
      shared = session_->cases.emplace(state.device, std::make_unique<Case>(*state.device, session_->oracle)).first;
    state.bound_case = shared->second.get();
    state.launch = state.bound_case->bind(*state.fixture->variant);
    state.sampler = make_sampler(mode, *state.device, state.launch);
    if (!state.device->info().is_host) audit_stream(state);
    if (state.status != Status::ok) return;
    state.sampler->prepare();
    state.samples_asked = options_.samples > 0           ? options_.samples
                          : state.device->info().is_host ? host_variant_samples
                                                         : default_samples(mode);
    state.samples = state.samples_asked;
  });
}

// Work on another stream would end outside the stamps. A capture of the operation holds what it puts on ours.
void Runner::audit_stream(FixtureState& state) {
  try {
    const auto graph = state.device->capture(state.launch, 1);
    if (graph->kernel_nodes() + graph->other_nodes() == 0)
      set_status(state, Status::wrong, "the operation put nothing on the stream that it was given");
  } catch (const UnavailableError&) {
    // It cannot be captured: mode graph says so, and for the others that is no fault.
    state.device->synchronize();
  }
}

void Runner::gate(FixtureState& state, const char* when) {
  guarded(state, [&] {
    const NvtxRange fixture_range{state.fixture->name};
    const NvtxRange phase{"verify"};
    const auto verdict = run_gate(*state.sampler, *state.bound_case, state.fixture->variant->deterministic);
    events_.record({{"kind", "gate"},
                    {"name", state.fixture->name},
                    {"when", when},
                    {"ok", verdict.ok},
                    {"worst_error_over_bound", verdict.worst},
                    {"output_checksum", fmt::format("{:016x}", verdict.output_checksum)}});
    if (!verdict.ok) set_status(state, Status::wrong, fmt::format("gate {} the rounds: {}", when, verdict.reason));
  });
}

// Fits the samples of a round into the budget by the wall time that a sample costs.
bool Runner::pilot(FixtureState& state) {
  return guarded(state, [&] {
    Samples discarded;
    SamplerGroup group{*state.sampler};
    const double begin_us = state.device->now_us();
    int taken = 0;
    double spent_us = 0;
    while (taken < 3 && (taken == 0 || spent_us < 20e3)) {
      state.sampler->sample(discarded);
      ++taken;
      spent_us = state.device->now_us() - begin_us;
    }
    group.close();
    const double affordable = options_.round_budget_s * 1e6 / std::max(spent_us / taken, 0.1);
    state.samples = static_cast<int>(std::clamp(affordable, 1.0, static_cast<double>(state.samples_asked)));
  });
}

void Runner::open(std::size_t problem) {
  const auto& plan = plan_.problems[problem];
  session_ = std::make_unique<Session>(problem, plan);
  Sha256 combined;
  Json inputs = Json::object();
  const auto& operands = session_->oracle.operands();
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].role != Role::in) continue;
    const auto digest = sha256(session_->oracle.input(i));
    inputs[operands[i].name] = digest;
    combined.update(digest);
  }
  session_->inputs_sha256 = combined.finish();
  events_.record({{"kind", "problem"},
                  {"family", plan.family->name()},
                  {"problem", plan.problem.name},
                  {"inputs_sha256", inputs},
                  {"tolerance", plan.family->tolerance(plan.problem)},
                  {"work", work_json(plan.family->work(plan.problem))},
                  {"device_bytes", Case::device_bytes(operands)},
                  {"host_bytes", Case::host_bytes(operands)}});
  for (const int index : plan.fixtures) {
    if (plan_.fixtures[static_cast<std::size_t>(index)].status != Status::ok) continue;
    if (interrupt_signal != 0) return;
    auto& state = session_->fixtures[index];
    prepare(state, index);
    gate(state, "before");
  }
}

void Runner::close(bool interrupted) {
  if (!session_) return;
  if (!interrupted) {
    session_->oracle.refresh(fresh_epoch_);
    std::map<const Device*, std::string> not_renewed;
    for (auto& [device, bound] : session_->cases) {
      try {
        bound->reload();
      } catch (const std::exception& error) {
        not_renewed[device] = std::string{"the inputs could not be renewed for the closing gate: "} + error.what();
      }
    }
    for (auto& [index, state] : session_->fixtures) {
      if (state.rounds_done == 0 || state.status != Status::ok) continue;
      if (const auto why = not_renewed.find(state.device); why != not_renewed.end())
        set_status(state, Status::failed, why->second);
      else
        gate(state, "after");
    }
  }
  const auto& plan = session_->plan;
  session_.reset();
  if (events_.problem_done) events_.problem_done(plan);
}

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
  last = fixture.name;
  return block;
}

/// The counted samples of a round, each over speckled outputs, and one more that is poisoned, checked and not counted.
/// False where there is no round: the fixture was found wrong, or the user interrupted.
bool Runner::take_samples(FixtureState& state, const Step& step, RoundResult& result) {
  const NvtxRange phase{"samples"};
  auto& device = *state.device;
  auto& bound = *state.bound_case;
  const bool audited = state.samples >= 2;
  const auto bits = philox({static_cast<std::uint32_t>(sequence_), 0, 0, 0x6A7EU},
                           {static_cast<std::uint32_t>(options_.seed), fresh_epoch_});
  const int audit_at = audited ? static_cast<int>(bits[0] % static_cast<unsigned>(state.samples)) : -1;
  result.block["checked_sample"] = audited ? Json(audit_at) : Json(nullptr);
  const auto wrong = [&](const std::string& why) {
    set_status(state, Status::wrong, fmt::format("checked inside round {}: {}", step.round, why));
    return false;
  };

  Samples discarded;
  SamplerGroup group{*state.sampler};
  const ProfiledRegion profiled{device};
  for (int i = 0; i < state.samples; ++i) {
    if (i == audit_at) {
      state.sampler->sample(discarded, {.speckle = {}, .poison = [&] { bound.poison(); }});
      if (const auto verdict = bound.check(); !verdict.ok) return wrong(verdict.reason);
    }
    const double begin_us = device.now_us();
    state.sampler->sample(result.samples, {.speckle = [&] { bound.speckle(); }, .poison = {}});
    inside_samples_us_ += device.now_us() - begin_us;
    if (!bound.speckles_gone()) return wrong("a counted sample left words of its output unwritten");
    if (interrupt_signal != 0 && i + 1 < state.samples) return false;  // half a round is no round
  }
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
  const auto clock_after = clock_mhz(device);
  if (const auto after = read_device_state(device); after) throttled = *after || throttled.value_or(false);

  auto& samples = result.samples;
  result.median_us = statistics::median(samples.us);
  if (!(result.median_us > 0))
    throw std::runtime_error{fmt::format("the median of {} samples is {} us: the operation is too short for this mode",
                                         samples.us.size(), result.median_us)};
  const auto count = static_cast<double>(samples.us.size());
  const bool counts_gates =
      !device.info().is_host && fixture.mode != TimingMode::batch && fixture.mode != TimingMode::host;
  const bool moved = clock_before && clock_after && std::fabs(*clock_after / *clock_before - 1) > settle_tolerance;
  Json flags = Json::array();
  if (!settled) flags.push_back(flag::clock_unsettled);
  if (moved) flags.push_back(flag::clock_moved);
  if (throttled == true) flags.push_back(flag::throttled);
  if (samples.gate_missed > 0) flags.push_back(flag::gate_missed);
  if (samples.gate_missed > invalid_share * count || !settled || (moved && throttled == true))
    flags.push_back(flag::unstable);
  if (samples.launch_bound > count / 2) flags.push_back(flag::launch_bound);
  if (samples.perturbed) flags.push_back(flag::perturbed);
  if (state.samples < state.samples_asked) flags.push_back(flag::fewer_samples);
  if (floor && result.median_us < floor_factor * *floor) flags.push_back(flag::floor_dominated);
  if (!state.fixture->variant->counter_example.empty()) flags.push_back(flag::counter_example);

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

std::optional<RoundResult> Runner::run(std::size_t problem, const Step& step) {
  if (interrupt_signal != 0) return std::nullopt;
  if (!session_ || session_->problem_index != problem) {
    close(false);
    open(problem);
  }
  const auto found = session_->fixtures.find(step.fixture);
  if (found == session_->fixtures.end()) return std::nullopt;  // interrupted while opening
  auto& state = found->second;
  RoundResult result;
  const bool ok = guarded(state, [&] { result = measure(state, step); });
  if (!ok || result.block.is_null()) return std::nullopt;
  state.rounds_done += 1;
  return result;
}

void Runner::verify(std::size_t problem) {
  open(problem);
  for (auto& [index, state] : session_->fixtures) state.rounds_done = 1;  // gate again although nothing was timed
  close(interrupt_signal != 0);
}

void Runner::finish(bool interrupted) { close(interrupted); }

}  // namespace mage
