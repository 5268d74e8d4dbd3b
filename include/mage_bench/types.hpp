// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace mage {

/// A time exists only when `ok`.
enum class Status { ok, wrong, unsupported, unavailable, failed };
inline constexpr std::array all_statuses{Status::ok, Status::wrong, Status::unsupported, Status::unavailable,
                                         Status::failed};

/// Why something cannot be measured here: a closed set, so that stores can be compared.
enum class Unavailable {
  no_cuda_device,        ///< the driver shows no device
  cuda_toolkit_missing,  ///< built without CUDA
  cupti_missing,         ///< built without CUPTI, or the library did not load
  cupti_busy,            ///< another profiler (ncu, nsys, compute-sanitizer) holds CUPTI
  capture_illegal,       ///< the operation cannot be captured into a graph
  needs_sync,            ///< the operation synchronises, which a stream capture forbids
  arch,                  ///< the device is older than the variant's min_cc
  memory,                ///< more bytes than --mage_max_bytes or than the device has free
  package_missing,       ///< an optional package was absent at build time
  host_only,             ///< the mode times a device, the variant runs on the host
};
inline constexpr std::array all_reasons{Unavailable::no_cuda_device,
                                        Unavailable::cuda_toolkit_missing,
                                        Unavailable::cupti_missing,
                                        Unavailable::cupti_busy,
                                        Unavailable::capture_illegal,
                                        Unavailable::needs_sync,
                                        Unavailable::arch,
                                        Unavailable::memory,
                                        Unavailable::package_missing,
                                        Unavailable::host_only};

enum class TimingMode { event, event_cold, batch, graph, host, kernel };
inline constexpr std::array all_modes{TimingMode::event, TimingMode::event_cold, TimingMode::batch,
                                      TimingMode::graph, TimingMode::host,       TimingMode::kernel};

[[nodiscard]] std::string_view to_string(Status status);
[[nodiscard]] std::string_view to_string(Unavailable reason);
[[nodiscard]] std::string_view to_string(TimingMode mode);
/// The reason in words a user can act on.
[[nodiscard]] std::string_view explain(Unavailable reason);
// What to_string() made; nothing for any other text.
[[nodiscard]] std::optional<Status> parse_status(std::string_view text);
[[nodiscard]] std::optional<Unavailable> parse_unavailable(std::string_view text);
[[nodiscard]] std::optional<TimingMode> parse_mode(std::string_view text);

/// Something cannot be measured, and that is no fault of the variant: becomes status `unavailable`.
class UnavailableError : public std::runtime_error {
 public:
  UnavailableError(Unavailable reason, const std::string& detail) : std::runtime_error{detail}, reason_{reason} {}
  [[nodiscard]] Unavailable reason() const { return reason_; }

 private:
  Unavailable reason_;
};

/// The operation itself is at fault, whatever its outputs hold: becomes status `wrong`.
class WrongError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// `family/variant/problem/mode`: the only place that builds or parses a benchmark's name.
struct BenchmarkName {
  std::string family, variant, problem;
  TimingMode mode = TimingMode::event;
  bool operator==(const BenchmarkName&) const = default;
};
[[nodiscard]] std::string to_string(const BenchmarkName& name);
[[nodiscard]] std::optional<BenchmarkName> parse_name(std::string_view text);

}  // namespace mage
