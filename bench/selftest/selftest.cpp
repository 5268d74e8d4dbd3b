// SPDX-License-Identifier: Apache-2.0
#include "bench/selftest/selftest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <exception>
#include <stdexcept>
#include <utility>

#include "bench/benchmark_bridge.hpp"
#include "bench/provenance.hpp"
#include "bench/run_record.hpp"

namespace mage::selftest {
namespace {

using Json = nlohmann::ordered_json;

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

Json options_json(std::span<const Proof> chosen, const Options& options) {
  Json names = Json::array();
  for (const auto& proof : chosen) names.push_back(proof.name);
  return {{"filter", options.filter},
          {"seed", options.seed},
          {"max_bytes", options.max_bytes == 0 ? Json(nullptr) : Json(options.max_bytes)},
          {"device", options.device},
          {"selftest", std::move(names)},
          {"selftest_repeats", options.selftest_repeats == 0 ? Json(nullptr) : Json(options.selftest_repeats)}};
}

Json entry_of(const Proof& proof, const ProofResult& result, double wall_s) {
  Json checks = Json::array();
  for (const auto& check : result.checks)
    checks.push_back({{"what", check.what},
                      {"expected", check.expected},
                      {"measured", check.measured},
                      {"outcome", to_string(check.outcome)}});
  return {{"kind", "proof"},
          {"name", proof.name},
          {"claim", proof.claim},
          {"outcome", to_string(result.outcome)},
          {"reason", result.reason.empty() ? Json(nullptr) : Json(result.reason)},
          {"wall_s", wall_s},
          {"checks", std::move(checks)},
          {"data", result.data}};
}

std::string verdict_line(const Proof& proof, const ProofResult& result) {
  return fmt::format("{}: {}{}", proof.name, to_string(result.outcome),
                     result.reason.empty() ? "" : ": " + result.reason);
}

/// The proofs of one run, one after the other, and what became of them.
class SelfTest {
 public:
  SelfTest(std::span<const Proof> chosen, const Options& options, Devices& devices, const std::string& no_cuda_reason,
           Console& console)
      : chosen_{chosen},
        options_{options},
        devices_{devices},
        no_cuda_reason_{no_cuda_reason},
        console_{console},
        record_{options, devices} {}

  int run() {
    record_.open();
    const auto begin = std::chrono::steady_clock::now();
    bool recorded = true;
    bool interrupted = false;  // read once: a signal that comes after the last proof interrupts nothing
    try {
      run_benchmarks(
          steps(),
          [this](const Json& context) {
            record_.append_header(context, options_json(chosen_, options_),
                                  {{"fixtures", Json::array()}, {"problems", Json::array()}});
          },
          [](const Json&) {});
      interrupted = interrupt_signal != 0;
      record_.append({{"kind", "end"},
                      {"finished_utc", utc_now()},
                      {"interrupted", interrupted},
                      {"wall_s", seconds_since(begin)}});
    } catch (const std::exception& error) {
      console_.complain(error.what());
      recorded = false;
    }
    if (record_.entries().empty()) {
      record_.discard();  // it would block the next run
      return exit_code::row_failed;
    }
    const auto saved = record_.save(fmt::format("{} proofs", done()), console_);
    summarize();
    if (saved) console_.line(fmt::format("store: {} ({} proofs)", record_.store_path(), done()));
    if (!saved || !recorded) return exit_code::row_failed;
    if (interrupted) {
      console_.complain("interrupted: the store holds the proofs that were run");
      return exit_code::interrupted;
    }
    if (count(Outcome::failed) > 0) return exit_code::row_failed;
    return count(Outcome::passed) > 0 ? exit_code::measured : exit_code::nothing_measured;
  }

 private:
  // A proof is a step that has no row: so the header holds what the library says of the machine, as any store does.
  std::vector<BridgeStep> steps() {
    std::vector<BridgeStep> list;
    for (const auto& proof : chosen_)
      list.push_back({proof.name, 0, 0, 1, [this, &proof]() -> std::optional<StepOutcome> {
                        if (interrupt_signal == 0) prove(proof);
                        return std::nullopt;
                      }});
    return list;
  }

  void prove(const Proof& proof) {
    const auto begin = std::chrono::steady_clock::now();
    const auto progress = [&](double share) {
      console_.progress(static_cast<int>(std::lround(100 * share)), 100, -1,
                        fmt::format("{}, proof {} of {}", proof.name, done() + 1, chosen_.size()));
    };
    progress(0);
    Context context{options_, devices_, no_cuda_reason_, options_.selftest_repeats, progress, 0};
    const auto result = run_proof(proof, context);
    record_.append(entry_of(proof, result, seconds_since(begin)));
    outcomes_.push_back(result.outcome);
    passed_on_host_ += result.outcome == Outcome::passed && result.on_host ? 1 : 0;
    console_.line(fmt::format("{}: {}", proof.name, proof.claim));
    if (!result.checks.empty()) static_cast<void>(console_.text(table(result.checks)));
    console_.line(verdict_line(proof, result) + "\n");
  }

  void summarize() {
    std::string text;
    for (const auto outcome : {Outcome::passed, Outcome::failed, Outcome::skipped, Outcome::unavailable})
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count(outcome), to_string(outcome));
    if (done() < chosen_.size()) text += fmt::format(", {} not run", chosen_.size() - done());
    console_.line(fmt::format("{} proof{}: {}", chosen_.size(), chosen_.size() == 1 ? "" : "s", text));
    if (passed_on_host_ > 0)
      console_.line(
          fmt::format("{} of those that passed ran on the host, with wide limits: they prove the program, not "
                      "its figures on a GPU",
                      passed_on_host_));
  }

  [[nodiscard]] std::size_t done() const { return outcomes_.size(); }
  [[nodiscard]] std::int64_t count(Outcome outcome) const {
    return std::count(outcomes_.begin(), outcomes_.end(), outcome);
  }

  std::span<const Proof> chosen_;
  const Options& options_;
  Devices& devices_;
  const std::string& no_cuda_reason_;
  Console& console_;
  RunRecord record_;
  std::vector<Outcome> outcomes_;
  int passed_on_host_ = 0;
};

}  // namespace

std::vector<Proof> choose(const std::vector<std::string>& names, std::span<const Proof> all) {
  std::vector<bool> chosen(all.size(), names.empty());
  for (const auto& name : names) {
    std::vector<std::size_t> fitting;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (name == all[i].name) fitting = {i};
      if (name == all[i].name) break;
      if (std::string_view{all[i].name}.starts_with(name)) fitting.push_back(i);
    }
    if (fitting.size() != 1) {
      std::string list;
      for (const auto& proof : all) list += fmt::format("\n  {}: {}", proof.name, proof.claim);
      throw std::invalid_argument{fmt::format("--mage_selftest: '{}' {}; there are:{}", name,
                                              fitting.empty() ? "is no proof" : "is the beginning of several proofs",
                                              list)};
    }
    chosen[fitting.front()] = true;
  }
  std::vector<Proof> list;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (chosen[i]) list.push_back(all[i]);
  return list;
}

ProofResult run_proof(const Proof& proof, Context& context) {
  ProofResult result;
  try {
    result = proof.run(context);
  } catch (const RecordError&) {
    throw;
  } catch (const UnavailableError& error) {
    result = unavailable(error.what());
  } catch (const std::exception& error) {
    result = {};
    result.outcome = Outcome::failed;
    result.reason = error.what();
  }
  if (context.interrupted()) {
    result.outcome = Outcome::skipped;
    result.reason = "interrupted: what it has seen so far proves nothing";
    return result;
  }
  if (context.own_repeats > 0)
    result.reason += fmt::format("{}repeated {} times instead of its own {}: weaker than it can be",
                                 result.reason.empty() ? "" : "; ", context.repeats, context.own_repeats);
  conclude(result);
  return result;
}

std::string table(const std::vector<Check>& checks) {
  std::vector<std::array<std::string, 4>> lines{{"what", "expected", "measured", "verdict"}};
  for (const auto& check : checks)
    lines.push_back({check.what, check.expected, check.measured,
                     check.outcome == Outcome::skipped ? "-" : std::string{to_string(check.outcome)}});
  std::array<std::size_t, 4> widths{};
  for (const auto& cells : lines)
    for (std::size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], cells[i].size());
  std::string text;
  for (const auto& cells : lines)
    text += fmt::format("  {:<{}} | {:<{}} | {:<{}} | {}\n", cells[0], widths[0], cells[1], widths[1], cells[2],
                        widths[2], cells[3]);
  return text;
}

int run(std::span<const Proof> chosen, const Options& options, Devices& devices, const std::string& no_cuda_reason,
        Console& console) {
  return SelfTest{chosen, options, devices, no_cuda_reason, console}.run();
}

}  // namespace mage::selftest
