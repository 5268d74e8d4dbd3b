// SPDX-License-Identifier: Apache-2.0
// The GPU's state as the driver's management library (NVML) tells it. Everything here reads; nothing is ever set.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "mage_bench/device.hpp"

namespace mage {

/// One GPU, seen through NVML, which is loaded at run time.
class Nvml {
 public:
  /// What a GPU or a driver can't tell is absent.
  struct Reading {
    double host_us = 0;  ///< when, by the clock of Device::now_us
    std::optional<unsigned> sm_mhz, memory_mhz, temperature_c;
    std::optional<double> power_w;
    std::optional<std::uint64_t> event_reasons;       ///< bits, at this moment: see event_names
    std::map<std::string, std::uint64_t> limited_us;  ///< for how long each policy held the clocks down, since boot
  };

  /// The GPU that is `device`, by its uuid or its PCI bus id; without one, the machine's only GPU.
  /// Null, and `why_not` says why, where NVML or that GPU isn't there.
  [[nodiscard]] static std::unique_ptr<Nvml> load(std::string& why_not, const DeviceInfo* device = nullptr);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  [[nodiscard]] Reading read();
  /// At most ten times a second, since a reading takes the driver's lock and up to milliseconds; otherwise nothing.
  [[nodiscard]] std::optional<Reading> read_if_due(double now_us);

  /// Versions, uuid, ECC, MIG, persistence, power limit and highest clocks, null where unknown; and `failures`.
  [[nodiscard]] nlohmann::ordered_json facts() const;
  /// Each call that failed, once, with NVML's reason.
  [[nodiscard]] const std::vector<std::string>& failures() const { return failures_; }

 private:
  explicit Nvml(void* library) : library_{library} {}
  [[nodiscard]] bool find(const DeviceInfo* device, std::string& why_not);
  void collect_facts();
  [[nodiscard]] std::string error_text(int result) const;
  [[nodiscard]] bool has(const char* name) const;
  void note_failure(const std::string& name, const std::string& why);
  template <class Signature, class... Arguments>
  bool call(const char* name, Arguments... arguments);
  template <class Value, class... Arguments>
  std::optional<Value> value(const char* name, Arguments... arguments);
  std::optional<std::string> text(const char* name, bool of_device);
  std::optional<bool> current_mode(const char* name);
  void read_limits(Reading& reading);

  void* library_;
  void* device_ = nullptr;
  bool initialised_ = false;
  std::optional<double> last_read_us_;
  std::vector<std::string> failures_;
  nlohmann::ordered_json facts_;
};

/// The names of the set bits, as in {"sw_power_cap"}; a bit without a name gives "bit_<n>".
[[nodiscard]] std::vector<std::string> event_names(std::uint64_t event_reasons);

/// True where power, heat or the board holds the clocks down; idleness and chosen application clocks do not count.
[[nodiscard]] bool throttled(std::uint64_t event_reasons);

/// Every key is there; null stands for what is unknown.
[[nodiscard]] nlohmann::ordered_json to_json(const Nvml::Reading& reading);

}  // namespace mage
