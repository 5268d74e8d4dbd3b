// SPDX-License-Identifier: Apache-2.0
#include "bench/options.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace mage {
namespace {

ParsedOptions parse(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "mage_bench");
  return parse_options(arguments);
}

/// Expects a usage error whose message holds `fragment`.
void expect_refused(const std::vector<std::string>& arguments, const std::string& fragment) {
  const auto parsed = parse(arguments);
  EXPECT_FALSE(parsed.options) << arguments.front();
  EXPECT_EQ(parsed.exit, exit_code::usage);
  EXPECT_NE(parsed.message.find(fragment), std::string::npos) << parsed.message;
}

TEST(Options, DefaultsAreTheProtocol) {
  const auto parsed = parse({});
  ASSERT_TRUE(parsed.options) << parsed.message;
  const auto& options = *parsed.options;
  EXPECT_EQ(options.filter, ".");
  EXPECT_EQ(options.modes.size(), all_modes.size());
  EXPECT_EQ(options.rounds, 0);
  EXPECT_EQ(options.samples, 0);
  EXPECT_EQ(options.seed, 1U);
  EXPECT_DOUBLE_EQ(options.round_budget_s, 0.15);
  EXPECT_FALSE(options.list);
  EXPECT_FALSE(options.dry_run || options.verify_only || options.require_gpu || options.overwrite);
}

TEST(Options, ReadsEveryFlag) {
  const auto parsed =
      parse({"--benchmark_filter=gelu", "--benchmark_out=a.json", "--benchmark_context=a=1,b=2",
             "--mage_modes=event,host,event", "--mage_rounds=7", "--mage_samples=3", "--mage_seed=18446744073709551615",
             "--mage_round_budget=1.5", "--mage_max_bytes=2MiB", "--mage_device=1", "--mage_dry_run",
             "--mage_require_gpu", "--mage_overwrite", "--mage_problem=gelu/1x1", "--mage_problem=gelu/2x2"});
  ASSERT_TRUE(parsed.options) << parsed.message;
  const auto& options = *parsed.options;
  EXPECT_EQ(options.filter, "gelu");
  EXPECT_EQ(options.out, "a.json");
  EXPECT_EQ(options.context, (std::map<std::string, std::string>{{"a", "1"}, {"b", "2"}}));
  EXPECT_EQ(options.modes, (std::vector<TimingMode>{TimingMode::event, TimingMode::host}));
  EXPECT_EQ(options.rounds, 7);
  EXPECT_EQ(options.samples, 3);
  EXPECT_EQ(options.seed, 18446744073709551615U);
  EXPECT_DOUBLE_EQ(options.round_budget_s, 1.5);
  EXPECT_EQ(options.max_bytes, 2U << 20U);
  EXPECT_EQ(options.device, 1);
  EXPECT_TRUE(options.dry_run && options.require_gpu && options.overwrite);
  EXPECT_TRUE(parse({"--mage_verify_only"}).options->verify_only);
  EXPECT_EQ(options.problems, (std::vector<std::string>{"gelu/1x1", "gelu/2x2"}));
}

TEST(Options, ListsAsTextOrJson) {
  EXPECT_EQ(parse({"--mage_list"}).options->list, ListFormat::text);
  EXPECT_EQ(parse({"--mage_list=json"}).options->list, ListFormat::json);
  EXPECT_EQ(parse({"--benchmark_list_tests"}).options->list, ListFormat::names);
  EXPECT_EQ(parse({"--benchmark_list_tests=true"}).options->list, ListFormat::names);
  EXPECT_FALSE(parse({"--benchmark_list_tests=false"}).options->list);
  expect_refused({"--mage_list=xml"}, "xml");
}

TEST(Options, OneRunIsOneAction) {
  const std::vector<std::string> actions{"--mage_list", "--mage_dry_run", "--mage_verify_only", "--mage_recover=x",
                                         "--mage_selftest"};
  for (const auto& one : actions) {
    EXPECT_TRUE(parse({one}).options) << one;
    for (const auto& other : actions)
      if (one != other) expect_refused({one, other}, "excludes");
  }
  expect_refused({"--benchmark_list_tests", "--mage_recover=x"}, "excludes");
  expect_refused({"--benchmark_list_tests", "--mage_dry_run"}, "excludes");
  EXPECT_TRUE(parse({"--mage_list=json", "--benchmark_list_tests"}).options) << "one list";
  EXPECT_TRUE(parse({"--mage_dry_run", "--no_benchmark_list_tests"}).options);
  EXPECT_TRUE(parse({"--mage_dry_run", "--benchmark_list_tests=false"}).options);
}

TEST(Options, TheContextOfTheRunItselfIsRefused) {
  for (const auto* key : {"date", "load_avg", "library_build_type", "mage_schema", "mage_run_id", "mage_of_the_future"})
    expect_refused({"--benchmark_context=" + std::string{key} + "=5"},
                   "key '" + std::string{key} + "' is the run's own; choose another");
  EXPECT_TRUE(parse({"--benchmark_context=my_date=5"}).options);
}

TEST(Options, HelpNamesEveryFlagOfOurs) {
  const auto parsed = parse({"--help"});
  EXPECT_FALSE(parsed.options);
  EXPECT_EQ(parsed.exit, 0);
  for (const auto* flag :
       {"--benchmark_filter", "--benchmark_out", "--mage_rounds", "--mage_samples", "--mage_seed", "--mage_modes",
        "--mage_list", "--mage_dry_run", "--mage_verify_only", "--mage_require_gpu", "--mage_device",
        "--mage_max_bytes", "--mage_round_budget", "--mage_recover", "--mage_overwrite", "Exit codes"})
    EXPECT_NE(parsed.message.find(flag), std::string::npos) << flag;
}

TEST(Options, RefusesLibraryFlagsThatBreakTheProtocolAndSaysWhy) {
  expect_refused({"--benchmark_repetitions=3"}, "rounds are the independent unit");
  expect_refused({"--benchmark_enable_random_interleaving=true"}, "shuffle");
  expect_refused({"--benchmark_enable_random_interleaving"}, "shuffle");
  expect_refused({"--benchmark_min_time=0.5s"}, "--mage_samples");
  expect_refused({"--benchmark_out_format=csv"}, "JSON");
  expect_refused({"--benchmark_format=json"}, "store");
  expect_refused({"--benchmark_min_warmup_time=1"}, "settles");
  expect_refused({"--benchmark_report_aggregates_only=true"}, "every sample");
}

TEST(Options, RefusesTheSameThroughTheEnvironment) {
  ::setenv("BENCHMARK_REPETITIONS", "3", 1);
  expect_refused({}, "rounds are the independent unit");
  ::unsetenv("BENCHMARK_REPETITIONS");
}

TEST(Options, TakesFilterAndStoreFromTheEnvironment) {
  ::setenv("BENCHMARK_FILTER", "copy", 1);
  ::setenv("BENCHMARK_OUT", "x.json", 1);
  const auto parsed = parse({});
  ::unsetenv("BENCHMARK_FILTER");
  ::unsetenv("BENCHMARK_OUT");
  ASSERT_TRUE(parsed.options) << parsed.message;
  EXPECT_EQ(parsed.options->filter, "copy");
  EXPECT_EQ(parsed.options->out, "x.json");
}

TEST(Options, RefusesWhatItCannotMean) {
  expect_refused({"--mage_round=3"}, "--mage_round");
  expect_refused({"gelu"}, "gelu");
  expect_refused({"--mage_modes=event,quick"}, "quick");
  expect_refused({"--mage_rounds=0"}, "--mage_rounds");
  expect_refused({"--mage_rounds=-1"}, "--mage_rounds");
  expect_refused({"--mage_rounds=ten"}, "--mage_rounds");
  expect_refused({"--mage_samples=0"}, "--mage_samples");
  expect_refused({"--mage_seed=-1"}, "--mage_seed");
  expect_refused({"--mage_seed=18446744073709551616"}, "--mage_seed");
  expect_refused({"--mage_seed=1.5"}, "--mage_seed");
  expect_refused({"--mage_max_bytes=-5"}, "--mage_max_bytes");
  expect_refused({"--mage_round_budget=0"}, "--mage_round_budget");
  expect_refused({"--mage_round_budget=nan"}, "--mage_round_budget");
  expect_refused({"--mage_admission_deadline=nan"}, "--mage_admission_deadline");
  expect_refused({"--mage_max_bytes=much"}, "--mage_max_bytes");
  expect_refused({"--mage_max_bytes=0"}, "--mage_max_bytes");
  expect_refused({"--mage_device=-1"}, "--mage_device");
  expect_refused({"--benchmark_filter=", "--mage_dry_run"}, "has no value");
  expect_refused({"--benchmark_out="}, "has no value");
  expect_refused({"--mage_recover", ""}, "names no journal");
  expect_refused({"--benchmark_filter=" + std::string(100000, 'a')}, "1000 characters");
  expect_refused({"--benchmark_filter=("}, "regular expression");
  expect_refused({"--benchmark_context=novalue"}, "key=value");
  expect_refused({"--benchmark_color=blue"}, "blue");
}

}  // namespace
}  // namespace mage
