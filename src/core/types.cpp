// SPDX-License-Identifier: Apache-2.0
#include "mage_bench/types.hpp"

#include <algorithm>
#include <vector>

namespace mage {

std::string_view to_string(Status status) {
  switch (status) {
    case Status::ok: return "ok";
    case Status::wrong: return "wrong";
    case Status::unsupported: return "unsupported";
    case Status::unavailable: return "unavailable";
    case Status::failed: return "failed";
  }
  return "?";
}

std::string_view to_string(Unavailable reason) {
  switch (reason) {
    case Unavailable::no_cuda_device: return "no_cuda_device";
    case Unavailable::cuda_toolkit_missing: return "cuda_toolkit_missing";
    case Unavailable::cupti_missing: return "cupti_missing";
    case Unavailable::cupti_busy: return "cupti_busy";
    case Unavailable::capture_illegal: return "capture_illegal";
    case Unavailable::needs_sync: return "needs_sync";
    case Unavailable::arch: return "arch";
    case Unavailable::memory: return "memory";
    case Unavailable::package_missing: return "package_missing";
    case Unavailable::host_only: return "host_only";
  }
  return "?";
}

std::string_view explain(Unavailable reason) {
  switch (reason) {
    case Unavailable::no_cuda_device: return "no CUDA device";
    case Unavailable::cuda_toolkit_missing: return "no CUDA device (built without a CUDA toolkit)";
    case Unavailable::cupti_missing: return "CUPTI is missing or refused; install the toolkit's CUPTI";
    case Unavailable::cupti_busy: return "another profiler or sanitizer holds CUPTI; run without it";
    case Unavailable::capture_illegal: return "the operation cannot be captured into a graph";
    case Unavailable::needs_sync: return "the operation synchronises, which a capture forbids";
    case Unavailable::arch: return "the device is older than the variant's min_cc";
    case Unavailable::memory: return "more memory than allowed or free; see --mage_max_bytes";
    case Unavailable::package_missing: return "an optional package was absent at build time";
    case Unavailable::host_only: return "this mode times a device; the variant runs on the host";
  }
  return "?";
}

std::string_view to_string(TimingMode mode) {
  switch (mode) {
    case TimingMode::event: return "event";
    case TimingMode::event_cold: return "event_cold";
    case TimingMode::batch: return "batch";
    case TimingMode::graph: return "graph";
    case TimingMode::host: return "host";
    case TimingMode::kernel: return "kernel";
  }
  return "?";
}

namespace {

template <class Value, std::size_t Count>
std::optional<Value> parse_one_of(const std::array<Value, Count>& all, std::string_view text) {
  for (const auto value : all)
    if (to_string(value) == text) return value;
  return std::nullopt;
}

}  // namespace

std::optional<Status> parse_status(std::string_view text) { return parse_one_of(all_statuses, text); }
std::optional<Unavailable> parse_unavailable(std::string_view text) { return parse_one_of(all_reasons, text); }
std::optional<TimingMode> parse_mode(std::string_view text) { return parse_one_of(all_modes, text); }

std::string to_string(const BenchmarkName& name) {
  return name.family + '/' + name.variant + '/' + name.problem + '/' + std::string{to_string(name.mode)};
}

std::optional<BenchmarkName> parse_name(std::string_view text) {
  std::vector<std::string> parts;
  while (true) {
    const auto slash = text.find('/');
    parts.emplace_back(text.substr(0, slash));
    if (slash == std::string_view::npos) break;
    text.remove_prefix(slash + 1);
  }
  const bool complete = parts.size() == 4 && std::none_of(parts.begin(), parts.end(), [](const std::string& part) {
                          return part.empty() || part.find(' ') != std::string::npos;
                        });
  if (!complete) return std::nullopt;
  const auto mode = parse_mode(parts[3]);
  if (!mode) return std::nullopt;
  return BenchmarkName{parts[0], parts[1], parts[2], *mode};
}

}  // namespace mage
