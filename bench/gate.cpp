// SPDX-License-Identifier: Apache-2.0
#include "bench/gate.hpp"

#include <cstdint>
#include <exception>
#include <optional>

namespace mage {

SamplerGroup::~SamplerGroup() {
  if (closed_) return;
  try {
    sampler_.close();  // an exception is under way: leave no trace running, and let the first cause be reported
  } catch (const std::exception&) {
    closed_ = true;
  }
}

void SamplerGroup::close() {
  closed_ = true;
  sampler_.close();
}

void warm_up(Device& device, Sampler& sampler, Samples& discarded) {
  device.flush_l2();
  sampler.sample(discarded);
}

Hooks counted_hooks(Case& bound, bool whole) {
  Hooks hooks{
      .spoil = {}, .before = [&bound] { bound.disturb(); }, .after = [&bound] { bound.inspect(); }, .secret = 0};
  if (whole) hooks.spoil = [&bound] { bound.spoil(); };
  return hooks;
}

Hooks audit_hooks(Case& bound, bool dependent, Behind behind, std::optional<int> set) {
  return {.spoil = {},
          .before =
              [&bound, behind, set] {
                if (behind == Behind::poison)
                  bound.poison();
                else
                  bound.spoil();
                bound.disturb(set);
              },
          .after =
              [&bound, dependent] {
                if (dependent)
                  bound.inspect_as_dependent();
                else
                  bound.inspect();
              },
          .secret = bound.next_secret()};
}

Verdict check_all(Case& bound) {
  const auto seen = bound.found();
  auto verdict = bound.check();
  if (seen.empty()) return verdict;
  // What was seen right behind a call may be gone by now; where it is not, the check has the words for all of it.
  verdict.reason = verdict.ok ? seen : verdict.reason + "; seen right behind a call: " + seen;
  verdict.ok = false;
  return verdict;
}

Verdict run_gate(Sampler& sampler, Case& bound, bool deterministic, int calls) {
  std::uint64_t bits = 0;
  Verdict verdict;
  Samples discarded;
  SamplerGroup group{sampler};
  for (int call = 0; call < calls; ++call) {
    const int set = call % 2;
    const auto hooks = audit_hooks(bound, !sampler.traces(), call == 0 ? Behind::poison : Behind::values, set);
    if (call == 1)
      sampler.sample(discarded, hooks);
    else
      sampler.audit(hooks);
    verdict = check_all(bound);
    if (!verdict.ok) return verdict;
    if (call == 0) bits = verdict.output_checksum;
  }
  group.close();
  // The last of three calls had the inputs of the first.
  if (deterministic && bound.set() == 0 && verdict.output_checksum != bits) {
    verdict.ok = false;
    verdict.reason = "two calls gave different bits, though the variant says it is deterministic";
  }
  return verdict;
}

}  // namespace mage
