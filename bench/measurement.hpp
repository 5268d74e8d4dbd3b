// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/admission/admission.hpp"
#include "bench/console.hpp"
#include "bench/options.hpp"
#include "bench/plan.hpp"
#include "bench/runner.hpp"

namespace mage {

/// Measures a plan, keeps the journal, writes the store; returns the exit code. Throws where nothing was begun: the
/// store's place is taken or cannot be written.
[[nodiscard]] int run_measurement(const Options& options, const Plan& plan, const Admissions& admissions,
                                  Devices& devices, Console& console);

}  // namespace mage
