// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace mage {

/// The whole of mage_bench: returns the process's exit code (bench/options.hpp).
[[nodiscard]] int run_program(const std::vector<std::string>& argv);

}  // namespace mage
