// SPDX-License-Identifier: Apache-2.0
// Where a run came from. What cannot be found out is null with its key present: never absent, never "".
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace mage {

/// 128 random bits as 32 hexadecimal digits.
[[nodiscard]] std::string make_run_id();

/// Now, as in "2026-01-31T23:59:59Z".
[[nodiscard]] std::string utc_now();

/// The program, its sources, its build, the host and the environment; docs/store.md describes every field.
/// Devices describe themselves: see DeviceInfo and Nvml::facts. The folder of the program is not recorded.
[[nodiscard]] nlohmann::ordered_json collect_provenance(const std::vector<std::string>& argv, const std::string& run_id,
                                                        const std::string& started_utc);

/// Why nothing may be measured in this environment; nothing where all is well.
[[nodiscard]] std::optional<std::string> refuse_environment();

}  // namespace mage
