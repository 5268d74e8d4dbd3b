// SPDX-License-Identifier: Apache-2.0
// A small whole store, put together by the code that writes real ones. Tests read it, and break copies of it.
#pragma once

#include <nlohmann/json.hpp>

namespace mage::test {

/// Two benchmarks of three rounds on a GPU and one on the host, one that is unavailable and one that failed.
[[nodiscard]] nlohmann::ordered_json example_store();

}  // namespace mage::test
