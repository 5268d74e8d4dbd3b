// SPDX-License-Identifier: Apache-2.0
// Against a made-up libnvidia-ml (test/fake_nvml) whose numbers are known; on a GPU also against nvidia-smi's.
#include "bench/nvml.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "test/support/gpu.hpp"

#ifndef MAGE_FAKE_NVML
#define MAGE_FAKE_NVML ""
#define MAGE_FAKE_NVML_OLD ""
#endif

namespace mage {
namespace {

using Json = nlohmann::ordered_json;

class NvmlTest : public testing::Test {
 protected:
  void SetUp() override {
    if (std::string{MAGE_FAKE_NVML}.empty()) FAIL() << "no made-up NVML: the build misses test/fake_nvml";
    use(MAGE_FAKE_NVML);
  }
  void TearDown() override {
    unsetenv("MAGE_NVML_LIBRARY");
    unsetenv("MAGE_FAKE_NVML_FAULT");
    unsetenv("MAGE_FAKE_NVML_LOG");
  }
  static void use(const char* library) { setenv("MAGE_NVML_LIBRARY", library, 1); }
  static void break_it(const char* fault) { setenv("MAGE_FAKE_NVML_FAULT", fault, 1); }
  static DeviceInfo device(const std::string& uuid, const std::string& bus_id) {
    DeviceInfo info;
    info.facts = {{"uuid", uuid}, {"pci_bus_id", bus_id}};
    return info;
  }

  std::string why_not_;
};

TEST_F(NvmlTest, ReadsClocksPowerTemperatureAndEvents) {
  const auto nvml = Nvml::load(why_not_);
  ASSERT_NE(nvml, nullptr) << why_not_;
  const auto before = std::chrono::steady_clock::now().time_since_epoch();
  const auto reading = nvml->read();
  EXPECT_GE(reading.host_us, std::chrono::duration<double>(before).count() * 1e6);
  EXPECT_EQ(reading.sm_mhz, 1980U);
  EXPECT_EQ(reading.memory_mhz, 3201U);
  EXPECT_EQ(reading.temperature_c, 41U);
  ASSERT_TRUE(reading.power_w);
  EXPECT_DOUBLE_EQ(*reading.power_w, 123.456);
  EXPECT_EQ(reading.event_reasons, 0x24U);
  // The fake counts field_id * 1,000,999 ns.
  EXPECT_EQ(reading.limited_us.size(), 8U);
  EXPECT_EQ(reading.limited_us.at("power"), 74'000U);
  EXPECT_EQ(reading.limited_us.at("thermal"), 75'000U);
  EXPECT_EQ(reading.limited_us.at("base_clocks"), 81'000U);
  EXPECT_TRUE(nvml->failures().empty());
}

TEST_F(NvmlTest, Facts) {
  const auto nvml = Nvml::load(why_not_);
  ASSERT_NE(nvml, nullptr) << why_not_;
  EXPECT_EQ(nvml->facts(), (Json{{"driver_version", "580.95.05"},
                                 {"nvml_version", "13.580.95.05"},
                                 {"uuid", "GPU-00000000-1111-2222-3333-444444444444"},
                                 {"ecc_enabled", true},
                                 {"mig_enabled", false},
                                 {"persistence_mode", true},
                                 {"power_limit_w", 700.0},
                                 {"max_sm_mhz", 1980},
                                 {"max_memory_mhz", 3201},
                                 {"failures", Json::array()}}));
}

TEST_F(NvmlTest, FindsTheCudaDeviceAndNotTheFirst) {
  break_it("two_gpus");
  const auto by_uuid = device("GPU-55555555-6666-7777-8888-999999999999", "0000:17:00.0");
  auto nvml = Nvml::load(why_not_, &by_uuid);
  ASSERT_NE(nvml, nullptr) << why_not_;
  EXPECT_EQ(nvml->read().sm_mhz, 345U);
  // A MIG device's uuid is not the GPU's; the bus id still is.
  const auto by_bus = device("GPU-of-some-mig-slice", "0000:65:00.0");
  nvml = Nvml::load(why_not_, &by_bus);
  ASSERT_NE(nvml, nullptr) << why_not_;
  EXPECT_EQ(nvml->facts().at("uuid"), "GPU-55555555-6666-7777-8888-999999999999");
  EXPECT_EQ(nvml->failures(), (std::vector<std::string>{"nvmlDeviceGetHandleByUUID: Not Found"}));
}

TEST_F(NvmlTest, NeverGuessesAGpu) {
  const auto stranger = device("GPU-ffff", "0000:ff:00.0");
  EXPECT_EQ(Nvml::load(why_not_, &stranger), nullptr);
  EXPECT_NE(why_not_.find("GPU-ffff"), std::string::npos) << why_not_;
  EXPECT_NE(why_not_.find("Not Found"), std::string::npos) << why_not_;
  break_it("two_gpus");
  EXPECT_EQ(Nvml::load(why_not_), nullptr);
  EXPECT_NE(why_not_.find("2 GPUs"), std::string::npos) << why_not_;
}

TEST_F(NvmlTest, SaysWhyItIsAbsent) {
  use("/nowhere/libnvidia-ml.so.1");
  EXPECT_EQ(Nvml::load(why_not_), nullptr);
  EXPECT_NE(why_not_.find("/nowhere/libnvidia-ml.so.1"), std::string::npos) << why_not_;
  use(MAGE_FAKE_NVML);
  break_it("init");
  EXPECT_EQ(Nvml::load(why_not_), nullptr);
  EXPECT_EQ(why_not_, "nvmlInit_v2: Driver Not Loaded");
}

TEST_F(NvmlTest, AFailingCallLeavesItsFieldEmptyAndIsNamedOnce) {
  break_it("readings");
  const auto nvml = Nvml::load(why_not_);
  ASSERT_NE(nvml, nullptr) << why_not_;
  for (int i = 0; i < 3; ++i) {
    const auto reading = nvml->read();
    EXPECT_FALSE(reading.sm_mhz || reading.memory_mhz || reading.temperature_c || reading.power_w);
    EXPECT_FALSE(reading.event_reasons);
    EXPECT_TRUE(reading.limited_us.empty());
  }
  EXPECT_EQ(nvml->facts().at("failures"),
            (Json{"nvmlDeviceGetClockInfo: Not Supported", "nvmlDeviceGetTemperature: Not Supported",
                  "nvmlDeviceGetPowerUsage: Not Supported", "nvmlDeviceGetCurrentClocksEventReasons: Not Supported",
                  "nvmlDeviceGetFieldValues: Not Supported"}));
  EXPECT_EQ(nvml->facts().at("max_sm_mhz"), 1980);
}

TEST_F(NvmlTest, OneMissingCounterDoesNotHideTheOthers) {
  break_it("fields");
  const auto nvml = Nvml::load(why_not_);
  ASSERT_NE(nvml, nullptr) << why_not_;
  const auto reading = nvml->read();
  EXPECT_EQ(reading.limited_us.size(), 6U);
  EXPECT_FALSE(reading.limited_us.contains("reliability"));
  EXPECT_FALSE(reading.limited_us.contains("low_utilization"));  // of a type that is not understood
  EXPECT_EQ(reading.limited_us.at("app_clocks"), 80'000U);
  EXPECT_EQ(nvml->failures().size(), 2U);
  EXPECT_TRUE(to_json(reading).at("limited_us").at("reliability").is_null());
}

TEST_F(NvmlTest, AnOldDriverLacksFunctions) {
  use(MAGE_FAKE_NVML_OLD);
  const auto nvml = Nvml::load(why_not_);
  ASSERT_NE(nvml, nullptr) << why_not_;
  const auto reading = nvml->read();
  EXPECT_EQ(reading.event_reasons, 0x1U);  // by the older name of the function
  EXPECT_EQ(reading.sm_mhz, 1980U);
  EXPECT_TRUE(nvml->facts().at("mig_enabled").is_null());
  EXPECT_EQ(nvml->failures(), (std::vector<std::string>{"nvmlDeviceGetMigMode: not in this NVML",
                                                        "nvmlDeviceGetFieldValues: not in this NVML"}));
}

TEST_F(NvmlTest, ReadsAtMostTenTimesASecond) {
  const auto nvml = Nvml::load(why_not_);
  ASSERT_NE(nvml, nullptr) << why_not_;
  int readings = 0;
  for (double now_us = 5e6; now_us < 6e6; now_us += 1000) {
    const auto reading = nvml->read_if_due(now_us);
    if (!reading) continue;
    EXPECT_EQ(reading->host_us, now_us);
    readings += 1;
  }
  EXPECT_EQ(readings, 10);
}

TEST_F(NvmlTest, ShutsNvmlDown) {
  const auto log = std::filesystem::temp_directory_path() / ("mage_nvml_" + std::to_string(getpid()));
  setenv("MAGE_FAKE_NVML_LOG", log.c_str(), 1);
  EXPECT_NE(Nvml::load(why_not_), nullptr) << why_not_;
  std::stringstream text;
  text << std::ifstream{log}.rdbuf();
  std::filesystem::remove(log);
  EXPECT_EQ(text.str(), "shutdown\n");
}

TEST(NvmlEvents, NamesOfBits) {
  EXPECT_EQ(event_names(0), std::vector<std::string>{});
  EXPECT_EQ(event_names(0x24), (std::vector<std::string>{"sw_power_cap", "sw_thermal_slowdown"}));
  EXPECT_EQ(event_names(0x1ff),
            (std::vector<std::string>{"gpu_idle", "applications_clocks_setting", "sw_power_cap", "hw_slowdown",
                                      "sync_boost", "sw_thermal_slowdown", "hw_thermal_slowdown",
                                      "hw_power_brake_slowdown", "display_clock_setting"}));
  EXPECT_EQ(event_names(1ULL << 63U), (std::vector<std::string>{"bit_63"}));
}

TEST(NvmlJson, NullStandsForWhatIsUnknown) {
  const auto empty = to_json({});
  EXPECT_EQ(empty, Json::parse(R"({"host_us": 0.0, "sm_mhz": null, "memory_mhz": null, "temperature_c": null,
    "power_w": null, "event_reasons": null, "event_names": null, "throttled": null, "limited_us": {"power": null, "thermal": null,
    "sync_boost": null, "board_limit": null, "low_utilization": null, "reliability": null, "app_clocks": null,
    "base_clocks": null}})"));
  Nvml::Reading reading;
  reading.host_us = 12.5;
  reading.sm_mhz = 1755;
  reading.power_w = 99.5;
  reading.event_reasons = 0x4;
  reading.limited_us["power"] = 17;
  const auto full = to_json(reading);
  EXPECT_EQ(full.at("sm_mhz"), 1755);
  EXPECT_EQ(full.at("event_names"), Json{"sw_power_cap"});
  EXPECT_EQ(full.at("throttled"), true);
  EXPECT_EQ(full.at("limited_us").at("power"), 17);
  EXPECT_EQ(Json::parse(full.dump()), full);
}

TEST(NvmlJson, IdlenessAndChosenClocksAreNoThrottling) {
  for (const std::uint64_t mask : {0x0U, 0x1U, 0x2U, 0x3U, 0x100U}) EXPECT_FALSE(throttled(mask)) << mask;
  for (const std::uint64_t mask : {0x4U, 0x8U, 0x10U, 0x20U, 0x40U, 0x80U, 0x5U}) EXPECT_TRUE(throttled(mask)) << mask;
}

/// One value of nvidia-smi; empty where it isn't there.
std::string ask_nvidia_smi(const std::string& uuid, const std::string& field) {
  std::string text;
  const auto command = "nvidia-smi -i " + uuid + " --format=csv,noheader,nounits --query-gpu=" + field + " 2>/dev/null";
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return text;
  for (int c = 0; (c = std::fgetc(pipe)) != EOF && c != '\n';) text += static_cast<char>(c);
  pclose(pipe);
  return text;
}

TEST(GpuNvml, AgreesWithNvidiaSmi) {
  MAGE_NEED_GPU();
  std::string why_not;
  const auto gpu = make_cuda_device(0);
  const auto nvml = Nvml::load(why_not, &gpu->info());
  ASSERT_NE(nvml, nullptr) << why_not;
  const auto reading = nvml->read();
  RecordProperty("reading", to_json(reading).dump());
  RecordProperty("facts", nvml->facts().dump());
  ASSERT_TRUE(reading.sm_mhz && reading.power_w && reading.event_reasons) << nvml->facts();
  EXPECT_GT(*reading.sm_mhz, 100U);
  EXPECT_LE(Json(*reading.sm_mhz), nvml->facts().at("max_sm_mhz"));
  const auto facts = nvml->facts();
  const auto smi = [&](const char* field) { return ask_nvidia_smi(facts.at("uuid").get<std::string>(), field); };
  if (smi("driver_version").empty()) GTEST_SKIP() << "there is no nvidia-smi to compare with";
  EXPECT_EQ(facts.at("driver_version"), smi("driver_version"));
  EXPECT_DOUBLE_EQ(facts.at("power_limit_w").get<double>(), std::stod(smi("enforced.power.limit")));
  EXPECT_EQ(facts.at("max_sm_mhz").get<int>(), std::stoi(smi("clocks.max.sm")));
  EXPECT_EQ(facts.at("max_memory_mhz").get<int>(), std::stoi(smi("clocks.max.memory")));
  EXPECT_EQ(facts.at("ecc_enabled").get<bool>(), smi("ecc.mode.current") == "Enabled");
}

}  // namespace
}  // namespace mage
