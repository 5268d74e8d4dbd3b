// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <set>
#include <string>

#include "mage_bench/registry.hpp"

namespace mage {

/// A file with a JSON line for each admission, which runs append to and never change.
class AdmissionCache {
 public:
  /// `path` empty: nothing is remembered. A file that is not there is made by the first admission.
  explicit AdmissionCache(std::string path);
  [[nodiscard]] bool has(const std::string& key) const { return keys_.contains(key); }
  /// Why it could not be written; empty where it was.
  [[nodiscard]] std::string add(const std::string& key, const std::string& variant, double wall_s);

  /// $XDG_CACHE_HOME/mage_bench/admitted.jsonl, or ~/.cache/...; empty where the environment names neither.
  [[nodiscard]] static std::string default_path();

 private:
  std::string path_;
  std::set<std::string> keys_;
};

/// What an admission holds for: the machine code of the variant (of all that it can pick, where it picks), of its
/// family's reference and of what tries it, and the device. Empty where the build does not know one of them.
[[nodiscard]] std::string admission_key(const Family& family, const VariantInfo& variant, const std::string& device);

}  // namespace mage
