// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "bench/selftest/proof.hpp"

namespace mage::selftest {

/// The proof, with `program` in the place of this process's own executable.
[[nodiscard]] ProofResult failures_of(Context& context, const std::filesystem::path& program);

}  // namespace mage::selftest
