// SPDX-License-Identifier: Apache-2.0
#include "bench/selftest/proof.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

namespace mage::selftest {

std::string_view to_string(Outcome outcome) {
  switch (outcome) {
    case Outcome::passed: return "passed";
    case Outcome::failed: return "failed";
    case Outcome::skipped: return "skipped";
    case Outcome::unavailable: return "unavailable";
  }
  throw std::logic_error{"to_string: unknown outcome"};
}

bool Context::interrupted() const { return interrupt_signal != 0; }

int Context::repeats_or(int own, int least) {
  if (repeats == 0) return own;
  if (repeats < own) own_repeats = own;
  return std::max(repeats, least);
}

std::span<const Proof> proofs() {
  static constexpr std::array list{
      Proof{"known_duration", "spans of an operation that stamps its own duration differ from it by the floor alone",
            known_duration},
      Proof{"triangulation", "events, batches, graphs, CUPTI and the operation's own stamps agree on one duration",
            triangulation},
      Proof{"null_comparisons", "an operation compared with itself is found different no oftener than the level says",
            null_comparisons},
      Proof{"sensitivity", "planted differences are measured without bias, found where large, not claimed where small",
            sensitivity},
      Proof{"order", "neither the order of the rounds nor a drift of the machine moves a ratio", order},
      Proof{"cache_policy", "cold is cold, warm is warm, and no carve-out of L2 survives", cache_policy},
      Proof{"detectors", "what makes a figure doubtful is flagged, and what does not is not", detectors},
      Proof{"failures", "what goes wrong ends in the right status, exit code and file", failures},
      Proof{"provenance", "a change of inputs, sources or program changes what the store says of them", provenance},
      Proof{"statistics_coverage", "intervals cover the truth as often as they say", statistics_coverage},
  };
  return list;
}

ProofResult unavailable(std::string reason) {
  ProofResult result;
  result.outcome = Outcome::unavailable;
  result.reason = std::move(reason);
  return result;
}

void mark_on_host(ProofResult& result, const std::string& no_cuda_reason) {
  result.on_host = true;
  result.reason = "measured on the host: " + no_cuda_reason;
}

void add_check(ProofResult& result, std::string what, std::string expected, std::string measured, bool holds) {
  result.checks.push_back(
      {std::move(what), std::move(expected), std::move(measured), holds ? Outcome::passed : Outcome::failed});
}

void add_figure(ProofResult& result, std::string what, std::string measured) {
  result.checks.push_back({std::move(what), "(shown only)", std::move(measured), Outcome::skipped});
}

void conclude(ProofResult& result) {
  const auto any = [&](Outcome outcome) {
    return std::any_of(result.checks.begin(), result.checks.end(),
                       [=](const Check& check) { return check.outcome == outcome; });
  };
  if (result.outcome == Outcome::failed) return;
  if (any(Outcome::failed)) {
    result.outcome = Outcome::failed;
  } else if (any(Outcome::passed)) {
    result.outcome = Outcome::passed;
  } else if (result.outcome == Outcome::passed) {
    result.outcome = any(Outcome::unavailable) ? Outcome::unavailable : Outcome::failed;
    if (result.reason.empty()) result.reason = "no check ran, so nothing is proved";
  }
}

}  // namespace mage::selftest
