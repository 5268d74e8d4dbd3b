// SPDX-License-Identifier: Apache-2.0
#include "bench/provenance.hpp"

#include <gnu/libc-version.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <random>
#include <string_view>
#include <thread>

#include "bench/build_info.hpp"
#include "bench/sha256.hpp"
#include "mage_bench/registry.hpp"

namespace mage {
namespace {

using Json = nlohmann::ordered_json;

/// Arguments and variables may hold any bytes; a store must stay valid JSON.
Json utf8(const std::string& text) {
  return Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace));
}

Json known(std::string_view text) { return text.empty() || text == "unknown" ? Json(nullptr) : Json(text); }

/// The value after `key` and its separator in the first line that begins with it.
Json value_in_file(const char* path, std::string_view key, std::string_view separators) {
  std::ifstream file{path};
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const auto begin = line.find_first_not_of(separators, key.size());
    if (begin == std::string::npos) return nullptr;
    const auto end = line.find_last_not_of(separators);
    return utf8(line.substr(begin, end + 1 - begin));
  }
  return nullptr;
}

Json executable_sha256() {
  try {
    return sha256_file("/proc/self/exe");
  } catch (const std::runtime_error&) {
    return nullptr;  // no /proc here
  }
}

Json arguments(const std::vector<std::string>& argv) {
  Json list = Json::array();
  for (std::size_t i = 0; i < argv.size(); ++i)
    list.push_back(utf8(i == 0 ? std::filesystem::path{argv[i]}.filename().string() : argv[i]));
  return list;
}

Json environment() {
  constexpr std::array<std::string_view, 7> prefixes{"CUDA_", "NVIDIA_", "CUBLAS_",   "OMP_",
                                                     "NVTX_", "NSYS_",   "NV_NSIGHT_"};
  Json::object_t variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text{*entry};
    const auto equals = text.find('=');
    if (equals == std::string::npos) continue;
    for (const auto prefix : prefixes)
      if (text.starts_with(prefix)) variables[text.substr(0, equals)] = utf8(text.substr(equals + 1));
  }
  return variables;
}

/// Tools that instrument a process leave their variables in its environment. Container images have NV_* of their own.
bool profiled(const Json& variables) {
  for (const auto& [name, value] : variables.items())
    if (name.ends_with("_INJECTION64_PATH") || name.starts_with("NSYS_") || name.starts_with("NV_NSIGHT_")) return true;
  return false;
}

Json kernel_release() {
  utsname name{};
  return uname(&name) == 0 ? known(name.release) : Json(nullptr);
}

}  // namespace

std::string make_run_id() {
  std::random_device random;
  std::string id;
  while (id.size() < 32) {
    for (auto bits = random(), digits = 8U; digits > 0; --digits, bits >>= 4U) id += "0123456789abcdef"[bits & 15U];
  }
  return id;
}

std::string utc_now() {
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

Json collect_provenance(const std::vector<std::string>& argv, const std::string& run_id,
                        const std::string& started_utc) {
  // The list's hash is that of `sha256sum FILES`, so that anyone can work it out from a checkout.
  Json sources = Json::object();
  Sha256 list;
  for (const auto& file : kernel_sources()) {
    sources[file.path] = known(file.sha256);
    list.update(std::string{file.sha256} + "  " + file.path + "\n");
  }
  const auto& build = build_info();
  const auto commit = known(build.git_commit);
  const auto threads = std::thread::hardware_concurrency();
  return {{"run_id", run_id},
          {"started_utc", started_utc},
          {"argv", arguments(argv)},
          {"git_commit", commit},
          {"git_dirty", build.git_dirty ? Json(*build.git_dirty) : Json(nullptr)},
          {"executable_sha256", executable_sha256()},
          {"kernel_sources_sha256", list.finish()},
          {"kernel_sources", std::move(sources)},
          {"compiler", known(build.compiler)},
          {"cuda_compiler", known(build.cuda_compiler)},
          {"cxx_flags", known(build.cxx_flags)},
          {"cuda_flags", known(build.cuda_flags)},
          {"build_type", known(build.build_type)},
          {"benchmark_version", known(build.benchmark_version)},
          {"cmake_version", known(build.cmake_version)},
          {"cpu_model", value_in_file("/proc/cpuinfo", "model name", "\t :")},
          {"cpu_threads", threads == 0 ? Json(nullptr) : Json(threads)},
          {"os", value_in_file("/etc/os-release", "PRETTY_NAME", "=\"")},
          {"kernel_release", kernel_release()},
          {"glibc_version", known(gnu_get_libc_version())},
          {"profiled", profiled(environment())},
          {"environment", environment()}};
}

std::optional<std::string> refuse_environment() {
  const char* blocking = std::getenv("CUDA_LAUNCH_BLOCKING");
  if (blocking == nullptr || std::string_view{blocking} == "0" || std::string_view{blocking}.empty())
    return std::nullopt;
  return std::string{"CUDA_LAUNCH_BLOCKING="} + blocking +
         " makes every launch wait for its kernel, so that no time would mean what it says: unset it";
}

}  // namespace mage
