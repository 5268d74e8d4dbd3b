// SPDX-License-Identifier: Apache-2.0
#include "test/support/example_store.hpp"

#include <string>
#include <vector>

#include "bench/store.hpp"

namespace mage::test {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* run_id = "0123456789abcdef0123456789abcdef";
constexpr int rounds = 3;

Json header() {
  return {{"kind", "header"},
          {"schema", store_schema},
          {"protocol", measuring_protocol},
          {"context",
           {{"date", "2026-01-02T03:04:05+00:00"},
            {"caches", {{{"type", "Data"}, {"level", 1}}}},
            {"mage_schema", store_schema},
            {"mage_run_id", run_id}}},
          {"provenance",
           {{"run_id", run_id},
            {"started_utc", "2026-01-02T03:04:05Z"},
            {"git_commit", "c0ffee"},
            {"git_dirty", false},
            {"executable_sha256", "e0e0"},
            {"kernel_sources_sha256", "5050"}}},
          {"options", {{"filter", "."}, {"seed", 7}}},
          {"device",
           {{"name", "NVIDIA H200"},
            {"uuid", "GPU-1"},
            {"cuda_driver_api", "13.0"},
            {"cuda_runtime", "12.9"},
            {"nvml", {{"driver_version", "580.1"}, {"failures", Json::array()}}}}},
          {"plan", {{"fixtures", Json::array()}, {"problems", Json::array()}}}};
}

Json row(const std::string& variant, const std::string& mode, const Json& parent, int round, double us) {
  const std::string name = "copy/" + variant + "/64x1024/" + mode;
  Json block{{"family", "copy"},
             {"variant", variant},
             {"problem", "64x1024"},
             {"mode", mode},
             {"provider", "mage_bench"},
             {"parent", parent},
             {"inputs_sha256", "1111"},
             {"round", round},
             {"rounds", rounds},
             {"work", {{"flops", 0.0}, {"bytes_read", 3000.0}, {"bytes_written", 1000.0}}},
             {"flags", Json::array()},
             {"floor_us", mode == "host" ? Json(nullptr) : Json(0.5)},
             {"quantum_us", mode == "host" ? Json(nullptr) : Json(0.032)},
             {"parts_us", Json::object()}};
  if (mode == "host") block["parts_us"]["submit_us"] = {us / 4, us / 2};
  if (round == 1) block["flags"].push_back(flag::throttled);
  return {{"kind", "row"},
          {"row",
           {{"name", name},
            {"run_name", name},
            {"repetition_index", round},
            {"real_time", us},
            {"time_unit", "us"},
            {"samples_us", {us, us}},
            {"mage", std::move(block)}}}};
}

Json status(const char* name, const char* what, const Json& code, const char* reason) {
  return {{"kind", "status"}, {"name", name}, {"status", what}, {"code", code}, {"reason", reason}};
}

Json floor(const char* mode, int round, double us) {
  return {{"kind", "floor"}, {"device", "cuda"}, {"mode", mode}, {"round", round}, {"median_us", us}};
}

}  // namespace

Json example_store() {
  std::vector<Json> entries{header()};
  for (int round = 0; round < rounds; ++round) {
    entries.push_back(floor("event", round, 0.5 + 0.25 * round));
    entries.push_back(floor("batch", round, -0.25));
    entries.push_back(row("v01_unrolled", "event", "v00_float4", round, 4.0 + round));
    entries.push_back(row("v00_float4", "event", nullptr, round, 5.0 + round));
    entries.push_back(row("reference", "host", nullptr, round, 40.0 + round));
  }
  entries.push_back(status("copy/v00_float4/64x1024/kernel", "unavailable", "cupti_busy", "a profiler holds CUPTI"));
  entries.push_back(status("copy/v01_unrolled/64x1024/graph", "wrong", nullptr, "an element is off"));
  for (const char* name :
       {"copy/v01_unrolled/64x1024/event", "copy/v00_float4/64x1024/event", "copy/reference/64x1024/host"})
    entries.push_back({{"kind", "gate"}, {"name", name}, {"when", "after"}, {"ok", true}});
  entries.push_back({{"kind", "end"}, {"finished_utc", "2026-01-02T03:05:06Z"}, {"interrupted", false}});
  return assemble_store(entries);
}

}  // namespace mage::test
