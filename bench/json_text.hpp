// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace mage {

/// One line of JSON. Bytes that are no UTF-8, as a file name may hold, become U+FFFD instead of an error that would
/// cost what was measured.
[[nodiscard]] inline std::string json_text(const nlohmann::ordered_json& value) {
  return value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace mage
