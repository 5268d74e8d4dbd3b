// SPDX-License-Identifier: Apache-2.0
#include "bench/store_reader.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <string_view>
#include <unordered_map>

#include "bench/json_fields.hpp"
#include "bench/json_picker.hpp"
#include "bench/store.hpp"

namespace mage {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::pair<const char*, std::string StoredBenchmark::*>, 6> row_texts{{
    {"family", &StoredBenchmark::family},
    {"variant", &StoredBenchmark::variant},
    {"problem", &StoredBenchmark::problem},
    {"mode", &StoredBenchmark::mode},
    {"provider", &StoredBenchmark::provider},
    {"inputs_sha256", &StoredBenchmark::inputs_sha256},
}};

class StoreReader {
 public:
  StoreContents read(std::string_view text);

 private:
  /// A benchmark while its rows and its aggregate come, in either order.
  struct Found {
    StoredBenchmark benchmark;
    bool has_aggregate = false;
    int rounds_of_aggregate = 0;
    int rounds_planned_of_rows = 0;
  };

  /// Each element of a list goes to `take` as it is read.
  WantedJson each_of(std::string_view list, void (StoreReader::*take)(const Fields&),
                     std::vector<WantedMember> members);
  WantedJson wanted();

  void take_context(const Fields& context);
  void take_row(const Fields& row);
  void take_aggregate(const Fields& aggregate);
  void take_absence(const Fields& entry);
  void take_floor(const Fields& floor);
  void take_rest(const Json& root);
  void take_device(const Fields& mage);
  void take_whole(Found& found);

  StoreContents contents_;
  std::string context_run_id_;
  std::unordered_map<std::string, Found> found_;
  std::set<std::string> absent_;
  std::map<std::pair<std::string, std::string>, std::vector<double>> floors_;
};

std::vector<WantedMember> plain(std::initializer_list<const char*> keys) {
  std::vector<WantedMember> members;
  for (const char* key : keys) members.push_back({key, {}});
  return members;
}

std::vector<WantedMember> with(std::vector<WantedMember> members, const std::vector<WantedMember>& more) {
  members.insert(members.end(), more.begin(), more.end());
  return members;
}

WantedJson StoreReader::each_of(std::string_view list, void (StoreReader::*take)(const Fields&),
                                std::vector<WantedMember> members) {
  WantedJson element{.members = std::move(members), .each = {}, .take = {}};
  element.take = [this, list, take, index = std::size_t{0}](Json& value) mutable {
    (this->*take)(Fields{value, list, index++});
  };
  return {.members = {}, .each = {std::move(element)}, .take = {}};
}

WantedJson StoreReader::wanted() {
  const auto object = [](const char* key, std::vector<WantedMember> members) {
    return WantedMember{key, {.members = std::move(members), .each = {}, .take = {}}};
  };
  const auto all_of = [](const char* key) {
    return WantedMember{key, {.members = {}, .each = {WantedJson{}}, .take = {}}};
  };
  auto context = object("context", plain({"mage_schema", "mage_run_id"}));
  context.wanted.take = [this](Json& value) { take_context(Fields{value, "context"}); };

  std::vector<WantedMember> block = plain({"parent", "picked", "round", "rounds"});
  for (const auto& [key, member] : row_texts) block.push_back({key, {}});
  block.push_back(object("work", plain({"bytes_read", "bytes_written", "flops"})));
  auto rows = each_of("benchmarks", &StoreReader::take_row,
                      with(plain({"name", "real_time", "time_unit"}), {object("mage", std::move(block))}));

  const auto absence = plain({"name", "status", "code", "reason"});
  std::vector<WantedMember> mage = plain({"schema", "protocol", "complete"});
  mage.push_back(object("provenance", plain({"run_id", "started_utc", "git_commit", "git_dirty", "executable_sha256",
                                             "kernel_sources_sha256"})));
  mage.push_back(object("options", plain({"seed"})));
  mage.push_back(object("device", with(plain({"name", "uuid", "cuda_driver_api", "cuda_runtime"}),
                                       {object("nvml", plain({"driver_version"}))})));
  mage.push_back({"unavailable", each_of("mage.unavailable", &StoreReader::take_absence, absence)});
  mage.push_back({"failed", each_of("mage.failed", &StoreReader::take_absence, absence)});
  mage.push_back({"aggregates", each_of("mage.aggregates", &StoreReader::take_aggregate,
                                        with(plain({"name", "rounds", "rounds_planned", "quantum_us", "floor_us"}),
                                             {all_of("part_medians_us"), all_of("flags")}))});
  mage.push_back({"floors", each_of("mage.floors", &StoreReader::take_floor, plain({"device", "mode", "median_us"}))});

  WantedJson store;
  store.members.push_back(std::move(context));
  store.members.push_back({"benchmarks", std::move(rows)});
  store.members.push_back(object("mage", std::move(mage)));
  return store;
}

void StoreReader::take_context(const Fields& context) {
  if (!context.has("mage_schema"))
    throw FieldError{"context has no field mage_schema, so this is no store of mage_bench",
                     "name the file that mage_bench wrote"};
  contents_.schema = context.text("mage_schema");
  if (contents_.schema != store_schema)
    throw FieldError{
        "it has the schema " + excerpt(contents_.schema) + ", and this program reads '" + store_schema + '\'',
        "read it with the version that wrote it"};
  context_run_id_ = context.text("mage_run_id");
}

void StoreReader::take_row(const Fields& row) {
  const auto& name = row.text("name");
  auto& found = found_[name];
  auto& benchmark = found.benchmark;
  const auto block = row.object("mage");
  const auto work = block.object("work");
  const double bytes = work.not_negative("bytes_read") + work.not_negative("bytes_written");
  const double flops = work.not_negative("flops");
  const auto parent = block.text_or_null("parent");
  const auto picked = block.text_or_absent("picked");
  const int round = block.count("round", 0);
  const int planned = block.count("rounds", 1);
  if (benchmark.rounds.empty()) {
    benchmark.name = name;
    for (const auto& [key, member] : row_texts) benchmark.*member = block.text(key);
    benchmark.parent = parent;
    benchmark.picked = picked;
    benchmark.bytes = bytes;
    benchmark.flops = flops;
    found.rounds_planned_of_rows = planned;
    if (name != benchmark.family + '/' + benchmark.variant + '/' + benchmark.problem + '/' + benchmark.mode)
      row.object_to("has the name " + excerpt(name) + ", which its family, variant, problem and mode do not make");
  } else {
    const auto differs = [&](const std::string& key) {
      block.object_to("has another " + key + " than an earlier row of " + excerpt(name));
    };
    for (const auto& [key, member] : row_texts)
      if (benchmark.*member != block.text(key)) differs(key);
    if (benchmark.parent != parent) differs("parent");
    if (benchmark.picked != picked) differs("picked");
    if (benchmark.bytes != bytes || benchmark.flops != flops) differs("work");
    if (found.rounds_planned_of_rows != planned) differs("rounds");
  }
  if (row.text("time_unit") != "us")
    row.object_to("has the time_unit " + excerpt(row.text("time_unit")) + ", not 'us'");
  if (round >= planned)
    block.object_to("has round " + std::to_string(round) + " of " + std::to_string(planned) + ", counted from 0");
  benchmark.rounds.push_back({.round = round, .median_us = row.positive("real_time")});
}

void StoreReader::take_aggregate(const Fields& aggregate) {
  const auto& name = aggregate.text("name");
  auto& found = found_[name];
  if (found.has_aggregate) aggregate.object_to("is the second one of " + excerpt(name));
  found.has_aggregate = true;
  found.rounds_of_aggregate = aggregate.count("rounds", 1);
  auto& benchmark = found.benchmark;
  benchmark.name = name;
  benchmark.rounds_planned = aggregate.count("rounds_planned", 1);
  if (!aggregate.is_null("quantum_us")) benchmark.quantum_us = aggregate.positive("quantum_us");
  if (!aggregate.is_null("floor_us")) benchmark.floor_us = aggregate.number("floor_us");
  const auto parts = aggregate.object("part_medians_us");
  for (const auto& [part, value] : parts.json().items()) benchmark.part_medians_us[part] = parts.number(part);
  for (const auto& flag : aggregate.list("flags")) {
    if (!flag.is_string()) aggregate.object_to("has a flag that is " + described(flag) + ", and should be a text");
    benchmark.flags.push_back(flag.get<std::string>());
  }
  std::ranges::sort(benchmark.flags);
}

void StoreReader::take_absence(const Fields& entry) {
  const auto& name = entry.text("name");
  if (!absent_.insert(name).second) entry.object_to("is the second one of " + excerpt(name));
  contents_.absences.push_back({.name = name,
                                .status = entry.text("status"),
                                .code = entry.text_or_null("code"),
                                .reason = entry.text_or_null("reason")});
}

void StoreReader::take_floor(const Fields& floor) {
  floors_[{floor.text("device"), floor.text("mode")}].push_back(floor.number("median_us"));
}

void StoreReader::take_device(const Fields& mage) {
  if (mage.is_null("device")) return;
  const auto device = mage.object("device");
  contents_.gpu_name = device.text("name");
  contents_.gpu_uuid = device.text("uuid");
  contents_.runtime = device.text("cuda_runtime");
  // The driver's own version is NVML's to say; without it there is the CUDA version that the driver offers.
  const auto nvml = device.object("nvml");
  if (nvml.has("driver_version")) contents_.driver = nvml.text_or_null("driver_version");
  if (contents_.driver.empty()) contents_.driver = "CUDA " + device.text("cuda_driver_api");
}

/// What came element by element is taken already; here is the rest, and whether the parts fit together.
void StoreReader::take_rest(const Json& root) {
  const Fields store{root, ""};
  static_cast<void>(store.object("context"));
  static_cast<void>(store.list("benchmarks"));
  const auto mage = store.object("mage");
  for (const char* list : {"unavailable", "failed", "aggregates", "floors"}) static_cast<void>(mage.list(list));
  if (mage.text("schema") != contents_.schema)
    mage.object_to("has the schema " + excerpt(mage.text("schema")) + ", and context " + excerpt(contents_.schema));
  if (mage.has("protocol")) contents_.protocol = mage.whole("protocol", 1, std::numeric_limits<int>::max());
  contents_.complete = mage.boolean("complete");
  const auto provenance = mage.object("provenance");
  contents_.run_id = provenance.text("run_id");
  if (contents_.run_id != context_run_id_) provenance.object_to("has another run_id than context");
  contents_.started_utc = provenance.text("started_utc");
  contents_.git_commit = provenance.text_or_null("git_commit");
  contents_.git_dirty = provenance.boolean_or_null("git_dirty");
  contents_.executable_sha256 = provenance.text_or_null("executable_sha256");
  contents_.kernel_sources_sha256 = provenance.text("kernel_sources_sha256");
  contents_.seed = mage.object("options").whole("seed", 0, std::numeric_limits<std::uint64_t>::max());
  take_device(mage);
}

void StoreReader::take_whole(Found& found) {
  auto& benchmark = found.benchmark;
  const std::string name = excerpt(benchmark.name);
  const auto rows = std::to_string(benchmark.rounds.size());
  if (!found.has_aggregate)
    throw FieldError{name + " has " + rows + " rows in benchmarks, and none in mage.aggregates"};
  if (benchmark.rounds.size() != static_cast<std::size_t>(found.rounds_of_aggregate))
    throw FieldError{name + " has " + rows + " rows in benchmarks, and mage.aggregates says " +
                     std::to_string(found.rounds_of_aggregate) + " rounds"};
  if (found.rounds_planned_of_rows != benchmark.rounds_planned)
    throw FieldError{name + " has " + std::to_string(found.rounds_planned_of_rows) +
                     " rounds planned in benchmarks, and " + std::to_string(benchmark.rounds_planned) +
                     " in mage.aggregates"};
  if (absent_.contains(benchmark.name))
    throw FieldError{name + " has rows in benchmarks, and stands in mage.unavailable or mage.failed"};
  std::ranges::sort(benchmark.rounds, {}, &StoredRound::round);
  const auto twice = std::ranges::adjacent_find(benchmark.rounds, {}, &StoredRound::round);
  if (twice != benchmark.rounds.end())
    throw FieldError{name + " has round " + std::to_string(twice->round) + " twice in benchmarks"};
  contents_.benchmarks.push_back(std::move(benchmark));
}

/// As statistics::median; that one comes with the whole core, which the fuzzer's compiler need not understand.
double median_of(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  if (values.size() % 2 == 1) return *middle;
  const double below = *std::max_element(values.begin(), middle);
  return below + (*middle - below) / 2;
}

StoreContents StoreReader::read(std::string_view text) {
  take_rest(pick_json(text, wanted()));
  for (auto& [name, found] : found_) take_whole(found);
  std::ranges::sort(contents_.benchmarks, {}, &StoredBenchmark::name);
  for (auto& [key, medians_us] : floors_) contents_.floors[key] = median_of(medians_us);
  return std::move(contents_);
}

}  // namespace

StoreContents parse_store(const std::string& text, const std::string& path) {
  const auto failure = [&](const std::string& what) { return StoreError{path + ": " + what}; };
  if (text.find_first_not_of(" \t\r\n") == std::string::npos)
    throw failure("the file is empty; name a store of mage_bench");
  if (text.starts_with("\xEF\xBB\xBF"))
    throw failure("it begins with a byte order mark at byte 1, which no JSON does; save it as UTF-8 without one");
  if (text.starts_with("{\"kind\":"))
    throw failure("it is a journal; make a store of it: mage_bench --mage_recover=" + path);
  try {
    auto contents = StoreReader{}.read(text);
    // To the lexer a zero byte is the end of its input.
    if (const auto zero = text.find('\0'); zero != std::string::npos)
      throw failure("byte " + std::to_string(zero + 1) + " is zero, and more follows; take another copy");
    contents.path = path;
    return contents;
  } catch (const JsonError& error) {
    if (!error.cut_off())
      throw failure(std::string{error.what()} + "; mage_bench did not write that: take another copy");
    const auto journal = path + std::string{journal_suffix};
    throw failure(std::string{error.what()} + ": not the whole store; take another copy, or where " + journal +
                  " is still there: mage_bench --mage_recover=" + journal);
  } catch (const FieldError& error) {
    throw failure(error.what());
  } catch (const Json::exception& error) {
    throw failure(std::string{"cannot be read: "} + error.what());
  } catch (const std::bad_alloc&) {
    throw failure("it does not fit into memory; read it where there is more");
  }
}

StoreContents read_store(const std::string& path) {
  const auto failure = [&](const std::string& what) {
    return StoreError{"cannot read the store " + path + ": " + what};
  };
  std::error_code error;
  const auto type = std::filesystem::status(path, error).type();
  if (type == std::filesystem::file_type::not_found) throw failure("there is no such file; give the path of a store");
  if (error) throw failure(error.message());
  if (type == std::filesystem::file_type::directory) throw failure("it is a folder; give the path of a store in it");
  if (type != std::filesystem::file_type::regular) throw failure("it is no regular file; give the path of a store");
  errno = 0;
  std::ifstream file{path, std::ios::binary};
  std::string text;
  if (file) {
    const auto bytes = std::filesystem::file_size(path, error);
    if (error) throw failure(error.message());
    try {
      text.resize(static_cast<std::size_t>(bytes));
    } catch (const std::exception&) {  // std::bad_alloc, std::length_error
      throw failure("its " + std::to_string(bytes) + " bytes do not fit into memory");
    }
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(file.gcount()));
  }
  if (!file.is_open() || file.bad()) throw failure(errno != 0 ? std::strerror(errno) : "reading it failed");
  return parse_store(text, path);
}

}  // namespace mage
