// SPDX-License-Identifier: Apache-2.0
// The store reader on files: the committed stores, one of 100,000 rows, the fuzzer's seed, and what is no store.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "bench/store_reader.hpp"
#include "test/support/data.hpp"
#include "test/support/example_store.hpp"

namespace mage::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

class StoreFiles : public testing::Test {
 protected:
  StoreFiles() {
    std::string pattern = (fs::temp_directory_path() / "mage_reader_XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~StoreFiles() override { fs::remove_all(folder_); }
  StoreFiles(const StoreFiles&) = delete;
  StoreFiles& operator=(const StoreFiles&) = delete;

  [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }

  fs::path folder_;
};

TEST_F(StoreFiles, WhatIsNoStoreIsRefusedByName) {
  std::ofstream{path("empty.json")} << "";
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  const auto says = [&](const char* name, const char* what) {
    try {
      static_cast<void>(read_store(path(name)));
      ADD_FAILURE() << name << " was read";
    } catch (const StoreError& error) {
      EXPECT_NE(std::string{error.what()}.find(path(name) + ": " + what), std::string::npos) << error.what();
    }
  };
  says("missing.json", "there is no such file");
  says("empty.json/deeper", "there is no such file");
  says("", "it is a folder");
  says("empty.json", "the file is empty");
  says("pipe", "it is no regular file");
}

// By the library's own tree of the whole file, which shares nothing with the reader but the lexer.
TEST_F(StoreFiles, TheCommittedStoresAreRead) {
  int stores = 0;
  for (const auto& entry : fs::recursive_directory_iterator{fs::path{MAGE_SOURCE_DIR} / "experiments"}) {
    if (entry.path().extension() != ".json") continue;
    SCOPED_TRACE(entry.path().string());
    const auto tree = read_json(entry.path());
    if (!tree.contains("context")) continue;  // what another tool wrote
    ++stores;
    const auto store = read_store(entry.path().string());
    std::map<std::string, std::map<int, double>> expected, found;
    for (const auto& row : tree.at("benchmarks"))
      expected[row.at("name")][row.at("mage").at("round")] = row.at("real_time");
    for (const auto& benchmark : store.benchmarks)
      for (const auto& round : benchmark.rounds) found[benchmark.name][round.round] = round.median_us;
    EXPECT_EQ(found, expected);
    for (const auto& aggregate : tree.at("mage").at("aggregates")) {
      const auto benchmark =
          std::ranges::find(store.benchmarks, aggregate.at("name").get<std::string>(), &StoredBenchmark::name);
      ASSERT_NE(benchmark, store.benchmarks.end());
      auto flags = aggregate.at("flags").get<std::vector<std::string>>();
      std::ranges::sort(flags);
      EXPECT_EQ(benchmark->flags, flags);
      EXPECT_EQ(benchmark->part_medians_us, (aggregate.at("part_medians_us").get<std::map<std::string, double>>()));
    }
    EXPECT_EQ(store.absences.size(), tree.at("mage").at("unavailable").size() + tree.at("mage").at("failed").size());
    EXPECT_EQ(store.floors.empty(), tree.at("benchmarks").empty()) << "a self-test has neither";
    EXPECT_EQ(store.complete, tree.at("mage").at("complete"));
  }
  EXPECT_GE(stores, 5);
}

TEST_F(StoreFiles, TheFuzzersSeedIsTheExample) {
  const auto seed = fs::path{MAGE_SOURCE_DIR} / "test" / "fuzz" / "seeds" / "store.json";
  EXPECT_TRUE(read_file(seed) == example_store().dump() + '\n')
      << "the example has changed: write it to " << seed << " anew\n"
      << example_store().dump();
}

/// `text` with each mark in it replaced by its value.
std::string filled(std::string text, const std::vector<std::pair<std::string_view, std::string>>& values) {
  for (const auto& [mark, value] : values)
    for (auto at = text.find(mark); at != std::string::npos; at = text.find(mark, at + value.size()))
      text.replace(at, mark.size(), value);
  return text;
}

/// A store of `benchmarks` x `rounds` rows, of about a real row's fields and size.
void write_large_store(const std::string& file, int benchmarks, int rounds) {
  auto store = example_store();
  auto row = store["benchmarks"][0];
  const Json samples = std::vector<double>(10, 4.123456789);
  row["name"] = row["run_name"] = "copy/v@V/64x1024/event";
  row["real_time"] = "@T";
  row["samples_us"] = samples;
  for (const char* counter : {"samples", "mad_us", "min_us", "p10_us", "p90_us", "p99_us", "gbytes_per_s", "tflops"})
    row[counter] = 1234.5678901234;
  auto& block = row["mage"];
  block["variant"] = "v@V";
  block["round"] = "@R";
  block["rounds"] = rounds;
  block["inputs_sha256"] = std::string(64, 'a');
  block["source"] = "src/kernels/copy/v01_unrolled.cu";
  block["parts_us"] = {{"span_n_us", samples}, {"span_2n_us", samples}, {"enqueue_2n_us", samples}};
  for (const char* figure : {"sm_mhz_before", "sm_mhz_after", "host_us_begin", "host_us_end", "drift"})
    block[figure] = 123456789.123;
  auto aggregate = store["mage"]["aggregates"][0];
  aggregate["name"] = row["name"];
  aggregate["rounds"] = aggregate["rounds_planned"] = rounds;

  const auto row_text = filled(row.dump(), {{"\"@T\"", "@T"}, {"\"@R\"", "@R"}});
  std::string rows, aggregates;
  for (int variant = 0; variant < benchmarks; ++variant) {
    const auto v = std::to_string(variant);
    aggregates += (variant == 0 ? "" : ",\n") + filled(aggregate.dump(), {{"@V", v}});
    for (int round = 0; round < rounds; ++round)
      rows += (rows.empty() ? "" : ",\n") +
              filled(row_text, {{"@V", v}, {"@T", std::to_string(variant + 1) + ".5"}, {"@R", std::to_string(round)}});
  }
  store["benchmarks"] = "@ROWS";
  store["mage"]["aggregates"] = "@AGGREGATES";
  std::ofstream{file} << filled(store.dump(),
                                {{"\"@ROWS\"", '[' + rows + ']'}, {"\"@AGGREGATES\"", '[' + aggregates + ']'}});
}

/// A figure of /proc/self/status in bytes.
std::size_t memory_bytes(std::string_view figure) {
  std::ifstream status{"/proc/self/status"};
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(figure)) return 1024 * std::stoul(line.substr(figure.size()));
  throw std::runtime_error{"/proc/self/status has no " + std::string{figure}};
}

TEST_F(StoreFiles, AHundredThousandRowsTakeSecondsAndLittleMemory) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "a sanitizer multiplies time and memory";
#endif
  constexpr int benchmarks = 2000, rounds = 50;
  const auto file = path("large.json");
  write_large_store(file, benchmarks, rounds);
  EXPECT_GT(fs::file_size(file), 100'000'000U) << "smaller than the real one";

  std::ofstream{"/proc/self/clear_refs"} << '5';  // the peak begins anew; where that is not allowed it is only higher
  const auto before = memory_bytes("VmRSS:");
  const auto begin = std::clock();  // of this process: other tests run beside it
  const auto store = read_store(file);
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  EXPECT_LT(seconds, 5);
  EXPECT_LT(memory_bytes("VmHWM:"), before + (std::size_t{1} << 30U));

  ASSERT_EQ(store.benchmarks.size(), static_cast<std::size_t>(benchmarks));
  for (const auto& benchmark : store.benchmarks) {
    ASSERT_EQ(benchmark.rounds.size(), static_cast<std::size_t>(rounds));
    ASSERT_EQ(benchmark.rounds.back().round, rounds - 1);
    ASSERT_EQ(benchmark.rounds.back().median_us, std::stod(benchmark.variant.substr(1)) + 1.5);
  }
  std::printf("%.0f MB in %.2f s, %.0f MB of memory\n", static_cast<double>(fs::file_size(file)) / 1e6, seconds,
              static_cast<double>(memory_bytes("VmHWM:") - before) / 1e6);
}

}  // namespace
}  // namespace mage::test
