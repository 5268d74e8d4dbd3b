// SPDX-License-Identifier: Apache-2.0
// The journal: one JSON object a line, flushed as it is written, so that a crash loses nothing that was measured.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace mage {

class Journal {
 public:
  /// Creates `path`; an existing file is never appended to nor truncated. Throws std::runtime_error.
  explicit Journal(std::string path);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// Writes one line to the operating system before it returns. Throws std::runtime_error on a full disk.
  void append(const nlohmann::ordered_json& entry);
  [[nodiscard]] const std::string& path() const { return path_; }
  /// Once the store is safe, the journal has done its work.
  void remove();

 private:
  std::string path_;
  int descriptor_ = -1;
};

struct JournalContents {
  std::vector<nlohmann::ordered_json> entries;
  std::vector<int> lines;          ///< of each entry, from 1
  std::vector<int> damaged_lines;  ///< from 1; left out, as is a last line that a crash cut off
};
/// Throws std::runtime_error where the file cannot be read or does not begin with a journal's header.
[[nodiscard]] JournalContents read_journal(const std::string& path);
/// Whether a Journal of this or another process holds the file open; false where the file system has no locks.
[[nodiscard]] bool is_being_written(const std::string& path);

}  // namespace mage
