// SPDX-License-Identifier: Apache-2.0
#include "bench/nvml.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace mage {
namespace {

using Json = nlohmann::ordered_json;

// The little of nvml.h that is needed, so that a build needs no NVML: its functions keep their signatures.
constexpr int success = 0;
constexpr int clock_sm = 1;
constexpr int clock_memory = 2;
constexpr int temperature_of_gpu = 0;
constexpr int value_unsigned_long_long = 3;

struct FieldValue {
  unsigned field_id;
  unsigned scope_id;
  long long timestamp;
  long long latency_us;
  int value_type;
  int result;
  union {
    double as_double;
    unsigned long long as_unsigned_long_long;
  };
};
static_assert(sizeof(FieldValue) == 40);

struct Policy {
  unsigned field_id;  // NVML_FI_DEV_PERF_POLICY_*. The ids of newer counters differ between versions of NVML.
  const char* name;
};
constexpr std::array policies{Policy{74, "power"},       Policy{75, "thermal"},         Policy{76, "sync_boost"},
                              Policy{77, "board_limit"}, Policy{78, "low_utilization"}, Policy{79, "reliability"},
                              Policy{80, "app_clocks"},  Policy{81, "base_clocks"}};

constexpr std::array event_bits{"gpu_idle",
                                "applications_clocks_setting",
                                "sw_power_cap",
                                "hw_slowdown",
                                "sync_boost",
                                "sw_thermal_slowdown",
                                "hw_thermal_slowdown",
                                "hw_power_brake_slowdown",
                                "display_clock_setting"};

double steady_now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string fact(const DeviceInfo& device, std::string_view key) {
  for (const auto& [name, value] : device.facts)
    if (name == key) return value;
  return {};
}

template <class Value>
Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

std::optional<double> watts(const std::optional<unsigned>& milliwatts) {
  if (!milliwatts) return std::nullopt;
  return *milliwatts * 1e-3;
}

}  // namespace

bool Nvml::has(const char* name) const { return dlsym(library_, name) != nullptr; }

void Nvml::note_failure(const std::string& name, const std::string& why) {
  const auto known = [&](const std::string& failure) { return failure.starts_with(name + ": "); };
  if (std::none_of(failures_.begin(), failures_.end(), known)) failures_.push_back(name + ": " + why);
}

std::string Nvml::error_text(int result) const {
  const auto function = reinterpret_cast<const char* (*)(int)>(dlsym(library_, "nvmlErrorString"));
  return function == nullptr ? "NVML error " + std::to_string(result) : function(result);
}

template <class Signature, class... Arguments>
bool Nvml::call(const char* name, Arguments... arguments) {
  const auto function = reinterpret_cast<Signature*>(dlsym(library_, name));
  if (function == nullptr) {
    note_failure(name, "not in this NVML");
    return false;
  }
  const int result = function(arguments...);
  if (result != success) note_failure(name, error_text(result));
  return result == success;
}

template <class Value, class... Arguments>
std::optional<Value> Nvml::value(const char* name, Arguments... arguments) {
  Value result{};
  if (!call<int(void*, Arguments..., Value*)>(name, device_, arguments..., &result)) return std::nullopt;
  return result;
}

std::optional<std::string> Nvml::text(const char* name, bool of_device) {
  std::array<char, 96> buffer{};
  const auto size = static_cast<unsigned>(buffer.size());
  const bool told = of_device ? call<int(void*, char*, unsigned)>(name, device_, buffer.data(), size)
                              : call<int(char*, unsigned)>(name, buffer.data(), size);
  if (!told || buffer.front() == '\0') return std::nullopt;
  return buffer.data();
}

std::optional<bool> Nvml::current_mode(const char* name) {
  unsigned current = 0;
  unsigned pending = 0;
  if (!call<int(void*, unsigned*, unsigned*)>(name, device_, &current, &pending)) return std::nullopt;
  return current != 0;
}

std::unique_ptr<Nvml> Nvml::load(std::string& why_not, const DeviceInfo* device) {
  const char* chosen = std::getenv("MAGE_NVML_LIBRARY");
  const char* name = chosen != nullptr ? chosen : "libnvidia-ml.so.1";
  void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);  // stays: the driver's library isn't made to be closed
  if (library == nullptr) {
    why_not = std::string{"NVML could not be loaded: "} + dlerror();
    return nullptr;
  }
  std::unique_ptr<Nvml> nvml{new Nvml{library}};
  nvml->initialised_ = nvml->call<int()>("nvmlInit_v2");
  if (!nvml->initialised_) {
    why_not = nvml->failures_.back();
    return nullptr;
  }
  if (!nvml->find(device, why_not)) return nullptr;
  nvml->collect_facts();
  return nvml;
}

Nvml::~Nvml() {
  if (initialised_) call<int()>("nvmlShutdown");
}

bool Nvml::find(const DeviceInfo* device, std::string& why_not) {
  if (device == nullptr) {
    unsigned count = 0;
    if (call<int(unsigned*)>("nvmlDeviceGetCount_v2", &count) && count == 1 &&
        call<int(unsigned, void**)>("nvmlDeviceGetHandleByIndex_v2", 0U, &device_))
      return true;
    why_not =
        failures_.empty() ? "NVML sees " + std::to_string(count) + " GPUs, and no device was named" : failures_.back();
    return false;
  }
  // NVML counts GPUs in its own order, so an index says nothing.
  const auto uuid = fact(*device, "uuid");
  const auto bus_id = fact(*device, "pci_bus_id");
  if (!uuid.empty() && call<int(const char*, void**)>("nvmlDeviceGetHandleByUUID", uuid.c_str(), &device_)) return true;
  if (!bus_id.empty() && call<int(const char*, void**)>("nvmlDeviceGetHandleByPciBusId_v2", bus_id.c_str(), &device_))
    return true;
  why_not = "NVML has no GPU with uuid '" + uuid + "' or PCI bus id '" + bus_id + "'" +
            (failures_.empty() ? "" : "; " + failures_.back());
  return false;
}

void Nvml::collect_facts() {
  const auto persistence = value<unsigned>("nvmlDeviceGetPersistenceMode");
  facts_ = {{"driver_version", or_null(text("nvmlSystemGetDriverVersion", false))},
            {"nvml_version", or_null(text("nvmlSystemGetNVMLVersion", false))},
            {"uuid", or_null(text("nvmlDeviceGetUUID", true))},
            {"ecc_enabled", or_null(current_mode("nvmlDeviceGetEccMode"))},
            {"mig_enabled", or_null(current_mode("nvmlDeviceGetMigMode"))},
            {"persistence_mode", persistence ? Json(*persistence != 0) : Json(nullptr)},
            {"power_limit_w", or_null(watts(value<unsigned>("nvmlDeviceGetEnforcedPowerLimit")))},
            {"max_sm_mhz", or_null(value<unsigned>("nvmlDeviceGetMaxClockInfo", clock_sm))},
            {"max_memory_mhz", or_null(value<unsigned>("nvmlDeviceGetMaxClockInfo", clock_memory))}};
  static_cast<void>(read());  // so that `failures` names what readings will lack
  last_read_us_.reset();
}

Nvml::Reading Nvml::read() {
  Reading reading;
  reading.host_us = steady_now_us();
  last_read_us_ = reading.host_us;
  reading.sm_mhz = value<unsigned>("nvmlDeviceGetClockInfo", clock_sm);
  reading.memory_mhz = value<unsigned>("nvmlDeviceGetClockInfo", clock_memory);
  reading.temperature_c = value<unsigned>("nvmlDeviceGetTemperature", temperature_of_gpu);
  reading.power_w = watts(value<unsigned>("nvmlDeviceGetPowerUsage"));
  // The same call by the name that drivers before 535 know.
  const char* reasons = "nvmlDeviceGetCurrentClocksEventReasons";
  if (!has(reasons)) reasons = "nvmlDeviceGetCurrentClocksThrottleReasons";
  reading.event_reasons = value<unsigned long long>(reasons);
  read_limits(reading);
  return reading;
}

void Nvml::read_limits(Reading& reading) {
  std::array<FieldValue, policies.size()> values{};
  for (std::size_t i = 0; i < values.size(); ++i) values[i].field_id = policies[i].field_id;
  constexpr auto name = "nvmlDeviceGetFieldValues";
  if (!call<int(void*, int, FieldValue*)>(name, device_, static_cast<int>(values.size()), values.data())) return;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto& field = values[i];
    const auto what = std::string{name} + " (" + policies[i].name + ')';
    if (field.result != success)
      note_failure(what, error_text(field.result));
    else if (field.value_type != value_unsigned_long_long)
      note_failure(what, "value type " + std::to_string(field.value_type) + " is not an unsigned long long");
    else
      reading.limited_us[policies[i].name] = field.as_unsigned_long_long / 1000;  // from nanoseconds
  }
}

std::optional<Nvml::Reading> Nvml::read_if_due(double now_us) {
  constexpr double interval_us = 100'000;
  if (last_read_us_ && now_us - *last_read_us_ < interval_us) return std::nullopt;
  auto reading = read();
  last_read_us_ = reading.host_us = now_us;
  return reading;
}

Json Nvml::facts() const {
  auto facts = facts_;
  facts["failures"] = failures_;
  return facts;
}

std::vector<std::string> event_names(std::uint64_t event_reasons) {
  std::vector<std::string> names;
  for (std::size_t bit = 0; bit < 64; ++bit) {
    if ((event_reasons >> bit & 1U) == 0) continue;
    names.push_back(bit < event_bits.size() ? event_bits[bit] : "bit_" + std::to_string(bit));
  }
  return names;
}

bool throttled(std::uint64_t event_reasons) {
  const auto names = event_names(event_reasons);
  return std::any_of(names.begin(), names.end(), [](const std::string& name) {
    return name.ends_with("slowdown") || name == "sw_power_cap" || name == "sync_boost";
  });
}

Json to_json(const Nvml::Reading& reading) {
  Json limited = Json::object();
  for (const auto& policy : policies) {
    const auto found = reading.limited_us.find(policy.name);
    limited[policy.name] = found == reading.limited_us.end() ? Json(nullptr) : Json(found->second);
  }
  return {{"host_us", reading.host_us},
          {"sm_mhz", or_null(reading.sm_mhz)},
          {"memory_mhz", or_null(reading.memory_mhz)},
          {"temperature_c", or_null(reading.temperature_c)},
          {"power_w", or_null(reading.power_w)},
          {"event_reasons", or_null(reading.event_reasons)},
          {"event_names", reading.event_reasons ? Json(event_names(*reading.event_reasons)) : Json(nullptr)},
          {"throttled", reading.event_reasons ? Json(throttled(*reading.event_reasons)) : Json(nullptr)},
          {"limited_us", std::move(limited)}};
}

}  // namespace mage
