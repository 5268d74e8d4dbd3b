// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace mage {

/// SHA-256 of bytes that come in pieces.
class Sha256 {
 public:
  Sha256();
  void update(std::span<const std::byte> bytes);
  void update(std::string_view text) { update(std::as_bytes(std::span{text})); }
  /// 64 lower-case hexadecimal digits. Ends the sum: nothing can be added afterwards.
  [[nodiscard]] std::string finish();

 private:
  struct Free {
    void operator()(void* context) const;
  };
  std::unique_ptr<void, Free> context_;
};

[[nodiscard]] std::string sha256(std::span<const std::byte> bytes);
[[nodiscard]] std::string sha256(std::string_view text);
/// Throws std::runtime_error, with the path and the system's reason, where the file can't be read to its end.
[[nodiscard]] std::string sha256_file(const std::filesystem::path& path);

}  // namespace mage
