// SPDX-License-Identifier: Apache-2.0
// Runs proofs, prints what they found, and stores it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "bench/console.hpp"
#include "bench/selftest/proof.hpp"

namespace mage::selftest {

/// Those of `all` that are named, in the order of `all`; every one where `names` is empty. The beginning of one name is
/// enough. Throws std::invalid_argument, which lists what exists, where a name fits none or several.
[[nodiscard]] std::vector<Proof> choose(const std::vector<std::string>& names, std::span<const Proof> all);

/// One proof: whatever it throws becomes its outcome, but for RecordError. What an interrupt cut short is `skipped`.
[[nodiscard]] ProofResult run_proof(const Proof& proof, Context& context);

/// What | expected | measured | verdict, in columns.
[[nodiscard]] std::string table(const std::vector<Check>& checks);

/// Runs them, prints, writes the store; returns the exit code. Throws where nothing was begun: the store's place is
/// taken or cannot be written. One call a process.
[[nodiscard]] int run(std::span<const Proof> chosen, const Options& options, Devices& devices,
                      const std::string& no_cuda_reason, Console& console);

}  // namespace mage::selftest
