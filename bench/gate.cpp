// SPDX-License-Identifier: Apache-2.0
#include "bench/gate.hpp"

#include <cstdint>
#include <exception>
#include <map>

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
  Hooks hooks{.spoil = {}, .before = [&bound] { bound.disturb(); }, .after = [&bound] { bound.inspect(); }};
  if (whole) hooks.spoil = [&bound] { bound.spoil(); };
  return hooks;
}

Hooks audit_hooks(Case& bound) {
  return {.spoil = {},
          .before =
              [&bound] {
                bound.spoil();
                bound.disturb();
              },
          .after = [&bound] { bound.inspect(); }};
}

Verdict check_all(Case& bound) {
  Verdict verdict;
  verdict.reason = bound.found();
  return verdict.reason.empty() ? bound.check() : verdict;
}

Verdict run_gate(Sampler& sampler, Case& bound, bool deterministic) {
  const auto hooks = audit_hooks(bound);
  const Hooks poisoning{.spoil = {},
                        .before =
                            [&bound] {
                              bound.poison();
                              bound.disturb();
                            },
                        .after = hooks.after};
  std::map<int, std::uint64_t> bits;  // by set of inputs
  Verdict verdict;
  Samples discarded;
  SamplerGroup group{sampler};
  for (int call = 0; call < 3; ++call) {
    if (call == 0) sampler.audit(poisoning);
    if (call == 1) sampler.sample(discarded, hooks);
    if (call == 2) sampler.audit(hooks);
    verdict = check_all(bound);
    if (!verdict.ok) return verdict;
    const auto [known, first] = bits.try_emplace(bound.set(), verdict.output_checksum);
    if (deterministic && !first && verdict.output_checksum != known->second) {
      verdict.ok = false;
      verdict.reason = "two calls gave different bits, though the variant says it is deterministic";
      return verdict;
    }
  }
  group.close();
  return verdict;
}

}  // namespace mage
