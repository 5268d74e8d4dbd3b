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
    if (session_->no_oracle) std::rethrow_exception(session_->no_oracle);
    auto& shared = session_->cases[state.device];
    if (!shared)
      with_host_memory(session_->plan, "the operands", Case::device_bytes(session_->oracle->operands()),
                       [&] { shared = std::make_unique<Case>(*state.device, *session_->oracle); });
    state.bound_case = shared.get();
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

// Fits the samples of a round into the budget by the wall time that a sample costs, those that don't count included.
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
    const double uncounted = state.warms_up() ? 3 : 1;  // the checked one, and two warm-ups
    state.samples = static_cast<int>(std::clamp(affordable - uncounted, 1.0, static_cast<double>(state.samples_asked)));
  });
}

void Runner::make_oracle() {
  const auto& plan = session_->plan;
  const auto operands = plan.family->operands(plan.problem);
  with_host_memory(plan, "the inputs and the reference", Case::host_bytes(operands),
                   [&] { session_->oracle.emplace(*plan.family, plan.problem); });
  Sha256 combined;
  Json inputs = Json::object();
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].role != Role::in) continue;
    const auto digest = sha256(session_->oracle->input(i));
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
}

void Runner::open(std::size_t problem) {
  const auto& plan = plan_.problems[problem];
  session_ = std::make_unique<Session>(problem, plan);
  try {
    make_oracle();
  } catch (const RecordError&) {
    throw;
  } catch (const std::exception&) {
    session_->no_oracle = std::current_exception();
  }
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
  if (!interrupted && !session_->no_oracle) {
    std::exception_ptr no_inputs;
    try {
      session_->oracle->refresh(fresh_epoch_);
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
        gate(state, "after");
    }
  }
  const auto& plan = session_->plan;
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
