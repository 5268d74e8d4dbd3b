// SPDX-License-Identifier: Apache-2.0
#include "tools/compare/options.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <array>
#include <filesystem>
#include <system_error>
#include <utility>

#include "bench/build_info.hpp"

namespace mage::compare {
namespace {

constexpr std::array<std::pair<const char*, Format>, 4> formats{
    {{"table", Format::table}, {"markdown", Format::markdown}, {"json", Format::json}, {"csv", Format::csv}}};
constexpr std::array<std::pair<const char*, Color>, 3> colors{
    {{"auto", Color::automatic}, {"yes", Color::yes}, {"no", Color::no}}};

constexpr double smallest_alpha = 1e-12;  ///< 1 - alpha, the level of an interval, must stay well below 1

template <typename Value, std::size_t Count>
Value choose(const char* flag, const std::string& text, const std::array<std::pair<const char*, Value>, Count>& names) {
  std::string known;
  for (const auto& [name, value] : names) {
    if (text == name) return value;
    known += (known.empty() ? "" : ", ") + std::string{name};
  }
  throw CLI::ValidationError{flag, "'" + text + "' is not one of " + known};
}

NameFilter filter(const char* flag, const std::string& text) {
  if (text.size() > longest_searched)
    throw CLI::ValidationError{flag, fmt::format("has more than {} characters", longest_searched)};
  try {
    return NameFilter{text};
  } catch (const std::regex_error& error) {
    throw CLI::ValidationError{flag, "'" + text + "' is no regular expression: " + error.what()};
  }
}

/// CLI11 takes the next argument for the value of a flag that ends in '=', and so would drop a flag without a word.
void refuse_empty_values(const std::vector<std::string>& argv) {
  for (const auto& argument : argv)
    if (argument.starts_with("--") && argument.find('=') == argument.size() - 1)
      throw CLI::ValidationError{argument, "has no value; leave the flag out or give it one"};
}

/// What no single flag can see.
void check_together(const Options& options, bool rank, bool decompose) {
  if (rank && decompose)
    throw CLI::ValidationError{"--ranking", "cannot be given with --decompose: ask for one of them"};
  const bool two = options.stores.size() == 2;
  if (two && options.action != Action::compare)
    throw CLI::ValidationError{rank ? "--ranking" : "--decompose", "reads one store; two were given"};
  if (two && options.baseline)
    throw CLI::ValidationError{"--baseline", "chooses inside one store; of two stores the old one is the baseline"};
  if (options.baseline && options.action != Action::compare)
    throw CLI::ValidationError{"--baseline", rank ? "has no part in --ranking: each row stands against the fastest"
                                                  : "has no part in --decompose: nothing is compared"};
  if (!two && options.allow_different_machines)
    throw CLI::ValidationError{"--allow_different_machines", "needs two stores"};
  for (const auto& store : options.stores) {
    std::error_code none;
    if (!options.out.empty() && (options.out == store || std::filesystem::equivalent(options.out, store, none)))
      throw CLI::ValidationError{"--out", "'" + options.out + "' is a store that is read: name another file"};
  }
}

constexpr const char* description =
    "mage_compare says in words and intervals which variants are faster, from the stores that mage_bench writes.\n"
    "With one store, variants stand against a baseline of the same run, paired by round. With two, the same benchmark\n"
    "stands in both, unpaired: what moves between two runs is in no interval.";
constexpr const char* footer =
    "Words: faster, slower, equivalent, inconclusive, not comparable. `faster` and `slower` need an adjusted p below\n"
    "alpha and the whole interval beyond the minimum effect, at level 1 - claim_alpha too; `equivalent` needs the\n"
    "whole interval inside it.\n"
    "\n"
    "Examples:\n"
    "  mage_compare run.json                                     every variant against v00_* of its family\n"
    "  mage_compare run.json --baseline=v02_unrolled             against another variant\n"
    "  mage_compare old.json new.json                            the same benchmarks of two runs\n"
    "  mage_compare old.json new.json --allow_different_machines the same of two machines; every row is labelled\n"
    "  mage_compare run.json --family='^gelu$' --variant=v0[1-4] --problem=8192x16384 --mode='-host|kernel'\n"
    "  mage_compare run.json --alpha=0.01 --min_effect=0.02      fewer claims, and of larger effects only\n"
    "  mage_compare run.json --claim_alpha=0.05                  claims by the interval that is shown\n"
    "  mage_compare run.json --format=markdown --out=report.md   table, markdown, json or csv, into a file\n"
    "  mage_compare run.json --color=yes | less -R               colour where there is no terminal\n"
    "  mage_compare old.json new.json --no_fail                  report regressions, but exit with 0\n"
    "  mage_compare run.json --ranking                           all variants against the fastest, best first\n"
    "  mage_compare run.json --decompose                         where the time of a launch goes\n"
    "\n"
    "Exit codes: 0 compared; 1 a row is `slower` (than its baseline; with one store that is the first version), or a\n"
    "benchmark with a time in the old store is wrong or failed in the new one;\n"
    "2 usage, a store that cannot be read, stores of different machines, or an output that cannot be written;\n"
    "3 nothing could be compared. docs/compare.md explains every word and column.";

}  // namespace

ParsedOptions parse_options(const std::vector<std::string>& argv) {
  Options options;
  CLI::App app{description, "mage_compare"};
  app.footer(footer);
  app.set_help_flag("--help,-h", "Print this help and exit");
  app.set_version_flag("--version", fmt::format("mage_compare {} ({})", MAGE_VERSION, build_info().git_commit),
                       "Print the version and the commit it was built from, and exit");

  std::string store;
  std::string new_store;
  app.add_option("STORE", store, "Store of mage_bench; with a second one, the old one")->required();
  auto* second = app.add_option("NEW_STORE", new_store, "Store to compare it with");

  constexpr const char* what = "What is compared";
  std::string baseline;
  auto* baseline_option = app.add_option("--baseline", baseline,
                                         "Variant to compare with: its name, or a regular expression that one name of "
                                         "each group matches [v00_*; of host variants cpu_v00_*, else reference]")
                              ->group(what);
  std::string family, variant, problem, mode;
  const std::array<std::pair<const char*, std::string*>, 4> filters{
      {{"--family", &family}, {"--variant", &variant}, {"--problem", &problem}, {"--mode", &mode}}};
  for (const auto& [flag, text] : filters)
    app.add_option(flag, *text, "Regular expression; a leading '-' selects all others")->group(what);
  app.add_flag("--allow_different_machines", options.allow_different_machines,
               "Compare two stores although GPU, driver or CUDA runtime differ")
      ->group(what);

  constexpr const char* verdicts = "Verdicts";
  app.add_option("--alpha", options.comparison.alpha, "Error rate of a whole table, from 1e-12 to 0.5 [0.05]")
      ->group(verdicts);
  app.add_option("--claim_alpha", options.comparison.claim_alpha,
                 "1 - this is the level of the interval behind a claim, from 1e-12 to 0.5 [0.001]")
      ->group(verdicts);
  app.add_option("--min_effect", options.comparison.min_effect,
                 "A difference is claimed where its whole interval is beyond this share: from 0 to below 1 [0.01]")
      ->group(verdicts);
  app.add_flag("--no_fail", options.no_fail, "Report regressions, but let none of them decide the exit code")
      ->group(verdicts);

  constexpr const char* views = "Other reports";
  bool rank = false;
  bool decompose = false;
  app.add_flag("--ranking", rank, "All variants of each problem and mode against the fastest, best first")
      ->group(views);
  app.add_flag("--decompose", decompose, "Where the time of a launch goes, a row for each variant and problem")
      ->group(views);

  constexpr const char* output = "Output";
  std::string format = "table";
  std::string color = "auto";
  app.add_option("--format", format, "table, markdown, json or csv [table]")->group(output);
  app.add_option("--out", options.out, "Write the report to this file; an existing one is replaced")->group(output);
  app.add_option("--color", color, "auto, yes or no: of the table [auto: on a terminal]")->group(output);

  try {
    refuse_empty_values(argv);
    // CLI11 reads the arguments from the back.
    std::vector<std::string> reversed(argv.rbegin(), argv.rend());
    if (!reversed.empty()) reversed.pop_back();
    app.parse(reversed);
    options.stores.push_back(store);
    if (second->count() > 0) options.stores.push_back(new_store);
    // Written so that nan fails too.
    for (const auto& [flag, alpha] :
         {std::pair{"--alpha", options.comparison.alpha}, std::pair{"--claim_alpha", options.comparison.claim_alpha}})
      if (!(alpha >= smallest_alpha && alpha <= 0.5))
        throw CLI::ValidationError{flag, fmt::format("{:g} is not from {:g} to 0.5", alpha, smallest_alpha)};
    if (!(options.comparison.min_effect >= 0 && options.comparison.min_effect < 1))
      throw CLI::ValidationError{"--min_effect",
                                 fmt::format("{} is not from 0 to below 1", options.comparison.min_effect)};
    if (!family.empty()) options.selection.family = filter("--family", family);
    if (!variant.empty()) options.selection.variant = filter("--variant", variant);
    if (!problem.empty()) options.selection.problem = filter("--problem", problem);
    if (!mode.empty()) options.selection.mode = filter("--mode", mode);
    if (baseline_option->count() > 0) {
      static_cast<void>(filter("--baseline", baseline));
      options.baseline = baseline;
    }
    options.format = choose("--format", format, formats);
    options.color = choose("--color", color, colors);
    options.action = rank ? Action::rank : decompose ? Action::decompose : Action::compare;
    check_together(options, rank, decompose);
  } catch (const CLI::CallForHelp&) {
    return {std::nullopt, exit_code::compared, app.help()};
  } catch (const CLI::CallForVersion& version) {
    return {std::nullopt, exit_code::compared, version.what() + std::string{"\n"}};
  } catch (const CLI::ParseError& error) {
    return {std::nullopt, exit_code::usage,
            fmt::format("mage_compare: {}\nRun mage_compare --help for the flags.\n", error.what())};
  }
  return {std::move(options), 0, {}};
}

}  // namespace mage::compare
