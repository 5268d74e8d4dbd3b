// SPDX-License-Identifier: Apache-2.0
#include "bench/journal.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>

#include "bench/json_text.hpp"

namespace mage {

Journal::Journal(std::string path) : path_{std::move(path)} {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (descriptor_ >= 0) {
    // For is_being_written(); a file system without locks, as some NFS is, costs that and nothing else.
    static_cast<void>(::flock(descriptor_, LOCK_EX | LOCK_NB));
    return;
  }
  const int error = errno;
  if (error == EEXIST)
    throw std::runtime_error{"the journal " + path_ +
                             " exists: an earlier run did not end, or still runs. Recover it with --mage_recover=" +
                             path_ + ", or move it away"};
  throw std::runtime_error{"cannot create the journal " + path_ + ": " + std::strerror(error)};
}

Journal::~Journal() {
  if (descriptor_ >= 0) static_cast<void>(::close(descriptor_));
}

void Journal::append(const nlohmann::ordered_json& entry) {
  const std::string line = json_text(entry) + '\n';
  std::size_t written = 0;
  while (written < line.size()) {
    const auto count = ::write(descriptor_, line.data() + written, line.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw std::runtime_error{"cannot write the journal " + path_ + ": " + std::strerror(errno)};
    written += static_cast<std::size_t>(count);
  }
}

void Journal::remove() {
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

namespace {

/// Discarded where the line is no JSON, has a key twice in one object, of which neither can be trusted, or is nested
/// deeper than anything we write: freeing such a value would recurse.
nlohmann::ordered_json parse_line(const std::string& line) {
  using Json = nlohmann::ordered_json;
  constexpr int deepest = 32;
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto watch = [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth > deepest) throw std::length_error{"nested too deep"};
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second)
      throw std::invalid_argument{"a key twice"};
    return true;
  };
  try {
    return Json::parse(line, watch, false);
  } catch (const std::logic_error&) {
    return Json{Json::value_t::discarded};
  }
}

}  // namespace

JournalContents read_journal(const std::string& path) {
  std::error_code unknown;
  if (std::filesystem::exists(path, unknown) && !std::filesystem::is_regular_file(path, unknown))
    throw std::runtime_error{path + " is no regular file, so no journal"};
  std::ifstream file{path, std::ios::binary};
  if (!file) throw std::runtime_error{"cannot read the journal " + path + ": " + std::strerror(errno)};
  JournalContents contents;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    auto entry = parse_line(line);
    const bool whole = !entry.is_discarded() && entry.is_object() && entry.contains("kind");
    if (number == 1 && (!whole || entry.at("kind") != "header"))
      throw std::runtime_error{path + ":1: not a mage_bench journal, or cut off before its first line ended"};
    if (whole) {
      contents.entries.push_back(std::move(entry));
      contents.lines.push_back(number);
    } else {
      contents.damaged_lines.push_back(number);
    }
  }
  if (contents.entries.empty()) throw std::runtime_error{path + ": not a mage_bench journal: it is empty"};
  return contents;
}

bool is_being_written(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return false;  // reading it will say why
  const bool held = ::flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  static_cast<void>(::close(descriptor));
  return held;
}

}  // namespace mage
