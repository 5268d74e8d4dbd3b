// SPDX-License-Identifier: Apache-2.0
#include "bench/options.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <regex>
#include <utility>

#include "bench/samplers.hpp"

namespace mage {
namespace {

/// Flags of Google Benchmark that would break the protocol, by flag and by environment variable.
struct Refused {
  const char* flag;
  const char* why;
};
constexpr std::array refused{
    Refused{"benchmark_repetitions", "rounds are the independent unit and their order is balanced: use --mage_rounds"},
    Refused{"benchmark_enable_random_interleaving",
            "the library's shuffle is unseeded and unrecorded; rounds are already interleaved, see --mage_seed"},
    Refused{"benchmark_min_time", "iterations are not grown until a time: use --mage_samples and --mage_round_budget"},
    Refused{"benchmark_min_warmup_time", "each round settles the clock and warms the caches by its own protocol"},
    Refused{"benchmark_report_aggregates_only", "every sample is kept; aggregates stand in the store's mage block"},
    Refused{"benchmark_display_aggregates_only", "the console shows one row a fixture already"},
    Refused{"benchmark_format", "the store is JSON and the console a table: read the store, or use --benchmark_out"},
    Refused{"benchmark_out_format", "the store is Benchmark's JSON; another format would lose the samples"},
    Refused{"benchmark_counters_tabular", "the console's columns are fixed; the counters stand in the store"},
    Refused{"benchmark_perf_counters",
            "counters around a sample would change it: run ncu or perf around one benchmark"},
    Refused{"benchmark_time_unit", "all times are microseconds, in the console and in the store"},
    Refused{"benchmark_dry_run", "use --mage_dry_run"},
};

std::string environment_name(std::string_view flag) {
  std::string name{flag};
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::toupper(c); });
  return name;
}

/// "event, event_cold, ...", with each mode's number of samples where asked for.
std::string mode_list(bool with_samples) {
  std::string text;
  for (const auto mode : all_modes) {
    text += (text.empty() ? "" : ", ") + std::string{to_string(mode)};
    if (with_samples) text += " " + std::to_string(default_samples(mode));
  }
  return text;
}

std::vector<TimingMode> parse_modes(const std::vector<std::string>& names) {
  std::vector<TimingMode> modes;
  for (const auto& name : names) {
    const auto mode = parse_mode(name);
    if (!mode)
      throw CLI::ValidationError{"--mage_modes", "'" + name + "' is no timing mode; choose from " + mode_list(false)};
    if (std::find(modes.begin(), modes.end(), *mode) == modes.end()) modes.push_back(*mode);
  }
  return modes;
}

/// Keys of the context that the run writes itself: Google Benchmark's, beside all that begin with mage_.
constexpr std::array own_context{"date",        "host_name",           "executable",         "num_cpus",
                                 "mhz_per_cpu", "cpu_scaling_enabled", "aslr_enabled",       "caches",
                                 "load_avg",    "library_version",     "library_build_type", "json_schema_version"};

std::map<std::string, std::string> parse_context(const std::vector<std::string>& pairs) {
  std::map<std::string, std::string> context;
  for (const auto& pair : pairs) {
    const auto equals = pair.find('=');
    if (equals == 0 || equals == std::string::npos)
      throw CLI::ValidationError{"--benchmark_context", "'" + pair + "' is not of the form key=value"};
    const auto key = pair.substr(0, equals);
    if (key.starts_with("mage_") || std::find(own_context.begin(), own_context.end(), key) != own_context.end())
      throw CLI::ValidationError{"--benchmark_context", "key '" + key + "' is the run's own; choose another"};
    if (!context.emplace(key, pair.substr(equals + 1)).second)
      throw CLI::ValidationError{"--benchmark_context", "key '" + key + "' is given twice"};
  }
  return context;
}

/// CLI11 takes the next argument for the value of a flag that ends in '=', and so would drop a flag without a word.
void refuse_empty_values(const std::vector<std::string>& argv) {
  for (const auto& argument : argv)
    if (argument.starts_with("--") && argument.find('=') == argument.size() - 1)
      throw CLI::ValidationError{argument, "has no value; leave the flag out or give it one"};
}

void check_filter(const std::string& filter) {
  constexpr std::size_t longest = 1000;  // std::regex recurses a level a character
  if (filter.size() > longest)
    throw CLI::ValidationError{"--benchmark_filter", "has more than 1000 characters; name fewer benchmarks"};
  try {
    static_cast<void>(std::regex{filter.starts_with('-') ? filter.substr(1) : filter});
  } catch (const std::regex_error& error) {
    throw CLI::ValidationError{"--benchmark_filter", "'" + filter + "' is no regular expression: " + error.what()};
  }
}

/// Digits only, within 64 bits: CLI11 wraps a sign and saturates what is too large.
std::string whole_number(const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc{} && end == text.data() + text.size()) return {};
  return "'" + text + "' is no whole number from 0 to 18446744073709551615";
}

/// The parts of "a,b"; an empty one is an error.
std::vector<std::string> parse_proofs(const std::string& list) {
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin <= list.size();) {
    const auto end = std::min(list.find(',', begin), list.size());
    names.push_back(list.substr(begin, end - begin));
    if (names.back().empty())
      throw CLI::ValidationError{"--mage_selftest", "'" + list + "' names an empty proof; write NAME or NAME,NAME"};
    begin = end + 1;
  }
  return names;
}

/// One run does one thing. `actions` are flags and whether each is given.
void refuse_two(std::initializer_list<std::pair<const char*, bool>> actions) {
  const char* first = nullptr;
  for (const auto& [flag, given] : actions) {
    if (!given) continue;
    if (first != nullptr) throw CLI::ExcludesError{first, flag};
    first = flag;
  }
}

std::string size_with_unit(std::string& text) {
  std::uint64_t value = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc{}) return {};
  return "'" + text + "' is no size; write 512MiB, 8GiB or a number of bytes";
}

constexpr const char* description =
    "mage_bench measures kernel variants: each is checked against a double-precision reference, timed in six modes\n"
    "over balanced rounds, checked again on fresh inputs, and stored with every sample and its origin.\n"
    "A benchmark's name is family/variant/problem/mode, as in gelu/v01_float4/4096x4096/event.";
constexpr const char* footer =
    "Exit codes: 0 measured; 1 a row was wrong, a row or a proof failed, or a file or a GPU was not there;\n2 usage; 3 nothing measured or proved; 130 interrupted.\n"
    "While measuring, a journal beside the store takes every row; after a crash --mage_recover turns it into a store.\n"
    "Flags of Google Benchmark that would break the protocol are refused with the reason.";

}  // namespace

ParsedOptions parse_options(const std::vector<std::string>& argv) {
  Options options;
  options.argv = argv;
  CLI::App app{description, "mage_bench"};
  app.footer(footer);
  app.set_help_flag("--help,-h", "Print this help and exit");

  std::vector<std::string> modes;
  std::vector<std::string> context;
  std::string list_format;
  std::string color = "auto";

  constexpr const char* library = "Google Benchmark's flags";
  app.add_option("--benchmark_filter", options.filter,
                 "Regular expression over the names; a leading '-' selects all others")
      ->envname("BENCHMARK_FILTER")
      ->group(library);
  app.add_option("--benchmark_out", options.out, "Path of the store [results/<utc>-<id>.json]")
      ->envname("BENCHMARK_OUT")
      ->group(library);
  bool list_tests = false;
  app.add_flag("--benchmark_list_tests,!--no_benchmark_list_tests", list_tests, "List the names alone and exit")
      ->group(library);
  app.add_option("--benchmark_color", color, "auto, true or false")
      ->check(CLI::IsMember({"auto", "true", "false", "yes", "no", "1", "0"}))
      ->envname("BENCHMARK_COLOR")
      ->group(library);
  app.add_option("--benchmark_context", context, "key=value to put into the store's context; repeatable")
      ->delimiter(',')
      ->group(library);

  constexpr const char* protocol = "Protocol";
  app.add_option("--mage_modes", modes, "Comma-separated: " + mode_list(false) + " [all]")
      ->delimiter(',')
      ->group(protocol);
  app.add_option("--mage_rounds", options.rounds,
                 "Rounds [the smallest balanced number from 10 on]; every variant runs once in each")
      ->check(CLI::Range(1, 100000))
      ->group(protocol);
  app.add_option("--mage_samples", options.samples,
                 fmt::format("Samples a round [{}; host variants {}]", mode_list(true), host_variant_samples))
      ->check(CLI::Range(1, 1000000))
      ->group(protocol);
  app.add_option("--mage_round_budget", options.round_budget_s,
                 "Seconds that one fixture may spend in one round [0.15]; a slow one takes fewer samples, at least one")
      ->check(CLI::Range(1e-4, 3600.0))
      ->group(protocol);
  app.add_option("--mage_seed", options.seed, "Seed of the execution order, and of what --mage_try draws [1]")
      ->check(whole_number)
      ->group(protocol);
  app.add_option(
         "--mage_problem", options.problems,
         "Measure family/problem too: ROWSxCOLS[-DISTRIBUTION][-sSEED][-oOFFSET], as in gelu/1000x3001-tail-s7-o1; "
         "repeatable")
      ->group(protocol);
  app.add_option("--mage_device", options.device, "CUDA device [0]")->check(CLI::Range(0, 1024))->group(protocol);
  auto* byte_limit =
      app.add_option("--mage_max_bytes", options.max_bytes,
                     "Problems whose operands need more are unavailable; 512MiB, 8GiB, bytes [what is free]")
          ->transform(CLI::AsSizeValue{false})
          ->transform(CLI::Validator{size_with_unit, {}})  // runs first
          ->group(protocol);
  app.add_flag("--mage_require_gpu", options.require_gpu, "Fail where a CUDA row is unavailable for want of a GPU")
      ->group(protocol);

  std::string cache;
  auto* cache_given =
      app.add_option(
             "--mage_admission_cache", cache,
             "File that remembers which variants were tried and admitted, by their machine code; 'none' for none "
             "[$XDG_CACHE_HOME or ~/.cache, /mage_bench/admitted.jsonl]")
          ->group(protocol);
  app.add_option("--mage_admission_deadline", options.admission_deadline_s,
                 "Seconds without a sign of life after which a variant that is tried is given up [60]")
      ->check(CLI::Range(1.0, 86400.0))
      ->group(protocol);

  constexpr const char* actions = "Other actions";
  auto* list = app.add_option("--mage_list", list_format,
                              "List the selected benchmarks and exit, counter-examples marked; --mage_list=json")
                   ->expected(0, 1)
                   ->group(actions);
  app.add_flag("--mage_dry_run", options.dry_run, "Print what would be measured, in which order, and exit")
      ->group(actions);
  app.add_flag("--mage_verify_only", options.verify_only, "Run the gate through every timed path, measure nothing")
      ->group(actions);
  auto* recover =
      app.add_option("--mage_recover", options.recover, "Turn the journal of an unfinished run into its store and exit")
          ->group(actions);
  app.add_flag("--mage_overwrite", options.overwrite, "Replace an existing store")->group(actions);
  auto* trials = app.add_option("--mage_try", options.trials,
                                "Try family/variant,family/variant and print a JSON line for each step and verdict: "
                                "what a run starts in a process of its own. A crash ends it: the last line says where")
                     ->delimiter(',')
                     ->group(actions);
  std::string proofs;
  auto* selftest =
      app.add_option("--mage_selftest", proofs,
                     "Prove that the figures are right, and exit: all proofs, or --mage_selftest=NAME,NAME (a "
                     "beginning is enough). With --benchmark_filter, null_comparisons compares the selected "
                     "variants with themselves")
          ->expected(0, 1)
          ->group(actions);
  app.add_option(
         "--mage_selftest_repeats", options.selftest_repeats,
         "How often statistical proofs repeat what they count: comparisons a pair, trials, rounds, passes, samples, "
         "simulated experiments [each its own]. A proof with fewer than its own says so")
      ->check(CLI::Range(1, 100000))
      ->needs(selftest)
      ->group(actions);
  // A proof has a protocol of its own.
  for (const char* other : {"--mage_modes", "--mage_rounds", "--mage_samples", "--mage_round_budget", "--mage_problem"})
    selftest->excludes(app.get_option(other));

  std::map<std::string, std::string> refused_values;
  for (const auto& flag : refused)
    app.add_option_function<std::string>("--" + std::string{flag.flag},
                                         [&flag](const std::string&) {
                                           throw CLI::ValidationError{"--" + std::string{flag.flag},
                                                                      std::string{"refused: "} + flag.why};
                                         })
        ->expected(0, 1)
        ->envname(environment_name(flag.flag))
        ->group("");  // hidden: help lists what works

  try {
    refuse_empty_values(argv);
    // CLI11 reads the arguments from the back.
    std::vector<std::string> reversed(argv.rbegin(), argv.rend());
    if (!reversed.empty()) reversed.pop_back();
    app.parse(reversed);
    for (const auto& flag : refused)
      if (const auto* given = app.get_option("--" + std::string{flag.flag}); given->count() > 0)
        throw CLI::ValidationError{"--" + std::string{flag.flag}, std::string{"refused: "} + flag.why};
    if (recover->count() > 0 && options.recover.empty())
      throw CLI::ValidationError{"--mage_recover", "names no journal"};
    for (const auto& [flag, seconds] : {std::pair{"--mage_round_budget", options.round_budget_s},
                                        {"--mage_admission_deadline", options.admission_deadline_s}})
      if (std::isnan(seconds)) throw CLI::ValidationError{flag, "nan is no number of seconds"};  // no range excludes it
    if (!modes.empty()) options.modes = parse_modes(modes);
    options.context = parse_context(context);
    check_filter(options.filter);
    if (list->count() > 0 || list_tests) {
      if (!list_format.empty() && list_format != "json" && list_format != "text" && list_format != "true")
        throw CLI::ValidationError{"--mage_list", "'" + list_format + "' is no list format; choose json or text"};
      options.list = list->count() == 0      ? ListFormat::names
                     : list_format == "json" ? ListFormat::json
                                             : ListFormat::text;
    }
    options.selftest = selftest->count() > 0;
    refuse_two({{list->count() > 0 ? "--mage_list" : "--benchmark_list_tests", options.list.has_value()},
                {"--mage_dry_run", options.dry_run},
                {"--mage_verify_only", options.verify_only},
                {"--mage_recover", recover->count() > 0},
                {"--mage_try", trials->count() > 0},
                {"--mage_selftest", options.selftest}});
    if (cache_given->count() > 0) options.admission_cache = cache == "none" ? std::string{} : cache;
    if (!proofs.empty()) options.selftest_names = parse_proofs(proofs);
    if (byte_limit->count() > 0 && options.max_bytes == 0)
      throw CLI::ValidationError{"--mage_max_bytes", "0 bytes leave nothing to measure"};
    if (options.filter.empty() || options.filter == "all") options.filter = ".";
  } catch (const CLI::CallForHelp&) {
    return {std::nullopt, 0, app.help()};
  } catch (const CLI::ParseError& error) {
    return {std::nullopt, exit_code::usage,
            fmt::format("mage_bench: {}\nRun mage_bench --help for the flags.\n", error.what())};
  }
  options.color =
      color == "auto" ? Color::automatic : (color == "true" || color == "yes" || color == "1" ? Color::yes : Color::no);
  return {std::move(options), 0, {}};
}

}  // namespace mage
