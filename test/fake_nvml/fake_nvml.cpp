// SPDX-License-Identifier: Apache-2.0
// A libnvidia-ml.so.1 of one or two made-up GPUs, after the signatures and numbers of NVIDIA's nvml.h.
// MAGE_FAKE_NVML_FAULT says what goes wrong: init, readings (all that can change), fields (one counter) or
// two_gpus. Compiled with MAGE_FAKE_NVML_OLD it lacks what an old driver lacks.
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int success = 0;
constexpr int invalid_argument = 2;
constexpr int not_supported = 3;
constexpr int not_found = 6;
constexpr int driver_not_loaded = 9;

struct Gpu {
  const char *uuid, *bus_id;
  unsigned sm_mhz;
};
Gpu gpus[] = {{"GPU-00000000-1111-2222-3333-444444444444", "00000000:17:00.0", 1980},
              {"GPU-55555555-6666-7777-8888-999999999999", "00000000:65:00.0", 345}};

bool fault(const char* name) {
  const char* text = std::getenv("MAGE_FAKE_NVML_FAULT");
  return text != nullptr && std::strcmp(text, name) == 0;
}

int give(unsigned value, unsigned* out) {
  if (fault("readings")) return not_supported;
  *out = value;
  return success;
}

int give_text(const char* text, char* out, unsigned size) {
  std::snprintf(out, size, "%s", text);
  return success;
}

unsigned count() { return fault("two_gpus") ? 2 : 1; }

struct FieldValue {
  unsigned fieldId, scopeId;
  long long timestamp, latencyUsec;
  int valueType, nvmlReturn;
  unsigned long long value;
};

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT const char* nvmlErrorString(int result) {
  switch (result) {
    case not_supported: return "Not Supported";
    case not_found: return "Not Found";
    case driver_not_loaded: return "Driver Not Loaded";
    default: return "Unknown Error";
  }
}
EXPORT int nvmlInit_v2() { return fault("init") ? driver_not_loaded : success; }
EXPORT int nvmlShutdown() {
  // So that a test can see it.
  if (const char* path = std::getenv("MAGE_FAKE_NVML_LOG"))
    if (std::FILE* file = std::fopen(path, "a")) {
      std::fputs("shutdown\n", file);
      std::fclose(file);
    }
  return success;
}
EXPORT int nvmlSystemGetDriverVersion(char* text, unsigned size) { return give_text("580.95.05", text, size); }
EXPORT int nvmlSystemGetNVMLVersion(char* text, unsigned size) { return give_text("13.580.95.05", text, size); }
EXPORT int nvmlDeviceGetCount_v2(unsigned* out) {
  *out = count();
  return success;
}
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, Gpu** out) {
  if (index >= count()) return invalid_argument;
  *out = &gpus[index];
  return success;
}
EXPORT int nvmlDeviceGetHandleByUUID(const char* uuid, Gpu** out) {
  for (unsigned i = 0; i < count(); ++i)
    if (std::strcmp(gpus[i].uuid, uuid) == 0) return nvmlDeviceGetHandleByIndex_v2(i, out);
  return not_found;
}
// The real one takes a domain of 4 or 8 digits.
EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, Gpu** out) {
  for (unsigned i = 0; i < count(); ++i)
    if (std::strcmp(gpus[i].bus_id, bus_id) == 0 || std::strcmp(gpus[i].bus_id + 4, bus_id) == 0)
      return nvmlDeviceGetHandleByIndex_v2(i, out);
  return not_found;
}
EXPORT int nvmlDeviceGetUUID(Gpu* gpu, char* text, unsigned size) { return give_text(gpu->uuid, text, size); }
EXPORT int nvmlDeviceGetClockInfo(Gpu* gpu, int type, unsigned* out) {
  return type == 1 ? give(gpu->sm_mhz, out) : type == 2 ? give(3201, out) : invalid_argument;
}
EXPORT int nvmlDeviceGetMaxClockInfo(Gpu*, int type, unsigned* out) {
  *out = type == 1 ? 1980 : 3201;
  return type == 1 || type == 2 ? success : invalid_argument;
}
EXPORT int nvmlDeviceGetTemperature(Gpu*, int sensor, unsigned* out) {
  return sensor == 0 ? give(41, out) : invalid_argument;
}
EXPORT int nvmlDeviceGetPowerUsage(Gpu*, unsigned* milliwatts) { return give(123'456, milliwatts); }
EXPORT int nvmlDeviceGetEnforcedPowerLimit(Gpu*, unsigned* milliwatts) {
  *milliwatts = 700'000;
  return success;
}
EXPORT int nvmlDeviceGetEccMode(Gpu*, unsigned* current, unsigned* pending) {
  *current = 1;
  *pending = 0;
  return success;
}
EXPORT int nvmlDeviceGetPersistenceMode(Gpu*, unsigned* mode) {
  *mode = 1;
  return success;
}

#ifdef MAGE_FAKE_NVML_OLD
EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(Gpu*, unsigned long long* out) {
  *out = 0x1;
  return success;
}
#else
EXPORT int nvmlDeviceGetMigMode(Gpu*, unsigned* current, unsigned* pending) {
  *current = 0;
  *pending = 1;
  return success;
}
EXPORT int nvmlDeviceGetCurrentClocksEventReasons(Gpu*, unsigned long long* out) {
  if (fault("readings")) return not_supported;
  *out = 0x24;
  return success;
}
EXPORT int nvmlDeviceGetFieldValues(Gpu*, int size, FieldValue* values) {
  if (fault("readings")) return not_supported;
  for (int i = 0; i < size; ++i) {
    // NVML_FI_DEV_PERF_POLICY_POWER is 74; nanoseconds; value type 3 is unsigned long long.
    values[i].nvmlReturn = values[i].fieldId == 79 && fault("fields") ? not_supported : success;
    values[i].valueType = values[i].fieldId == 78 && fault("fields") ? 0 : 3;
    values[i].value = values[i].fieldId * 1'000'000ULL + 999;
  }
  return success;
}
#endif
