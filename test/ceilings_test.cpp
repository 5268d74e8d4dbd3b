// SPDX-License-Identifier: Apache-2.0
// Bounds from made-up measurements, in the store and on the console; and that the family measures what it says.
#include "bench/ceilings.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>

#include "bench/console.hpp"
#include "bench/store.hpp"
#include "mage_bench/case.hpp"

namespace mage {
namespace {

using Json = nlohmann::ordered_json;

constexpr double l2_bytes = 60e6;

TimedWork timed(const std::string& name, double median_us, const Work& work) {
  return {name, "event", true, false, median_us, work};
}

// Rates that divide well: 4000, 4400, 3600 and 8000 GB/s, 64 TFLOP/s.
const TimedWork dram_copy = timed("c/copy", 250, {0, 5e8, 5e8, Limit::dram_copy});
const TimedWork dram_read = timed("c/read", 250, {0, 1.1e9, 0, Limit::dram_read});
const TimedWork dram_write = timed("c/write", 250, {0, 0, 9e8, Limit::dram_write});
const TimedWork l2_read = timed("c/l2", 64, {0, 5.12e8, 0, Limit::l2_read});
const TimedWork ffma = timed("c/ffma", 500, {3.2e10, 4, 4, Limit::ffma});
const TimedWork empty = timed("c/empty", 2.5, {0, 0, 4, Limit::empty});

/// The ceiling of `one` beside `others`.
std::optional<Ceiling> of(const TimedWork& one,
                          std::vector<TimedWork> others = {dram_copy, dram_read, dram_write, l2_read, ffma, empty}) {
  others.push_back(one);
  return find_ceilings(others, l2_bytes).back();
}

TimedWork in_mode(TimedWork work, const char* mode) {
  work.mode = mode;
  return work;
}

void expect(const std::optional<Ceiling>& got, Limit binds, const char* source, double bound_us, double fraction) {
  ASSERT_TRUE(got);
  EXPECT_EQ(to_string(got->binds), to_string(binds));
  EXPECT_EQ(got->source, source);
  EXPECT_NEAR(got->bound_us, bound_us, 1e-9 * bound_us);
  EXPECT_NEAR(got->fraction, fraction, 1e-9);
  EXPECT_FALSE(got->why.empty());
  EXPECT_EQ(got->why.find('\n'), std::string::npos);
}

TEST(Ceilings, TrafficBeyondL2GoesAtTheRatesOfItsParts) {
  expect(of(timed("f/copy", 50, {0, 8e7, 8e7, {}})), Limit::dram_copy, "c/copy", 40, 0.8);
  expect(of(timed("f/read", 50, {0, 1.76e8, 0, {}})), Limit::dram_read, "c/read", 40, 0.8);
  expect(of(timed("f/write", 50, {0, 0, 1.44e8, {}})), Limit::dram_write, "c/write", 40, 0.8);
  // 8e7 of each direction together, 1.76e8 more that are only read: 40 us each, the copied part first.
  expect(of(timed("f/reads", 100, {0, 8e7 + 2e8, 8e7, {}})), Limit::dram_read, "c/read", 40 + 2e8 / 4.4e6,
         (40 + 2e8 / 4.4e6) / 100);
  expect(of(timed("f/writes", 100, {0, 8e7, 8e7 + 3.6e7, {}})), Limit::dram_copy, "c/copy", 50, 0.5);
}

TEST(Ceilings, WarmDataThatFitsL2GoesAtItsRate) {
  const auto small = timed("f/small", 10, {0, 2e7, 2e7, {}});
  expect(of(small), Limit::l2_read, "c/l2", 5, 0.5);
  const auto edge = timed("f/edge", 10, {0, 3e7, 3e7, {}});
  expect(of(edge), Limit::l2_read, "c/l2", 7.5, 0.75);
  const auto beyond = timed("f/beyond", 20, {0, 3e7, 3e7 + 4, {}});
  EXPECT_EQ(of(beyond)->binds, Limit::dram_copy);
}

TEST(Ceilings, AColdCacheHoldsNothing) {
  const auto cold = in_mode(timed("f/small", 20, {0, 2e7, 2e7, {}}), "event_cold");
  expect(of(cold, {in_mode(dram_copy, "event_cold"), in_mode(l2_read, "event_cold")}), Limit::dram_copy, "c/copy", 10,
         0.5);
}

TEST(Ceilings, ArithmeticAndTheEmptyOperationBindToo) {
  expect(of(timed("f/gemm", 400, {1.28e10, 1e6, 1e6, {}})), Limit::ffma, "c/ffma", 200, 0.5);
  expect(of(timed("f/tiny", 5, {10, 40, 40, {}})), Limit::empty, "c/empty", 2.5, 0.5);
}

TEST(Ceilings, NoWorkIsHeldAgainstTheEmptyOperationOnly) {
  expect(of(timed("f/nothing", 5, {})), Limit::empty, "c/empty", 2.5, 0.5);
  EXPECT_FALSE(of(timed("f/nothing", 5, {}), {dram_copy, ffma}));
}

TEST(Ceilings, AboveOneSaysHow) {
  const auto above = of(timed("f/write", 20, {0, 0, 1.44e8, {}}));
  expect(above, Limit::dram_write, "c/write", 40, 2);
  EXPECT_NE(above->why.find("L2"), std::string::npos) << above->why;
  const auto tensor = of(timed("f/gemm", 100, {1.28e10, 1e6, 1e6, {}}));
  EXPECT_NE(tensor->why.find("tensor cores"), std::string::npos) << tensor->why;
  const auto below = of(timed("f/write", 50, {0, 0, 1.44e8, {}}));
  EXPECT_EQ(below->why.find("faster"), std::string::npos) << below->why;
}

TEST(Ceilings, TheBestOfALimitCounts) {
  auto slower = dram_copy;
  slower.name = "c/slower";
  slower.median_us = 300;
  expect(of(timed("f/copy", 50, {0, 8e7, 8e7, {}}), {slower, dram_copy, slower}), Limit::dram_copy, "c/copy", 40, 0.8);
}

TEST(Ceilings, WhatIsNoLimitHereIsIgnored) {
  const auto copy = timed("f/copy", 50, {0, 8e7, 8e7, {}});
  auto unstable = dram_copy;
  unstable.unstable = true;
  auto on_host = dram_copy;
  on_host.on_gpu = false;
  EXPECT_FALSE(of(copy, {unstable, ffma, empty}));
  EXPECT_FALSE(of(copy, {on_host}));
  EXPECT_FALSE(of(copy, {in_mode(dram_copy, "graph")}));
  EXPECT_FALSE(of(copy, {timed("c/copy", 0, dram_copy.work)}));
  EXPECT_FALSE(of(copy, {}));
  EXPECT_TRUE(of(copy, {unstable, dram_copy}));
}

TEST(Ceilings, AMissingLimitLeavesTheOthersAndIsNamed) {
  const auto both = timed("f/both", 400, {1.28e10, 8e7, 8e7, {}});
  const auto without_ffma = of(both, {dram_copy, empty});
  expect(without_ffma, Limit::dram_copy, "c/copy", 40, 0.1);
  EXPECT_NE(without_ffma->why.find("not measured: ffma"), std::string::npos) << without_ffma->why;
  const auto without_memory = of(both, {ffma, empty});
  expect(without_memory, Limit::ffma, "c/ffma", 200, 0.5);
  EXPECT_NE(without_memory->why.find("not measured: dram_copy"), std::string::npos) << without_memory->why;
  EXPECT_EQ(of(both)->why.find("not measured"), std::string::npos);
  // The rest of the traffic without a rate: a smaller bound, or none where that is most of it.
  const auto little = of(timed("f/reads", 100, {0, 8e7 + 4e3, 8e7, {}}), {dram_copy, empty});
  expect(little, Limit::dram_copy, "c/copy", 40, 0.4);
  EXPECT_NE(little->why.find("not measured: dram_read"), std::string::npos) << little->why;
  EXPECT_FALSE(of(timed("f/reads", 100, {0, 9e8, 8e7, {}}), {dram_copy, empty}));
}

TEST(Ceilings, LimitsThemselvesAndTheHostHaveNone) {
  std::vector<TimedWork> all{dram_copy, l2_read, empty};
  auto on_host = timed("f/host", 50, {0, 8e7, 8e7, {}});
  on_host.on_gpu = false;
  all.push_back(on_host);
  for (const auto& ceiling : find_ceilings(all, l2_bytes)) EXPECT_FALSE(ceiling);
}

TEST(Ceilings, EveryLimitHasItsOwnName) {
  std::set<std::string_view> names;
  for (const auto limit : all_limits) {
    EXPECT_TRUE(names.insert(to_string(limit)).second);
    EXPECT_EQ(parse_limit(to_string(limit)), limit);
  }
  EXPECT_FALSE(parse_limit("?"));
  EXPECT_FALSE(parse_limit(""));
}

Json row(const std::string& name, double us, const Json& work, const char* source = "src/kernels/f/v.cu") {
  const Json block{{"mode", "event"},        {"source", source}, {"round", 0},   {"rounds", 1},
                   {"flags", Json::array()}, {"floor_us", 1.5},  {"work", work}, {"parts_us", Json::object()}};
  return {{"kind", "row"}, {"row", {{"name", name}, {"real_time", us}, {"samples_us", {us}}, {"mage", block}}}};
}

Json work_of(double read, double written, const char* ceiling_of = nullptr) {
  Json work{{"flops", 0.0}, {"bytes_read", read}, {"bytes_written", written}};
  if (ceiling_of != nullptr) work["ceiling_of"] = ceiling_of;
  return work;
}

std::vector<Json> entries() {
  return {{{"kind", "header"},
           {"schema", store_schema},
           {"context", Json::object()},
           {"provenance", Json::object()},
           {"options", Json::object()},
           {"device", {{"l2_bytes", "60000000"}}},
           {"plan", Json::object()}},
          row("f/early/p/event", 50, work_of(8e7, 8e7)),  // before the limit is known
          row("c/v/copy/event", 250, work_of(5e8, 5e8, "dram_copy")),
          row("f/fast/p/event", 32, work_of(8e7, 8e7)),
          row("f/small/p/event", 32, work_of(8, 8)),
          row("f/reference/p/event", 32, work_of(8e7, 8e7), "src/reference/f.cpp"),
          row("c/v/strange/event", 32, work_of(8e7, 8e7, "of_another_version"))};
}

/// The aggregate of that name.
Json aggregate_of(const Json& store, const std::string& name) {
  for (const auto& aggregate : store.at("mage").at("aggregates"))
    if (aggregate.at("name") == name) return aggregate;
  throw std::out_of_range{name};
}

TEST(Ceilings, StandInTheStore) {
  const auto store = assemble_store(entries());
  const auto early = aggregate_of(store, "f/early/p/event");
  EXPECT_EQ(early.at("ceiling").at("binds"), "dram_copy");
  EXPECT_EQ(early.at("ceiling").at("source"), "c/v/copy/event");
  EXPECT_DOUBLE_EQ(early.at("ceiling").at("bound_us").get<double>(), 40);
  EXPECT_DOUBLE_EQ(early.at("ceiling").at("fraction").get<double>(), 0.8);
  const auto has = [](const Json& aggregate) {
    const auto& flags = aggregate.at("flags");
    return std::find(flags.begin(), flags.end(), flag::above_ceiling) != flags.end();
  };
  EXPECT_FALSE(has(early));
  const auto fast = aggregate_of(store, "f/fast/p/event");
  EXPECT_DOUBLE_EQ(fast.at("ceiling").at("fraction").get<double>(), 1.25);
  EXPECT_TRUE(has(fast));
  for (const auto* name : {"c/v/copy/event", "f/small/p/event", "f/reference/p/event"})
    EXPECT_TRUE(aggregate_of(store, name).at("ceiling").is_null()) << name;
}

TEST(Ceilings, AreNotThereWithoutAnyLimit) {
  auto all = entries();
  all.erase(all.begin() + 2);
  const auto store = assemble_store(all);
  for (const auto& aggregate : store.at("mage").at("aggregates"))
    EXPECT_TRUE(aggregate.at("ceiling").is_null()) << aggregate;
}

TEST(Ceilings, AreTheSameFromAJournal) {
  std::vector<Json> read;
  for (const auto& entry : entries()) read.push_back(Json::parse(entry.dump()));
  EXPECT_EQ(assemble_store(read), assemble_store(entries()));
}

TEST(Ceilings, AWrongLimitIsNone) {
  auto all = entries();
  all.push_back(
      {{"kind", "status"}, {"name", "c/v/copy/event"}, {"status", "wrong"}, {"code", nullptr}, {"reason", "because"}});
  EXPECT_TRUE(aggregate_of(assemble_store(all), "f/early/p/event").at("ceiling").is_null());
}

std::string shown(const std::vector<Json>& aggregates) {
  testing::internal::CaptureStdout();
  Console{Color::no}.table("title", aggregates);
  return testing::internal::GetCapturedStdout();
}

TEST(Ceilings, TheConsoleShowsThemAndNeverABareRowAboveOne) {
  const auto store = assemble_store(entries());
  const auto text = shown({aggregate_of(store, "f/early/p/event"), aggregate_of(store, "f/fast/p/event"),
                           aggregate_of(store, "f/small/p/event")});
  EXPECT_NE(text.find("ceiling %"), std::string::npos) << text;
  EXPECT_NE(text.find(" 80.0  "), std::string::npos) << text;
  EXPECT_NE(text.find(" 125.0 b  "), std::string::npos) << text;
  EXPECT_NE(text.find("\nb above_ceiling: "), std::string::npos) << text;
  EXPECT_NE(text.find("f/fast/p/event: 1.6e+08 bytes"), std::string::npos) << text;
  EXPECT_EQ(text.find("f/early/p/event: "), std::string::npos) << text;
  const auto none = shown({aggregate_of(store, "f/small/p/event")});
  EXPECT_EQ(none.find("ceiling"), std::string::npos) << none;
}

const Family& family() { return *find_family("ceiling"); }

Work work(const char* problem) { return family().work(family().parse(problem).value()); }

TEST(CeilingFamily, CountsWhatMoves) {
  EXPECT_EQ(work("copy-512MiB").bytes(), 0x1p30);
  EXPECT_EQ(work("read-16MiB-x32").bytes_read, 0x1p29);
  EXPECT_EQ(work("write-16MiB").bytes_read, 0);
  EXPECT_EQ(work("gather-48MiB-x8").bytes_read, 8.0 * 48 * 0x1p20 + 4.0 * 8 * 48 * 0x1p11);
  EXPECT_EQ(work("ffma-256-x10").flops, 2.0 * 8 * 10 * 256);
  EXPECT_EQ(work("empty-132").bytes() + work("empty-132").flops, 4);
}

TEST(CeilingFamily, MeasuresEveryLimitOnce) {
  std::set<Limit> seen;
  for (const auto& problem : family().bench_problems()) {
    const auto limit = family().work(problem).ceiling_of;
    ASSERT_TRUE(limit) << problem.name;
    EXPECT_TRUE(seen.insert(*limit).second) << problem.name;
  }
  EXPECT_EQ(seen.size(), all_limits.size());
  EXPECT_FALSE(work("read-100MiB").ceiling_of) << "partly in L2, partly not";
}

// What a pass, a pick or a step does must reach the output: one that is left out has to show.
TEST(CeilingFamily, EveryRepetitionChangesTheResult) {
  for (const auto* name : {"read-64KiB", "gather-16KiB", "ffma-100"}) {
    const auto values = [&](const std::string& problem) {
      return Oracle{family(), family().parse(problem).value()}.expected().at(0).value;
    };
    for (int times = 2; times < 6; ++times) {
      const std::string stem{name};
      EXPECT_NE(values(stem + "-x" + std::to_string(times)),
                values(times == 2 ? stem : stem + "-x" + std::to_string(times - 1)))
          << name << " x" << times;
    }
  }
}

// By hand: 5 pieces would be a long sum, one word is its own.
TEST(CeilingFamily, TheReferenceKeepsToItsWords) {
  const Oracle one{family(), family().parse("read-4B").value()};
  std::uint32_t word = 0;
  std::memcpy(&word, one.input(0).data(), sizeof word);
  EXPECT_EQ(one.expected().at(0).value.at(0), (word ^ word >> 30) & 0x3FFFFFFFU);
  const Oracle three{family(), family().parse("read-4B-x3").value()};
  word = std::rotl(word, 2) ^ std::rotl(word, 1) ^ word;
  EXPECT_EQ(three.expected().at(0).value.at(0), (word ^ word >> 30) & 0x3FFFFFFFU);
  // One row: every pick names it, and an even number of it is nothing.
  EXPECT_EQ(Oracle(family(), family().parse("gather-512B-x2").value()).expected().at(0).value.at(0), 0);
  const Oracle chains{family(), family().parse("ffma-1").value()};
  float x = 0, addend = 0;
  std::memcpy(&x, chains.input(0).data(), sizeof x);
  std::memcpy(&addend, chains.input(1).data(), sizeof addend);
  int all = 0;
  for (int k = 0; k < 8; ++k)
    all ^= static_cast<int>(addend * 0x1p20F - static_cast<float>(static_cast<int>(x * 0x1p20F) >> k));
  EXPECT_EQ(chains.expected().at(0).value.at(0), all);
}

TEST(CeilingFamily, RefusesWhatIsNoProblem) {
  for (const auto* text : {"copy",
                           "copy-",
                           "copy-0B",
                           "copy-3B",
                           "copy-16",
                           "copy-16MB",
                           "copy-1024KiB",
                           "copy-4B-x2",
                           "write-4B-x2",
                           "read-4B-x1",
                           "read-4B-x0",
                           "read-4B-x65537",
                           "read-4TiB",
                           "read-2048GiB",
                           "gather-4B",
                           "gather-16GiB",
                           "gather-1GiB-",
                           "ffma-0",
                           "ffma-4B",
                           "ffma-4-x",
                           "empty-0",
                           "empty-1-x2",
                           "empty-2147483648",
                           "empty",
                           "no-4B",
                           "read-99999999999999999999B"})
    EXPECT_FALSE(family().parse(text)) << text;
  EXPECT_TRUE(family().parse("gather-8GiB"));
}

}  // namespace
}  // namespace mage
