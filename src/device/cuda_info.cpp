// SPDX-License-Identifier: Apache-2.0
#include "device/cuda_info.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <utility>

#include "mage_bench/cuda.hpp"

namespace mage {
namespace {

constexpr std::array limits{std::pair{cudaLimitStackSize, "stack_size"},
                            std::pair{cudaLimitPrintfFifoSize, "printf_fifo_size"},
                            std::pair{cudaLimitMallocHeapSize, "malloc_heap_size"},
                            std::pair{cudaLimitMaxL2FetchGranularity, "max_l2_fetch_granularity"},
                            std::pair{cudaLimitPersistingL2CacheSize, "persisting_l2_cache_size"}};

std::string version_text(int encoded) {
  return std::to_string(encoded / 1000) + "." + std::to_string(encoded % 1000 / 10);
}

std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    char byte[3];
    std::snprintf(byte, sizeof byte, "%02x", static_cast<unsigned>(static_cast<unsigned char>(uuid.bytes[i])));
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += byte;
  }
  return text;
}

}  // namespace

int cuda_attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
  return value;
}

DeviceInfo describe_cuda_device(int device) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  int driver = 0;
  int runtime = 0;
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  char bus[32] = {};
  check(cudaDeviceGetPCIBusId(bus, sizeof bus, device), "cudaDeviceGetPCIBusId");
  DeviceInfo info;
  info.name = properties.name;
  info.compute_capability = properties.major * 10 + properties.minor;
  info.l2_bytes = static_cast<std::size_t>(properties.l2CacheSize);
  info.memory_bytes = properties.totalGlobalMem;
  // Two transfers a clock on a bus of so many bits: kHz * bits / 8 * 2 / 1e6 = GB/s.
  info.peak_gbytes_per_s = static_cast<double>(cuda_attribute(cudaDevAttrMemoryClockRate, device)) *
                           cuda_attribute(cudaDevAttrGlobalMemoryBusWidth, device) / 4e6;
  info.facts = {{"uuid", uuid_text(properties.uuid)},
                {"pci_bus_id", bus},
                {"compute_capability", std::to_string(properties.major) + "." + std::to_string(properties.minor)},
                {"sm_count", std::to_string(properties.multiProcessorCount)},
                {"l2_bytes", std::to_string(properties.l2CacheSize)},
                {"memory_bytes", std::to_string(properties.totalGlobalMem)},
                {"ecc_enabled", std::to_string(cuda_attribute(cudaDevAttrEccEnabled, device))},
                {"cuda_driver_api", version_text(driver)},
                {"cuda_runtime", version_text(runtime)}};
  return info;
}

CudaPresence cuda_presence() {
  int count = 0;
  const auto error = cudaGetDeviceCount(&count);
  static_cast<void>(cudaGetLastError());
  const std::string no_device{explain(Unavailable::no_cuda_device)};
  if (error != cudaSuccess) return {0, Unavailable::no_cuda_device, no_device + " (" + cudaGetErrorString(error) + ")"};
  if (count == 0) return {0, Unavailable::no_cuda_device, no_device};
  return {count, std::nullopt, {}};
}

void check_cuda_index(int index) {
  const auto presence = cuda_presence();
  if (presence.why_not) throw UnavailableError{*presence.why_not, presence.detail};
  if (index < 0 || index >= presence.count)
    throw std::invalid_argument{"device " + std::to_string(index) + " asked for, but there are " +
                                std::to_string(presence.count) + ": use 0 to " + std::to_string(presence.count - 1)};
}

DeviceInfo cuda_device_info(int index) {
  check_cuda_index(index);
  return describe_cuda_device(index);
}

std::vector<DeviceSetting> cuda_settings() {
  std::vector<DeviceSetting> found;
  for (const auto& [limit, name] : limits) {
    std::size_t value = 0;
    if (cudaDeviceGetLimit(&value, limit) == cudaSuccess) found.push_back({name, value});
    static_cast<void>(cudaGetLastError());  // not every device has all of them
  }
  int device = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  found.push_back({"current_device", static_cast<std::size_t>(device)});
  return found;
}

void set_cuda_settings(int device, const std::vector<DeviceSetting>& settings) {
  check(cudaSetDevice(device), "cudaSetDevice");
  for (const auto& now : cuda_settings()) {
    const auto wanted =
        std::find_if(settings.begin(), settings.end(), [&](const auto& setting) { return setting.name == now.name; });
    if (wanted == settings.end() || *wanted == now) continue;
    for (const auto& [limit, name] : limits)
      if (now.name == name) check(cudaDeviceSetLimit(limit, wanted->value), "cudaDeviceSetLimit");
  }
}

}  // namespace mage
