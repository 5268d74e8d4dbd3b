// SPDX-License-Identifier: Apache-2.0
// Stores that are read in full, and broken ones: each is refused with a line that says where and what to do.
#include "bench/store_reader.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "bench/store.hpp"
#include "test/support/example_store.hpp"

namespace mage::test {
namespace {

using Json = nlohmann::ordered_json;
using Pointer = Json::json_pointer;

StoreContents parse(const Json& store) { return parse_store(store_text(store), "s.json"); }

/// The message of the refusal, or "read".
std::string refusal(const std::string& text) {
  try {
    static_cast<void>(parse_store(text, "s.json"));
    return "read";
  } catch (const StoreError& error) {
    return error.what();
  }
}
std::string refusal(const Json& store) { return refusal(store_text(store)); }

/// What holds for every message: one line, which names the file and what to do, in our words.
void expect_clear(const std::string& message) {
  EXPECT_EQ(message.find("s.json: "), 0U) << message;
  EXPECT_EQ(message.find("json.exception"), std::string::npos) << message;
  EXPECT_TRUE(message.find("; ") != std::string::npos || message.find("--mage_recover=") != std::string::npos)
      << message;
  EXPECT_TRUE(std::ranges::all_of(message, [](char c) { return c >= ' ' && c <= '~'; })) << message;
  EXPECT_LT(message.size(), 400U) << message;
}

void expect_refused(const std::string& message, const std::string& says) {
  EXPECT_NE(message.find(says), std::string::npos) << message;
  expect_clear(message);
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const auto at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), by);
}

std::vector<int> round_numbers(const StoredBenchmark& benchmark) {
  std::vector<int> numbers;
  numbers.reserve(benchmark.rounds.size());
  for (const auto& round : benchmark.rounds) numbers.push_back(round.round);
  return numbers;
}

TEST(StoreReader, GivesAllThatComparingNeeds) {
  const auto store = parse(example_store());
  EXPECT_EQ(store.path, "s.json");
  EXPECT_EQ(store.schema, store_schema);
  EXPECT_EQ(store.run_id, "0123456789abcdef0123456789abcdef");
  EXPECT_EQ(store.started_utc, "2026-01-02T03:04:05Z");
  EXPECT_EQ(store.git_commit, "c0ffee");
  EXPECT_EQ(store.git_dirty, false);
  EXPECT_TRUE(store.complete);
  EXPECT_EQ(store.gpu_name, "NVIDIA H200");
  EXPECT_EQ(store.gpu_uuid, "GPU-1");
  EXPECT_EQ(store.driver, "580.1");
  EXPECT_EQ(store.runtime, "12.9");
  EXPECT_EQ(store.executable_sha256, "e0e0");
  EXPECT_EQ(store.kernel_sources_sha256, "5050");
  EXPECT_EQ(store.seed, 7U);
  EXPECT_EQ(store.floors, (StoredFloors{{{"cuda", "event"}, 0.75}, {{"cuda", "batch"}, -0.25}}));

  ASSERT_EQ(store.absences.size(), 2U);
  EXPECT_EQ(store.absences[0].name, "copy/v00_float4/64x1024/kernel");
  EXPECT_EQ(store.absences[0].status, "unavailable");
  EXPECT_EQ(store.absences[0].code, "cupti_busy");
  EXPECT_EQ(store.absences[0].reason, "a profiler holds CUPTI");
  EXPECT_EQ(store.absences[1].status, "wrong");
  EXPECT_EQ(store.absences[1].code, "");

  ASSERT_EQ(store.benchmarks.size(), 3U);
  const auto& host = store.benchmarks[0];
  EXPECT_EQ(host.name, "copy/reference/64x1024/host");
  EXPECT_EQ(host.floor_us, std::nullopt);
  EXPECT_EQ(host.quantum_us, 0);
  EXPECT_EQ(host.parent, "");
  EXPECT_EQ(host.part_medians_us, (std::map<std::string, double>{{"submit_us", 41 * 0.375}}));
  const auto& event = store.benchmarks[2];
  EXPECT_EQ(event.name, "copy/v01_unrolled/64x1024/event");
  EXPECT_EQ(event.family, "copy");
  EXPECT_EQ(event.variant, "v01_unrolled");
  EXPECT_EQ(event.problem, "64x1024");
  EXPECT_EQ(event.mode, "event");
  EXPECT_EQ(event.provider, "mage_bench");
  EXPECT_EQ(event.parent, "v00_float4");
  EXPECT_EQ(event.inputs_sha256, "1111");
  EXPECT_EQ(event.rounds_planned, 3);
  EXPECT_EQ(round_numbers(event), (std::vector{0, 1, 2}));
  EXPECT_EQ(event.rounds[2].median_us, 6.0);
  EXPECT_EQ(event.flags, (std::vector<std::string>{flag::throttled}));
  EXPECT_EQ(event.floor_us, 0.5);
  EXPECT_EQ(event.quantum_us, 0.032);
  EXPECT_EQ(event.bytes, 4000);
  EXPECT_EQ(event.flops, 0);
}

TEST(StoreReader, ReadsWhatRunsMayLeave) {
  auto store = example_store();
  store["mage"]["device"] = nullptr;
  store["mage"]["complete"] = false;
  store["mage"]["end"] = nullptr;
  for (const char* key : {"git_commit", "executable_sha256"}) store["mage"]["provenance"][key] = nullptr;
  const auto interrupted = parse(store);
  EXPECT_FALSE(interrupted.complete);
  for (const auto& text : {interrupted.gpu_name, interrupted.gpu_uuid, interrupted.driver, interrupted.runtime,
                           interrupted.git_commit, interrupted.executable_sha256})
    EXPECT_EQ(text, "");

  for (const char* list : {"/benchmarks", "/mage/aggregates", "/mage/unavailable", "/mage/failed", "/mage/floors"})
    store[Pointer{list}] = Json::array();
  const auto nothing_measured = parse(store);
  EXPECT_TRUE(nothing_measured.benchmarks.empty());
  EXPECT_TRUE(nothing_measured.absences.empty());
  EXPECT_TRUE(nothing_measured.floors.empty());
}

TEST(StoreReader, WithoutNvmlTheDriverIsNamedByTheCudaItOffers) {
  auto store = example_store();
  store["mage"]["device"]["nvml"] = {{"unavailable", "no library"}};
  EXPECT_EQ(parse(store).driver, "CUDA 13.0");
  store["mage"]["device"]["nvml"] = {{"driver_version", nullptr}};
  EXPECT_EQ(parse(store).driver, "CUDA 13.0");
}

TEST(StoreReader, ARoundThatIsMissingIsNotThere) {
  auto store = example_store();
  store["benchmarks"].erase(3);  // round 1 of v01_unrolled
  auto& aggregate = store["mage"]["aggregates"][0];
  ASSERT_EQ(aggregate.at("name"), "copy/v01_unrolled/64x1024/event");
  expect_refused(refusal(store),
                 "'copy/v01_unrolled/64x1024/event' has 2 rows in benchmarks, and mage.aggregates says 3");
  aggregate["rounds"] = 2;
  aggregate["flags"] = {"throttled", "missing_rounds"};
  const auto contents = parse(store);
  EXPECT_EQ(round_numbers(contents.benchmarks[2]), (std::vector{0, 2}));
  EXPECT_EQ(contents.benchmarks[2].rounds_planned, 3);
  EXPECT_EQ(contents.benchmarks[2].flags, (std::vector<std::string>{"missing_rounds", "throttled"}));
}

TEST(StoreReader, OtherDevicesAndSeedsAreForTheReaderOfTwoStores) {
  auto store = example_store();
  store["mage"]["device"]["name"] = "NVIDIA A100";
  store["mage"]["device"]["uuid"] = "GPU-2";
  store["mage"]["options"]["seed"] = 18446744073709551615U;
  const auto other = parse(store);
  EXPECT_EQ(other.gpu_name, "NVIDIA A100");
  EXPECT_EQ(other.gpu_uuid, "GPU-2");
  EXPECT_EQ(other.seed, 18446744073709551615U);
}

TEST(StoreReader, NeitherOrderNorUnknownFieldsMatter) {
  auto store = example_store();
  std::reverse(store["benchmarks"].begin(), store["benchmarks"].end());
  for (const char* place : {"", "/context", "/benchmarks/0", "/benchmarks/0/mage", "/mage", "/mage/aggregates/0",
                            "/mage/device", "/mage/floors/0", "/mage/failed/0"})
    store[Pointer{place}]["from the future"] = {1, {{"name", 2}, {"mage", {nullptr}}}};
  const auto sorted_keys = nlohmann::json(store).dump();  // benchmarks come before context, and mage before both
  const auto contents = parse_store(sorted_keys, "s.json");
  const auto plain = parse(example_store());
  ASSERT_EQ(contents.benchmarks.size(), plain.benchmarks.size());
  for (std::size_t i = 0; i < plain.benchmarks.size(); ++i) {
    EXPECT_EQ(contents.benchmarks[i].name, plain.benchmarks[i].name);
    EXPECT_EQ(round_numbers(contents.benchmarks[i]), (std::vector{0, 1, 2}));
    EXPECT_EQ(contents.benchmarks[i].rounds[0].median_us, plain.benchmarks[i].rounds[0].median_us);
    EXPECT_EQ(contents.benchmarks[i].part_medians_us, plain.benchmarks[i].part_medians_us);
  }
  EXPECT_EQ(contents.floors, plain.floors);
}

struct Breakage {
  const char* place;
  const char* value;  ///< JSON; null: the field is taken away
  const char* says;
};

// Each of these is one change to the example store.
const std::vector<Breakage> breakages{
    {"/context", nullptr, "the file has no field context"},
    {"/context", "[]", "context is a list, and should be an object"},
    {"/context/mage_schema", nullptr, "context has no field mage_schema, so this is no store of mage_bench"},
    {"/context/mage_schema", "\"mage_bench/store/2\"",
     "it has the schema 'mage_bench/store/2', and this program reads 'mage_bench/store/1'"},
    {"/context/mage_schema", "1", "context.mage_schema is 1, and should be a text"},
    {"/context/mage_schema", "\"\\u001b[31m\\n\"", "it has the schema '?[31m?'"},
    {"/context/mage_run_id", "\"beef\"", "mage.provenance has another run_id than context"},
    {"/benchmarks", nullptr, "the file has no field benchmarks"},
    {"/benchmarks", "{}", "benchmarks is an object, and should be a list"},
    {"/benchmarks/1", "7", "benchmarks[1] is 7, and should be an object"},
    {"/benchmarks/1/name", nullptr, "benchmarks[1] has no field name"},
    {"/benchmarks/1/name", "\"copy/other\"", "benchmarks[1] has the name 'copy/other', which its family"},
    {"/benchmarks/1/real_time", nullptr, "benchmarks[1] has no field real_time"},
    {"/benchmarks/1/real_time", "0", "benchmarks[1].real_time is 0, and should be a number above 0"},
    {"/benchmarks/1/real_time", "-1.5", "benchmarks[1].real_time is -1.5, and should be a number above 0"},
    {"/benchmarks/1/real_time", "null", "benchmarks[1].real_time is null"},
    {"/benchmarks/1/real_time", "\"4\"", "benchmarks[1].real_time is '4'"},
    {"/benchmarks/1/real_time", "[[4]]", "benchmarks[1].real_time is a list"},
    {"/benchmarks/1/time_unit", "\"ns\"", "benchmarks[1] has the time_unit 'ns', not 'us'"},
    {"/benchmarks/1/mage", nullptr, "benchmarks[1] has no field mage"},
    {"/benchmarks/1/mage/round", "-1",
     "benchmarks[1].mage.round is -1, and should be a whole number from 0 to 2147483647"},
    {"/benchmarks/1/mage/round", "0.5", "benchmarks[1].mage.round is 0.5"},
    {"/benchmarks/1/mage/round", "2147483648", "benchmarks[1].mage.round is 2147483648"},
    {"/benchmarks/1/mage/round", "18446744073709551616", "benchmarks[1].mage.round is 1.8"},
    {"/benchmarks/1/mage/round", "3", "benchmarks[1].mage has round 3 of 3, counted from 0"},
    {"/benchmarks/1/mage/round", "2", "'copy/v00_float4/64x1024/event' has round 2 twice in benchmarks"},
    {"/benchmarks/1/mage/rounds", "0", "benchmarks[1].mage.rounds is 0"},
    {"/benchmarks/4/mage/rounds", "4", "benchmarks[4].mage has another rounds than an earlier row of 'copy/v00_float4"},
    {"/benchmarks/4/mage/provider", "\"cublas\"", "benchmarks[4].mage has another provider than an earlier row"},
    {"/benchmarks/4/mage/parent", "\"v09\"", "benchmarks[4].mage has another parent than an earlier row"},
    {"/benchmarks/4/mage/inputs_sha256", "\"2\"", "benchmarks[4].mage has another inputs_sha256 than an earlier row"},
    {"/benchmarks/4/mage/work/flops", "1", "benchmarks[4].mage has another work than an earlier row"},
    {"/benchmarks/1/mage/family", "\"\"", "benchmarks[1].mage.family is '', and should be a text that is not empty"},
    {"/benchmarks/1/mage/parent", nullptr, "benchmarks[1].mage has no field parent"},
    {"/benchmarks/1/mage/work/bytes_read", "-1", "benchmarks[1].mage.work.bytes_read is -1"},
    {"/benchmarks/1/mage/work/flops", nullptr, "benchmarks[1].mage.work has no field flops"},
    {"/mage", nullptr, "the file has no field mage"},
    {"/mage", "null", "mage is null, and should be an object"},
    {"/mage/schema", "\"mage_bench/store/2\"",
     "mage has the schema 'mage_bench/store/2', and context 'mage_bench/store/1'"},
    {"/mage/complete", "1", "mage.complete is 1, and should be true or false"},
    {"/mage/provenance/run_id", nullptr, "mage.provenance has no field run_id"},
    {"/mage/provenance/kernel_sources_sha256", "null", "mage.provenance.kernel_sources_sha256 is null"},
    {"/mage/options/seed", "-1", "mage.options.seed is -1"},
    {"/mage/options/seed", "18446744073709551616", "mage.options.seed is 1.8"},
    {"/mage/device/uuid", "null", "mage.device.uuid is null"},
    {"/mage/device/nvml", "\"no\"", "mage.device.nvml is 'no', and should be an object"},
    {"/mage/device/nvml/driver_version", "580", "mage.device.nvml.driver_version is 580"},
    {"/mage/aggregates", "null", "mage.aggregates is null, and should be a list"},
    {"/mage/aggregates/1", nullptr,
     "'copy/v00_float4/64x1024/event' has 3 rows in benchmarks, and none in mage.aggregates"},
    {"/mage/aggregates/1/name", "\"copy/v01_unrolled/64x1024/event\"",
     "mage.aggregates[1] is the second one of 'copy/v01"},
    {"/mage/aggregates/1/rounds", "2", "has 3 rows in benchmarks, and mage.aggregates says 2 rounds"},
    {"/mage/aggregates/1/rounds_planned", "4", "has 3 rounds planned in benchmarks, and 4 in mage.aggregates"},
    {"/mage/aggregates/1/quantum_us", "0", "mage.aggregates[1].quantum_us is 0, and should be a number above 0"},
    {"/mage/aggregates/1/floor_us", "true", "mage.aggregates[1].floor_us is true, and should be a number"},
    {"/mage/aggregates/1/part_medians_us", "[]", "mage.aggregates[1].part_medians_us is a list"},
    {"/mage/aggregates/1/part_medians_us", "{\"a\":1,\"b\":null}", "mage.aggregates[1].part_medians_us.b is null"},
    {"/mage/aggregates/1/flags", "{\"a\":1}", "mage.aggregates[1].flags is an object, and should be a list"},
    {"/mage/aggregates/1/flags", "[\"a\",{}]", "mage.aggregates[1] has a flag that is an object"},
    {"/mage/failed/0/name", "\"copy/v00_float4/64x1024/kernel\"",
     "mage.failed[0] is the second one of 'copy/v00_float4"},
    {"/mage/failed/0/name", "\"copy/v00_float4/64x1024/event\"",
     "has rows in benchmarks, and stands in mage.unavailable"},
    {"/mage/failed/0/status", nullptr, "mage.failed[0] has no field status"},
    {"/mage/unavailable/0/code", "7", "mage.unavailable[0].code is 7"},
    {"/mage/unavailable/0/reason", nullptr, "mage.unavailable[0] has no field reason"},
    {"/mage/floors/2/median_us", "null", "mage.floors[2].median_us is null, and should be a number"},
    {"/mage/floors/2/device", nullptr, "mage.floors[2] has no field device"},
};

void erase(Json& store, const Pointer& place) {
  auto& parent = store[place.parent_pointer()];
  if (parent.is_array())
    parent.erase(static_cast<std::size_t>(std::stoul(place.back())));
  else
    parent.erase(place.back());
}

TEST(StoreReader, RefusesEachBrokenField) {
  for (const auto& [place, value, says] : breakages) {
    SCOPED_TRACE(std::string{place} + " = " + (value != nullptr ? value : "nothing"));
    auto store = example_store();
    ASSERT_TRUE(store.contains(Pointer{place}));
    if (value != nullptr)
      store[Pointer{place}] = Json::parse(value);
    else
      erase(store, Pointer{place});
    expect_refused(refusal(store), says);
  }
}

TEST(StoreReader, WhatWasPickedIsOneTextInAllRounds) {
  auto store = example_store();
  for (auto& row : store["benchmarks"]) row["mage"]["picked"] = "v07";
  EXPECT_EQ(parse(store).benchmarks.front().picked, "v07");
  for (const auto& wrong : {Json("v08"), Json(7), Json(nullptr)}) {
    store["benchmarks"].back()["mage"]["picked"] = wrong;
    EXPECT_THROW(static_cast<void>(parse(store)), std::runtime_error) << wrong;
  }
}

TEST(StoreReader, ARowTwiceIsRefused) {
  auto store = example_store();
  store["benchmarks"].push_back(store["benchmarks"][1]);
  store["mage"]["aggregates"][1]["rounds"] = 4;
  expect_refused(refusal(store), "'copy/v00_float4/64x1024/event' has round 0 twice in benchmarks");
}

struct BrokenText {
  const char* what;
  std::function<std::string(std::string)> broken;
  const char* says;
};

TEST(StoreReader, RefusesEachBrokenText) {
  const auto with = [](const char* from, const char* to) {
    return [from, to](std::string text) { return replaced(std::move(text), from, to); };
  };
  const auto only = [](const std::string& text) { return [text](const std::string&) { return text; }; };
  const std::string deep(1000000, '[');
  for (const auto& [what, broken, says] : std::vector<BrokenText>{
           {"nothing", only(""), "the file is empty"},
           {"blanks", only(" \n\t\r\n"), "the file is empty"},
           {"a list", only("[]"), "the file is a list, and should be an object"},
           {"a number", only("7"), "the file is 7, and should be an object"},
           {"an empty object", only("{}"), "the file has no field context"},
           {"an image", only("\x89PNG\r\n\x1a\n"), "byte 1 in the file: no JSON at '?PNG"},
           {"zeros", only(std::string(5000, '\0')), "byte 1 in the file: no JSON at '?"},
           {"nested lists", only(deep), "nested deeper than 64 levels"},
           {"nested objects", only([] {
              std::string text;
              for (int i = 0; i < 100000; ++i) text += "{\"mage\":";
              return text;
            }()),
            "nested deeper than 64 levels"},
           {"a journal", only("{\"kind\":\"header\"}\n{\"kind\":\"end\"}\n"), "mage_bench --mage_recover=s.json"},
           {"Google Benchmark's JSON",
            only(R"({"context": {"date": "x", "library_build_type": "release"}, "benchmarks": [{"name": "BM_x"}]})"),
            "this is no store of mage_bench"},
           {"a mark", [](const std::string& text) { return "\xEF\xBB\xBF" + text; }, "byte order mark at byte 1"},
           {"UTF-16", only(std::string{"\xFF\xFE{\0}\0", 6}), "byte 1 in the file: no JSON"},
           {"NaN", with("\"real_time\":4.0", "\"real_time\":NaN"), "in benchmarks[0].real_time: NaN is no JSON"},
           {"Infinity", with("\"real_time\":4.0", "\"real_time\":Infinity"),
            "in benchmarks[0].real_time: Infinity is no JSON"},
           {"-Infinity", with("\"floor_us\":0.5", "\"floor_us\":-Infinity"), "floor_us: Infinity is no JSON"},
           {"NaN among samples", with("\"samples_us\":[4.0", "\"samples_us\":[NaN"),
            "in benchmarks[0].samples_us: NaN is no JSON"},
           {"too large", with("\"real_time\":4.0", "\"real_time\":1e999"),
            "in benchmarks[0].real_time: a number that does not fit a double"},
           {"half UTF-8", with("c0ffee", "\xC3("), "in mage.provenance.git_commit: bytes that are no UTF-8"},
           {"half UTF-8 in what is skipped", with("\"filter\":\".\"", "\"filter\":\"\x80\""),
            "in mage.options.filter: bytes that are no UTF-8"},
           {"more", [](const std::string& text) { return text + "{}"; }, "in the file: no JSON at '{}'"},
           {"a zero byte", [](const std::string& text) { return text + std::string{"\0garbage", 8}; },
            "is zero, and more"},
           {"a comment", [](const std::string& text) { return "// ours\n" + text; }, "byte 1 in the file: no JSON"},
           {"a comma too many", with("\"complete\":true,", "\"complete\":true,,"), "in mage.complete: no JSON at ',"},
           {"a row twice in a field", with("\"real_time\":4.0", "\"real_time\":4.0,\"real_time\":4.0"),
            "benchmarks[0].real_time stands twice in one object"},
           {"two parts", with("\"submit_us\":15.375", "\"submit_us\":15.375,\"submit_us\":15.375"),
            "mage.aggregates[2].part_medians_us.submit_us stands twice"},
           {"two contexts", with("\"benchmarks\"", "\"context\":{}, \"benchmarks\""), "context stands twice"},
           {"two lists", with("\"failed\"", "\"unavailable\":[], \"failed\""), "mage.unavailable stands twice"},
       }) {
    SCOPED_TRACE(what);
    expect_refused(refusal(broken(example_store().dump())), says);
  }
}

TEST(StoreReader, SaysWhereAStoreIsCutOffAtWhateverByte) {
  const auto text = example_store().dump();
  for (std::size_t length = 1; length < text.size(); ++length) {
    const auto message = refusal(text.substr(0, length));
    ASSERT_NE(message.find("s.json: cut off at byte " + std::to_string(length) + " in "), std::string::npos)
        << length << ": " << message;
    ASSERT_NE(message.find("mage_bench --mage_recover=s.json.journal.jsonl"), std::string::npos) << message;
  }
  expect_clear(refusal(text.substr(0, text.size() / 2)));
}

/// The places of all values, the outermost first.
void collect(const Json& value, const Pointer& place, std::vector<Pointer>& places) {
  places.push_back(place);
  if (value.is_object())
    for (const auto& [key, member] : value.items()) collect(member, place / key, places);
  if (value.is_array())
    for (std::size_t i = 0; i < value.size(); ++i) collect(value[i], place / i, places);
}

TEST(StoreReader, EachFieldRemovedDoubledOrOfAnotherTypeGivesContentsOrARefusal) {
  const std::vector<Json> others{nullptr,
                                 true,
                                 -1,
                                 0,
                                 2,
                                 1.5,
                                 -1e300,
                                 "",
                                 "x",
                                 Json::array(),
                                 Json::object(),
                                 Json::array({Json::object()}),
                                 {{"name", "x"}}};
  const auto good = example_store();
  std::vector<Pointer> places;
  collect(good, Pointer{}, places);
  int read = 0, refused = 0;
  const auto attempt = [&](const std::string& text) {
    const auto message = refusal(text);
    (message == "read" ? read : refused) += 1;
    if (message != "read") expect_clear(message);
  };
  for (const auto& place : places) {
    SCOPED_TRACE(place.to_string());
    for (const auto& other : others) {
      auto store = good;
      store[place] = other;
      attempt(store.dump());
    }
    if (place.empty()) continue;
    auto shorter = good;
    erase(shorter, place);
    attempt(shorter.dump());
    auto doubled = good;
    auto& parent = doubled[place.parent_pointer()];
    if (parent.is_array()) {
      parent.push_back(good[place]);
      attempt(doubled.dump());
    } else {
      parent[place.back() + "@again"] = good[place];
      attempt(replaced(doubled.dump(), "@again", ""));
    }
  }
  EXPECT_GT(read, 1000);  // changes to what is skipped
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace mage::test
