// SPDX-License-Identifier: Apache-2.0
// Reads one or two stores and says in words which variants are faster. docs/compare.md explains its output.
#include <unistd.h>

#include <fmt/format.h>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
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

/// 0, or the errno of what failed.
int put(const std::string& text, std::FILE* file) {
  return std::fwrite(text.data(), 1, text.size(), file) == text.size() && std::fflush(file) == 0 ? 0 : errno;
}

/// 0, or the errno of what failed.
int put_file(const std::string& text, const std::filesystem::path& path, const char* how) {
  std::FILE* const file = std::fopen(path.c_str(), how);
  if (file == nullptr) return errno;
  const int error = put(text, file);
  return std::fclose(file) != 0 && error == 0 ? errno : error;
}

/// Whole or not at all, so that a disk that fills up leaves the report that was there. 0, or the errno of what failed.
int replace_file(const std::string& text, const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code none;
  const auto status = fs::status(path, none);
  const bool is_link = fs::is_symlink(path, none);
  // Nothing can be moved to where a device, a pipe or a link to nothing is.
  if (fs::exists(status) ? !fs::is_regular_file(status) : is_link) return put_file(text, path, "w");
  if (fs::exists(status) && ::access(path.c_str(), W_OK) != 0) return errno;
  const auto target = is_link ? fs::canonical(path) : fs::path{path};
  const fs::path temporary = target.string() + ".tmp." + std::to_string(::getpid());
  int error = put_file(text, temporary, "wx");
  if (error == EEXIST) return error;  // it is not ours
  if (error == 0 && fs::exists(status)) fs::permissions(temporary, status.permissions(), none);
  if (error == 0 && std::rename(temporary.c_str(), target.c_str()) != 0) error = errno;
  if (error != 0) fs::remove(temporary, none);
  return error;
}

/// Throws std::system_error where it cannot be written whole.
void write(const std::string& text, const std::string& path) {
  const int error = path.empty() ? put(text, stdout) : replace_file(text, path);
  if (error == 0 || (path.empty() && error == EPIPE)) return;  // a reader that has seen enough is no error
  throw std::system_error{error, std::generic_category(),
                          "cannot write " + (path.empty() ? "standard output" : "--out=" + path)};
}

int run(const std::vector<std::string>& argv) {
  const auto parsed = parse_options(argv);
  if (!parsed.options) {
    if (parsed.exit == exit_code::usage)
      std::fputs(parsed.message.c_str(), stderr);
    else
      write(parsed.message, "");
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
    complain(rows == 0 ? "nothing to compare: no benchmark with a time is selected that has something to stand against"
             : options.action == Action::rank
                 ? "nothing could be compared: no row can stand against the best of its group"
                 : "nothing could be compared: each row is not comparable, and says why");
    for (const auto& store : stores) std::fputs(what_it_holds(store).c_str(), stderr);
    return exit_code::nothing;
  }
  return exit_code::compared;
}

}  // namespace
}  // namespace mage::compare

int main(int argc, char** argv) {
  for (const int signal : {SIGPIPE, SIGXFSZ}) static_cast<void>(std::signal(signal, SIG_IGN));  // writing says so
  try {
    return mage::compare::run({argv, argv + argc});
  } catch (const std::exception& error) {
    mage::compare::complain(error.what());
    return mage::compare::exit_code::usage;
  }
}
