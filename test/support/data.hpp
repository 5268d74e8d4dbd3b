// SPDX-License-Identifier: Apache-2.0
// The files of test/data.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace mage::test {

[[nodiscard]] inline std::filesystem::path data_path(const std::string& name) {
  return std::filesystem::path{MAGE_SOURCE_DIR} / "test" / "data" / name;
}

/// Throws std::runtime_error where the file cannot be read.
[[nodiscard]] std::string read_file(const std::filesystem::path& path);
[[nodiscard]] nlohmann::json read_json(const std::filesystem::path& path);

}  // namespace mage::test
