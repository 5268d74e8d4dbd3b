// SPDX-License-Identifier: Apache-2.0
// From journal entries to a store: which rows reach it, what is withheld, and what files do under bad conditions.
#include "bench/store.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "bench/journal.hpp"

namespace mage {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

Json header() {
  return {{"kind", "header"},
          {"schema", store_schema},
          {"context", {{"date", "today"}}},
          {"provenance", {{"run_id", "ab"}}},
          {"options", Json::object()},
          {"device", nullptr},
          {"plan", Json::object()}};
}

Json row(const std::string& name, int round, double us, int rounds = 2) {
  Json block{{"round", round},
             {"rounds", rounds},
             {"flags", Json::array()},
             {"floor_us", 1.5},
             {"work", {{"flops", 4e6}, {"bytes_read", 6e3}, {"bytes_written", 4e3}}},
             {"parts_us", {{"submit_us", {1.0, 2.0, 9.0}}}}};
  return {{"kind", "row"},
          {"row",
           {{"name", name},
            {"run_name", name},
            {"repetition_index", round},
            {"real_time", us},
            {"time_unit", "us"},
            {"samples_us", {us, us, us}},
            {"mage", block}}}};
}

Json status(const std::string& name, const std::string& what) {
  return {{"kind", "status"}, {"name", name}, {"status", what}, {"code", nullptr}, {"reason", "because"}};
}

Json gate_after(const std::string& name, bool ok) {
  return {{"kind", "gate"}, {"name", name}, {"when", "after"}, {"ok", ok}};
}

Json end(bool interrupted) { return {{"kind", "end"}, {"interrupted", interrupted}}; }

class FolderTest : public testing::Test {
 protected:
  FolderTest() {
    std::string pattern = (fs::temp_directory_path() / "mage_store_XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~FolderTest() override { fs::remove_all(folder_); }
  FolderTest(const FolderTest&) = delete;
  FolderTest& operator=(const FolderTest&) = delete;

  [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }
  static std::string read(const std::string& file) {
    std::ifstream stream{file};
    return {std::istreambuf_iterator<char>{stream}, {}};
  }
  static void write(const std::string& file, const std::string& text) { std::ofstream{file} << text; }

  fs::path folder_;
};

TEST(Store, HoldsRowsThatPassedBothGates) {
  const auto store = assemble_store(
      {header(), row("f/v/p/host", 0, 10), row("f/v/p/host", 1, 12), gate_after("f/v/p/host", true), end(false)});
  ASSERT_EQ(store.at("benchmarks").size(), 2U);
  EXPECT_EQ(store.at("benchmarks")[1].at("samples_us").size(), 3U);
  EXPECT_TRUE(store.at("benchmarks")[0].at("mage").at("flags").empty());
  EXPECT_EQ(store.at("mage").at("complete"), true);
  EXPECT_EQ(store.at("mage").at("schema"), store_schema);
  EXPECT_EQ(store.at("context").at("date"), "today");
}

TEST(Store, NamesTheProtocolOfItsJournal) {
  EXPECT_EQ(assemble_store({header()}).at("mage").at("protocol"), 1) << "a journal that does not say";
  auto saying = header();
  saying["protocol"] = measuring_protocol;
  EXPECT_EQ(assemble_store({saying}).at("mage").at("protocol"), measuring_protocol);
  for (const auto& wrong : {Json(0), Json(-1), Json(measuring_protocol + 1), Json(1.5), Json(1e300), Json(4294967297),
                            Json(~std::uint64_t{0}), Json(true), Json("2"), Json(nullptr), Json::array({2})}) {
    saying["protocol"] = wrong;
    EXPECT_THROW(static_cast<void>(assemble_store({saying})), std::runtime_error) << wrong;
  }
}

TEST(Store, AWrongVariantHasNoTime) {
  const auto store =
      assemble_store({header(), row("f/v/p/host", 0, 10), row("f/w/p/host", 0, 5), gate_after("f/v/p/host", true),
                      gate_after("f/w/p/host", false), status("f/w/p/host", "wrong"), end(false)});
  ASSERT_EQ(store.at("benchmarks").size(), 1U);
  EXPECT_EQ(store.at("benchmarks")[0].at("name"), "f/v/p/host");
  ASSERT_EQ(store.at("mage").at("failed").size(), 1U);
  EXPECT_EQ(store.at("mage").at("failed")[0].at("rounds_withheld"), 1);
  EXPECT_EQ(store.at("mage").at("failed")[0].at("reason"), "because");
  EXPECT_EQ(store.at("mage").at("aggregates").size(), 1U);
}

TEST(Store, UnavailableAndUnsupportedStandApartFromFailures) {
  const auto store =
      assemble_store({header(), status("a/b/c/event", "unavailable"), status("a/d/c/event", "unsupported"),
                      status("a/e/c/event", "failed"), end(false)});
  EXPECT_TRUE(store.at("benchmarks").empty());
  EXPECT_EQ(store.at("mage").at("unavailable").size(), 2U);
  EXPECT_EQ(store.at("mage").at("failed").size(), 1U);
}

TEST(Store, RowsWithoutTheClosingGateSaySo) {
  const auto store = assemble_store({header(), row("f/v/p/host", 0, 10), end(true)});
  EXPECT_EQ(store.at("benchmarks")[0].at("mage").at("flags"), Json::array({flag::unverified_after}));
  EXPECT_EQ(store.at("mage").at("complete"), false);
  const auto flags = store.at("mage").at("aggregates")[0].at("flags");
  EXPECT_EQ(flags, Json::array({flag::unverified_after, flag::missing_rounds}));
}

TEST(Store, AggregatesAreOverRoundMedians) {
  const auto store = assemble_store({header(), row("f/v/p/host", 0, 10, 3), row("f/v/p/host", 1, 20, 3),
                                     row("f/v/p/host", 2, 12, 3), gate_after("f/v/p/host", true), end(false)});
  const auto& aggregate = store.at("mage").at("aggregates")[0];
  EXPECT_EQ(aggregate.at("median_us"), 12.0);
  EXPECT_EQ(aggregate.at("rounds"), 3);
  EXPECT_EQ(aggregate.at("samples"), 9);
  EXPECT_EQ(aggregate.at("floor_us"), 1.5);
  EXPECT_EQ(aggregate.at("min_round_us"), 10.0);
  EXPECT_EQ(aggregate.at("max_round_us"), 20.0);
  EXPECT_EQ(aggregate.at("part_medians_us").at("submit_us"), 2.0);
  EXPECT_NEAR(aggregate.at("gbytes_per_s").get<double>(), 1e4 / 12e-6 / 1e9, 1e-9);
  EXPECT_NEAR(aggregate.at("tflops").get<double>(), 4e6 / 12e-6 / 1e12, 1e-9);
  EXPECT_LT(aggregate.at("interval95_us")[0].get<double>(), 12.0);
  EXPECT_GT(aggregate.at("interval95_us")[1].get<double>(), 12.0);
}

TEST(Store, AnIntervalIsNeverNarrowerThanTheClocksStep) {
  auto first = row("f/v/p/event", 0, 10);
  auto second = row("f/v/p/event", 1, 10);
  first["row"]["mage"]["quantum_us"] = 0.032;
  second["row"]["mage"]["quantum_us"] = 0.032;
  const auto store = assemble_store({header(), first, second, gate_after("f/v/p/event", true), end(false)});
  const auto& interval = store.at("mage").at("aggregates")[0].at("interval95_us");
  EXPECT_DOUBLE_EQ(interval[0].get<double>(), 9.984);
  EXPECT_DOUBLE_EQ(interval[1].get<double>(), 10.016);
}

TEST(Store, AThroughputAboveTheMemorysPeakIsMarked) {
  auto fast = row("f/v/p/event", 0, 10);  // 10,000 bytes in 10 us are 1 GB/s
  fast["row"]["mage"]["peak_gbytes_per_s"] = 0.9;
  auto slow = row("f/w/p/event", 0, 10);
  slow["row"]["mage"]["peak_gbytes_per_s"] = 1.1;
  const auto store = assemble_store({header(), fast, slow, end(false)});
  const auto has = [](const Json& aggregate) {
    const auto& flags = aggregate.at("flags");
    return std::find(flags.begin(), flags.end(), flag::above_dram_peak) != flags.end();
  };
  EXPECT_TRUE(has(store.at("mage").at("aggregates")[0]));
  EXPECT_FALSE(has(store.at("mage").at("aggregates")[1]));
}

TEST(Store, UnstableRoundsMakeARowUnstableOnlyAboveAFifth) {
  for (const int unstable : {2, 3}) {
    std::vector<Json> entries{header()};
    for (int round = 0; round < 10; ++round) {
      entries.push_back(row("f/v/p/event", round, 10, 10));
      if (round < unstable) entries.back()["row"]["mage"]["flags"].push_back(flag::unstable);
    }
    entries.push_back(gate_after("f/v/p/event", true));
    const auto flags = assemble_store(entries).at("mage").at("aggregates")[0].at("flags");
    EXPECT_EQ(flags, unstable == 3 ? Json::array({flag::unstable}) : Json::array()) << unstable;
  }
}

TEST(Store, OneRoundHasNoInterval) {
  const auto store =
      assemble_store({header(), row("f/v/p/host", 0, 10, 1), gate_after("f/v/p/host", true), end(false)});
  EXPECT_TRUE(store.at("mage").at("aggregates")[0].at("interval95_us").is_null());
}

TEST(Store, WithoutAHeaderThereIsNoStore) {
  EXPECT_THROW(static_cast<void>(assemble_store({})), std::runtime_error);
  EXPECT_THROW(static_cast<void>(assemble_store({end(false)})), std::runtime_error);
}

TEST(Store, PathsBelongTogether) {
  const auto store = default_store_path("2026-01-02T03:04:05Z", "0123456789abcdef");
  EXPECT_EQ(store, "results/20260102T030405Z-01234567.json");
  EXPECT_EQ(store_path_of(journal_path(store)), store);
  EXPECT_THROW(static_cast<void>(store_path_of("results/a.json")), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(store_path_of(".journal.jsonl")), std::invalid_argument);
}

TEST_F(FolderTest, AStoreIsStrictJsonAndLeavesNoTemporary) {
  const auto store = assemble_store({header(), row("f/v/p/host", 0, 10), end(false)});
  write_store(path("a.json"), store, false);
  EXPECT_EQ(Json::parse(read(path("a.json"))), store);
  EXPECT_EQ(std::distance(fs::directory_iterator{folder_}, fs::directory_iterator{}), 1);
}

TEST_F(FolderTest, BytesThatAreNoUtf8CostNothing) {
  auto strange = header();
  strange["context"]["caller"] =
      "a\xff"
      "b";
  Journal journal{path("a.journal.jsonl")};
  journal.append(strange);
  const auto contents = read_journal(journal.path());
  EXPECT_EQ(contents.entries.at(0).at("context").at("caller"),
            "a\xEF\xBF\xBD"
            "b");
  strange["kind"] = "header";
  write_store(path("a.json"), assemble_store({strange, end(false)}), false);
  EXPECT_TRUE(Json::accept(read(path("a.json"))));
}

TEST_F(FolderTest, AnExistingStoreIsNeverOverwrittenUnasked) {
  write(path("a.json"), "precious");
  EXPECT_THROW(write_store(path("a.json"), header(), false), std::runtime_error);
  EXPECT_EQ(read(path("a.json")), "precious");
  EXPECT_EQ(std::distance(fs::directory_iterator{folder_}, fs::directory_iterator{}), 1);
  write_store(path("a.json"), header(), true);
  EXPECT_EQ(Json::parse(read(path("a.json"))), header());
}

TEST_F(FolderTest, AnUnwritableFolderIsAClearError) {
  try {
    write_store(path("missing/a.json"), header(), false);
    FAIL() << "must throw";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string{error.what()}.find("missing/a.json"), std::string::npos) << error.what();
  }
}

TEST_F(FolderTest, AJournalGivesBackWhatItTook) {
  {
    Journal journal{path("a.journal.jsonl")};
    journal.append(header());
    journal.append(row("f/v/p/host", 0, 10));
    // Before it is closed: that is what a kill leaves behind.
    EXPECT_EQ(read_journal(journal.path()).entries.size(), 2U);
  }
  const auto contents = read_journal(path("a.journal.jsonl"));
  EXPECT_TRUE(contents.damaged_lines.empty());
  EXPECT_EQ(contents.entries[0], header());
  EXPECT_EQ(contents.entries[1], row("f/v/p/host", 0, 10));
}

TEST_F(FolderTest, AJournalIsBeingWrittenAsLongAsItIsOpen) {
  {
    const Journal journal{path("a.journal.jsonl")};
    EXPECT_TRUE(is_being_written(journal.path()));
    EXPECT_TRUE(is_being_written(journal.path())) << "asking changes nothing";
  }
  EXPECT_FALSE(is_being_written(path("a.journal.jsonl")));
  EXPECT_FALSE(is_being_written(path("missing")));
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_FALSE(is_being_written(path("pipe"))) << "opening it must not wait for a writer";
}

TEST_F(FolderTest, AnExistingJournalIsNotTouched) {
  write(path("a.journal.jsonl"), "old\n");
  try {
    const Journal journal{path("a.journal.jsonl")};
    FAIL() << "must throw";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string{error.what()}.find("--mage_recover"), std::string::npos) << error.what();
  }
  EXPECT_EQ(read(path("a.journal.jsonl")), "old\n");
}

TEST_F(FolderTest, ATruncatedJournalGivesAllWholeLines) {
  const auto whole = header().dump() + "\n" + row("f/v/p/host", 0, 10).dump() + "\n";
  const auto last = row("f/v/p/host", 1, 11).dump();
  for (const std::size_t cut : {std::size_t{1}, last.size() / 2, last.size() - 1}) {
    write(path("cut"), whole + last.substr(0, cut));
    const auto contents = read_journal(path("cut"));
    EXPECT_EQ(contents.damaged_lines, std::vector<int>{3}) << cut;
    EXPECT_EQ(contents.entries.size(), 2U) << cut;
    EXPECT_EQ(assemble_store(contents.entries).at("benchmarks").size(), 1U);
  }
  write(path("cut"), whole + last);  // only the newline is missing
  EXPECT_EQ(read_journal(path("cut")).entries.size(), 3U);
}

TEST_F(FolderTest, ADamagedLineCostsItselfOnly) {
  write(path("hit"),
        header().dump() + "\n" + std::string(40, '\0') + "\n" + row("f/v/p/host", 0, 10).dump() + "\n{}\n");
  const auto contents = read_journal(path("hit"));
  EXPECT_EQ(contents.damaged_lines, (std::vector<int>{2, 4}));
  EXPECT_EQ(contents.lines, (std::vector<int>{1, 3}));
  EXPECT_EQ(assemble_store(contents.entries).at("benchmarks").size(), 1U);
}

TEST_F(FolderTest, ALineThatIsNestedWithoutEndIsDamage) {
  const std::string deep(100000, '[');
  write(path("deep"), header().dump() + "\n{\"kind\":\"row\",\"row\":" + deep + std::string(deep.size(), ']') + "}\n");
  EXPECT_EQ(read_journal(path("deep")).damaged_lines, std::vector<int>{2});
}

TEST_F(FolderTest, WhatIsNoRegularFileIsNoPlaceForAStore) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  fs::create_symlink("nowhere", path("link"));
  for (const auto* name : {"pipe", "link"}) EXPECT_THROW(prepare_folder_of(path(name)), std::runtime_error) << name;
  EXPECT_THROW(prepare_folder_of("/dev/null"), std::runtime_error);
  EXPECT_THROW(static_cast<void>(read_journal(path("pipe"))), std::runtime_error) << "reading it would wait for ever";
  EXPECT_NO_THROW(prepare_folder_of(path("new/a.json")));
  EXPECT_TRUE(fs::is_directory(path("new")));
}

TEST_F(FolderTest, WhatIsNoJournalIsRefused) {
  for (const auto* text : {"", "\n", "{}\n", "[1,2]\n", "{\"kind\":\"row\"}\n", "{\"kind\":\"header\"", "hello\n"}) {
    write(path("not"), text);
    EXPECT_THROW(static_cast<void>(read_journal(path("not"))), std::runtime_error) << text;
  }
  EXPECT_THROW(static_cast<void>(read_journal(path("absent"))), std::runtime_error);
}

}  // namespace
}  // namespace mage
