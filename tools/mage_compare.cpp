// SPDX-License-Identifier: Apache-2.0
// Reads one or two stores and says in words which variants are faster. docs/compare.md explains its output.
#include <unistd.h>

#include <fmt/format.h>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <system_error>

#include "bench/store_reader.hpp"
#include "tools/compare/options.hpp"
#include "tools/compare/report.hpp"
#include "tools/compare/words.hpp"

namespace mage::compare {
namespace {

void complain(const std::string& text) {
  std::fputs(fmt::format("mage_compare: {}\n", harmless(text)).c_str(), stderr);
}

Report report_of(const std::vector<StoreContents>& stores, const Options& options) {
  switch (options.action) {
    case Action::rank: return rank(stores[0], options);
    case Action::decompose: return decompose(stores[0], options);
    case Action::compare: break;
  }
  return stores.size() == 2 ? compare_two(stores[0], stores[1], options) : compare_one(stores[0], options);
}

std::string render(const Report& report, const Options& options) {
  switch (options.format) {
    case Format::table:
      return render_table(report, options.color == Color::yes || (options.color == Color::automatic &&
                                                                  options.out.empty() && ::isatty(STDOUT_FILENO) == 1));
    case Format::markdown: return render_markdown(report);
    case Format::json: return render_json(report);
    case Format::csv: return render_csv(report);
  }
  throw std::invalid_argument{"no format"};
}

/// Throws std::system_error where it cannot be written whole.
void write(const std::string& text, const std::string& path) {
  std::FILE* const file = path.empty() ? stdout : std::fopen(path.c_str(), "w");
  const auto name = path.empty() ? "standard output" : "--out=" + path;
  if (file == nullptr) throw std::system_error{errno, std::generic_category(), "cannot write " + name};
  bool whole = std::fwrite(text.data(), 1, text.size(), file) == text.size() && std::fflush(file) == 0;
  int error = errno;
  if (!path.empty() && std::fclose(file) != 0 && whole) {
    whole = false;
    error = errno;
  }
  if (whole || (path.empty() && error == EPIPE)) return;  // a reader that has seen enough is no error
  throw std::system_error{error, std::generic_category(), "cannot write " + name};
}

int run(const std::vector<std::string>& argv) {
  const auto parsed = parse_options(argv);
  if (!parsed.options) {
    std::fputs(parsed.message.c_str(), parsed.exit == exit_code::usage ? stderr : stdout);
    return parsed.exit;
  }
  const auto& options = *parsed.options;
  std::vector<StoreContents> stores;
  stores.reserve(options.stores.size());
  for (const auto& path : options.stores) stores.push_back(read_store(path));
  const auto report = report_of(stores, options);

  std::size_t rows = 0;
  for (const auto& section : report.sections) rows += section.rows.size();
  // Without a row too there may be something to name.
  const auto names = [&report](const char* list) { return !report.tail.value(list, Json::array()).empty(); };
  if (rows > 0 || names("only_in_one") || names("without_time")) write(render(report, options), options.out);
  if (report.regression && !options.no_fail) return exit_code::regression;
  if (report.comparable == 0) {
    complain(rows > 0 ? "nothing could be compared: each row is not comparable, and says why"
                      : "nothing to compare: no benchmark with a time is selected that has something to stand against");
    for (const auto& store : stores) std::fputs(what_it_holds(store).c_str(), stderr);
    return exit_code::nothing;
  }
  return exit_code::compared;
}

}  // namespace
}  // namespace mage::compare

int main(int argc, char** argv) {
  static_cast<void>(std::signal(SIGPIPE, SIG_IGN));  // writing says so
  try {
    return mage::compare::run({argv, argv + argc});
  } catch (const std::exception& error) {
    mage::compare::complain(error.what());
    return mage::compare::exit_code::usage;
  }
}
