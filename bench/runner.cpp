// SPDX-License-Identifier: Apache-2.0
#include "bench/runner.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <exception>
#include <new>
#include <stdexcept>

#include "bench/gate.hpp"
#include "bench/nvtx.hpp"
#include "bench/runner_state.hpp"
#include "bench/sha256.hpp"
#include "mage_bench/random.hpp"

namespace mage {

std::atomic<int> interrupt_signal{0};

using Json = nlohmann::ordered_json;

Json work_json(const Work& work) {
  Json json{{"flops", work.flops}, {"bytes_read", work.bytes_read}, {"bytes_written", work.bytes_written}};
  if (work.ceiling_of) json["ceiling_of"] = to_string(*work.ceiling_of);
  return json;
}

namespace {

/// Too little memory for what every variant of a problem needs is no variant's fault.
template <class Make>
void with_host_memory(const ProblemPlan& plan, const char* what, std::size_t bytes, Make&& make) {
  try {
    make();
  } catch (const std::bad_alloc&) {
    throw UnavailableError{Unavailable::memory, fmt::format("the host has no memory for {} of {}/{}: {} bytes", what,
                                                            plan.family->name(), plan.problem.name, bytes)};
  }
}

}  // namespace

Runner::Runner(const Options& options, const Plan& plan, Devices& devices, std::uint32_t fresh_epoch,
               RunnerEvents events)
    : options_{options},
      plan_{plan},
      devices_{devices},
      fresh_epoch_{std::max(fresh_epoch, 1U)},
      events_{std::move(events)} {}

Runner::~Runner() = default;

void Runner::record_status(int fixture, Status status, const std::string& reason, std::optional<Unavailable> code) {
  if (!without_time_.insert(fixture).second) return;
  const auto& of = plan_.fixtures[static_cast<std::size_t>(fixture)];
  order_as_planned_ = false;
  if (is_failure(status, *of.variant)) failures_ += 1;
  events_.record({{"kind", "status"},
                  {"name", of.name},
                  {"status", to_string(status)},
                  {"code", code ? Json(to_string(*code)) : Json(nullptr)},
                  {"reason", reason}});
}

void Runner::set_status(FixtureState& state, Status status, const std::string& reason,
                        std::optional<Unavailable> code) {
  state.status = status;
  record_status(state.index, status, reason, code);
  if (status == Status::wrong) condemn(state, reason);
}

void Runner::condemn(const FixtureState& state, const std::string& reason) {
  if (!condemned_.try_emplace(state.subject(), reason).second) return;
  const auto why = fmt::format("found wrong in mode {}: {}", to_string(state.fixture->mode), reason);
  for (std::size_t i = 0; i < plan_.fixtures.size(); ++i) {
    const auto& other = plan_.fixtures[i];
    if (other.status != Status::ok || other.variant != state.fixture->variant ||
        other.problem.name != state.fixture->problem.name)
      continue;
    record_status(static_cast<int>(i), Status::wrong, why);
    if (!session_) continue;
    if (const auto open = session_->fixtures.find(static_cast<int>(i)); open != session_->fixtures.end())
      open->second.status = Status::wrong;
  }
}

/// Behind a fixture that failed: the next one is judged by its own deeds.
void Runner::restore(const FixtureState& state) {
  try {
    if (state.bound_case != nullptr) state.bound_case->restore();
    state.device->wait_idle();
  } catch (const std::exception& error) {
    // An illegal address poisons the context for good: say so once, and blame the one that did it.
    try {
      state.device->wait_idle();
    } catch (const std::exception&) {
      device_lost_ = "the device is unusable since " + state.fixture->name + " failed: " + error.what();
      return;
    }
    const auto why = "the inputs could not be restored behind " + state.fixture->name + ": " + error.what();
    session_->no_oracle = std::make_exception_ptr(std::runtime_error{why});
  }
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
    state.device->wait_idle();  // what it left running is its own
    if (state.status == Status::ok) return true;
  } catch (const RecordError&) {
    throw;
  } catch (const UnavailableError& error) {
    set_status(state, Status::unavailable, error.what(), error.reason());
  } catch (const WrongError& error) {
    set_status(state, Status::wrong, error.what());
  } catch (const std::exception& error) {
    set_status(state, Status::failed, error.what());
  }
  restore(state);
  return false;
}

std::uint64_t Runner::place_seed(std::uint64_t what, int round) const {
  return random_bits({static_cast<std::uint32_t>(session_->problem_index), static_cast<std::uint32_t>(round),
                      static_cast<std::uint32_t>(what), 0x91AFU},
                     options_.seed);
}

std::uint64_t Runner::secret() {
  return random_bits({++secrets_, static_cast<std::uint32_t>(options_.seed), 0, 0x5EC4U}, fresh_epoch_);
}

/// Where a variant's scratch lies is drawn for each fixture and round; where the operands lie, for each round.
void Runner::bind(FixtureState& state, int round) {
  release(state);
  state.device->place_scratch(place_seed(static_cast<std::uint64_t>(state.index) + 1, round));
  state.launch = state.bound_case->bind(*state.fixture->variant);
  judge_settings(state, Changes::forbidden_before_calls);
}

void Runner::release(FixtureState& state) { state.launch = {}; }

void Runner::prepare(FixtureState& state, int fixture) {
  state.fixture = &plan_.fixtures[static_cast<std::size_t>(fixture)];
  state.index = fixture;
  state.device = &devices_.of(*state.fixture->variant);
  if (condemned_.contains(state.subject())) {
    state.status = Status::wrong;  // and that was recorded
    return;
  }
  guarded(state, [&] {
    const auto mode = state.fixture->mode;
    if (const auto reason = state.device->unavailable(mode))
      throw UnavailableError{*reason, std::string{explain(*reason)}};
    if (session_->no_oracle) std::rethrow_exception(session_->no_oracle);
    settings_.try_emplace(state.device, state.device->settings());
    auto& shared = session_->cases[state.device];
    if (!shared)
      with_host_memory(session_->plan, "the operands", Case::device_bytes(session_->oracle->operands()), [&] {
        shared = std::make_unique<Case>(
            *state.device, *session_->oracle,
            CaseOptions{.slack_bytes = state.device->info().is_host ? host_slack_bytes : device_slack_bytes,
                        .border = {},
                        .secret = secret()});
      });
    state.bound_case = shared.get();
    bind(state, -1);
    state.sampler = make_sampler(mode, *state.device, state.launch);
    audit_once(state);
    if (state.status != Status::ok) return;
    state.sampler->prepare();
    state.samples_asked = options_.samples > 0 ? options_.samples
                          : state.device->info().is_host
                              ? host_variant_samples
                              : std::max(default_samples(mode) / options_.samples_divisor, 1);
    state.samples = state.samples_asked;
  });
}

void Runner::gate(FixtureState& state, const char* when, int calls) {
  guarded(state, [&] {
    const NvtxRange fixture_range{state.fixture->name};
    const NvtxRange phase{"verify"};
    if (!state.launch) bind(state, -2);
    const auto verdict = run_gate(*state.sampler, *state.bound_case, state.fixture->variant->deterministic, calls);
    judge_settings(state, Changes::forbidden_in_a_call);
    events_.record({{"kind", "gate"},
                    {"name", state.fixture->name},
                    {"when", when},
                    {"ok", verdict.ok},
                    {"worst_error_over_bound", verdict.worst},
                    {"output_checksum", fmt::format("{:016x}", verdict.output_checksum)}});
    if (!verdict.ok) set_status(state, Status::wrong, fmt::format("gate {} the rounds: {}", when, verdict.reason));
  });
  release(state);
}

// Fits the samples of a round into the budget by the wall time that a sample costs, those that don't count included.
bool Runner::pilot(FixtureState& state) {
  return guarded(state, [&] {
    Samples discarded;
    SamplerGroup group{*state.sampler};
    const auto hooks = counted_hooks(*state.bound_case, state.spoils_all());
    const double begin_us = state.device->now_us();
    int taken = 0;
    double spent_us = 0;
    while (taken < 3 && (taken == 0 || spent_us < 20e3)) {
      state.sampler->sample(discarded, hooks);
      ++taken;
      spent_us = state.device->now_us() - begin_us;
    }
    group.close();
    const double affordable = options_.round_budget_s * 1e6 / std::max(spent_us / taken, 0.1);
    const double uncounted = state.warms_up() ? 3 : 1;  // the audited one, and two warm-ups
    state.samples = static_cast<int>(std::clamp(affordable - uncounted, 1.0, static_cast<double>(state.samples_asked)));
  });
}

void Runner::make_oracle() {
  const auto& plan = session_->plan;
  const auto operands = plan.family->operands(plan.problem);
  with_host_memory(plan, "the inputs and the reference", Case::host_bytes(operands), [&] {
    session_->oracle.emplace(*plan.family, plan.problem, 0, old_oracle_ ? &*old_oracle_ : nullptr);
    session_->oracle->vary(secret());
  });
  Sha256 combined;
  Json inputs = Json::object();
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].role != Role::in) continue;
    const auto digest = sha256(session_->oracle->input(i));
    inputs[operands[i].name] = digest;
    combined.update(digest);
  }
  session_->inputs_sha256 = combined.finish();
  Json telling = Json::object();
  std::size_t output = 0;
  for (const auto& operand : operands)
    if (operand.role == Role::out) telling[operand.name] = session_->oracle->variation().telling.at(output++);
  events_.record({{"kind", "problem"},
                  {"family", plan.family->name()},
                  {"problem", plan.problem.name},
                  {"inputs_sha256", inputs},
                  {"telling_places", telling},
                  {"tolerance", plan.family->tolerance(plan.problem)},
                  {"work", work_json(plan.family->work(plan.problem))},
                  {"device_bytes", Case::device_bytes(operands)},
                  {"host_bytes", Case::host_bytes(operands)}});
}

void Runner::open(std::size_t problem) {
  const auto& plan = plan_.problems[problem];
  session_ = std::make_unique<Session>(problem, plan);
  for (const auto& step : plan.steps) session_->rounds = std::max(session_->rounds, step.round + 1);
  const auto begin_us = devices_.host->now_us();
  try {
    make_oracle();
  } catch (const RecordError&) {
    throw;
  } catch (const std::exception&) {
    session_->no_oracle = std::current_exception();
  }
  session_->renewal_us = devices_.host->now_us() - begin_us;
  for (const int index : plan.fixtures) {
    if (plan_.fixtures[static_cast<std::size_t>(index)].status != Status::ok) continue;
    if (interrupt_signal != 0) return;
    auto& state = session_->fixtures[index];
    prepare(state, index);
    gate(state, "before", 3);
  }
  session_->begin_us = devices_.host->now_us();
}

/// Other inputs in the same memory, once in the middle of the rounds, and before any other round as long as that takes
/// less than a twentieth of the time.
void Runner::renew_inputs() {
  auto& session = *session_;
  const double now_us = devices_.host->now_us();
  const bool affordable = session.spent_on_renewals_us + session.renewal_us <= 0.05 * (now_us - session.begin_us);
  const bool middle = session.round == session.rounds / 2 && !session.plan.traced;
  if (!middle && !affordable) return;
  session.epoch += 1;
  session.oracle->refresh(fresh_epoch_ + session.epoch);
  session.oracle->vary(secret());
  for (auto& [device, bound] : session.cases)
    if (bound) bound->reload();
  session.renewal_us = devices_.host->now_us() - now_us;
  session.spent_on_renewals_us += session.renewal_us;
}

/// All of a round find their operands at the same places, and in each round at others.
void Runner::begin_round(int round) {
  auto& session = *session_;
  if (session.no_oracle) std::rethrow_exception(session.no_oracle);
  if (session.round == round) return;
  session.round = round;
  try {
    if (round > 0) renew_inputs();
    for (auto& [device, bound] : session.cases)
      if (bound) bound->place(place_seed(0, round));
  } catch (const std::exception& error) {
    // It is what all fixtures share.
    session.no_oracle = std::make_exception_ptr(
        std::runtime_error{fmt::format("the inputs could not be renewed for round {}: {}", round, error.what())});
    std::rethrow_exception(session.no_oracle);
  }
}

void Runner::close(bool interrupted) {
  if (!session_) return;
  if (!interrupted && session_->no_oracle) {
    // No closing gate can be held, and no time stands without one.
    for (auto& [index, state] : session_->fixtures)
      if (state.rounds_done > 0) guarded(state, [&] { std::rethrow_exception(session_->no_oracle); });
  } else if (!interrupted) {
    std::exception_ptr no_inputs;
    try {
      session_->oracle->refresh(fresh_epoch_);  // and none of the rounds had these
    } catch (const std::exception&) {
      no_inputs = std::current_exception();
    }
    std::map<const Device*, std::string> not_renewed;
    for (auto& [device, bound] : session_->cases) {
      try {
        if (no_inputs) std::rethrow_exception(no_inputs);
        if (bound) bound->reload();
      } catch (const std::exception& error) {
        not_renewed[device] = std::string{"the inputs could not be renewed for the closing gate: "} + error.what();
      }
    }
    for (auto& [index, state] : session_->fixtures) {
      if (state.rounds_done == 0 || state.status != Status::ok) continue;
      if (const auto why = not_renewed.find(state.device); why != not_renewed.end())
        set_status(state, Status::failed, why->second);
      else
        gate(state, "after", 1);
    }
  }
  const auto& plan = session_->plan;
  session_->fixtures.clear();
  session_->cases.clear();
  if (session_->oracle) old_oracle_.emplace(std::move(*session_->oracle));
  session_.reset();
  if (events_.problem_done) events_.problem_done(plan);
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
  const bool ok = guarded(state, [&] {
    begin_round(step.round);
    bind(state, step.round);
    result = measure(state, step);
  });
  release(state);
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
