// SPDX-License-Identifier: Apache-2.0
#include "bench/admission/cache.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>
#include <vector>

#include "bench/json_text.hpp"
#include "bench/provenance.hpp"
#include "bench/sha256.hpp"

namespace mage {

AdmissionCache::AdmissionCache(std::string path) : path_{std::move(path)} {
  if (path_.empty()) return;
  std::ifstream file{path_};
  for (std::string line; std::getline(file, line);) {
    // A line that is cut off or damaged remembers nothing: the variant is tried again.
    const auto entry = nlohmann::ordered_json::parse(line, nullptr, false);
    if (!entry.is_object()) continue;
    const auto key = entry.find("key");
    if (key != entry.end() && key->is_string()) keys_.insert(key->get<std::string>());
  }
}

std::string AdmissionCache::add(const std::string& key, const std::string& variant, double wall_s) {
  if (path_.empty() || !keys_.insert(key).second) return {};
  std::error_code ignored;  // opening says what is wrong
  std::filesystem::create_directories(std::filesystem::path{path_}.parent_path(), ignored);
  const int descriptor = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor < 0) return path_ + ": " + std::strerror(errno);
  // One write: lines of two runs do not mix.
  const auto line = json_text({{"key", key}, {"variant", variant}, {"utc", utc_now()}, {"wall_s", wall_s}}) + "\n";
  const bool written = ::write(descriptor, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  const std::string why = written ? std::string{} : path_ + ": " + std::strerror(errno);
  static_cast<void>(::close(descriptor));
  return why;
}

std::string AdmissionCache::default_path() {
  const auto folder = [](const char* variable) {
    const char* value = std::getenv(variable);
    return std::string{value == nullptr ? "" : value};
  };
  auto cache = folder("XDG_CACHE_HOME");
  if (cache.empty() && !folder("HOME").empty()) cache = folder("HOME") + "/.cache";
  return cache.empty() ? cache : cache + "/mage_bench/admitted.jsonl";
}

std::string admission_key(const Family& family, const VariantInfo& variant, const std::string& device) {
  std::vector<std::string> sources{variant.source, "src/reference/" + std::string{family.name()} + ".cpp", "harness"};
  if (variant.erased.picks != nullptr)
    for (const auto& other : family.variants())
      if (!other.skipped) sources.push_back(other.source);
  Sha256 key;
  key.update("admission 1\n" + device + "\n");
  for (const auto& source : sources) {
    const auto hash = code_sha256(source);
    if (hash.empty()) return {};
    key.update(hash + "\n");
  }
  return key.finish();
}

}  // namespace mage
