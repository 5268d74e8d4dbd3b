// SPDX-License-Identifier: Apache-2.0
#include "test/support/data.hpp"

#include <fstream>
#include <iterator>
#include <stdexcept>

namespace mage::test {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream stream{path, std::ios::binary};
  if (!stream) throw std::runtime_error{"cannot open " + path.string()};
  return {std::istreambuf_iterator<char>{stream}, {}};
}

nlohmann::json read_json(const std::filesystem::path& path) { return nlohmann::json::parse(read_file(path)); }

}  // namespace mage::test
