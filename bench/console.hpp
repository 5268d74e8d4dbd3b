// SPDX-License-Identifier: Apache-2.0
// What a person sees. Tables go to standard output, progress to a terminal on standard error.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/plan.hpp"

namespace mage {

class Console {
 public:
  explicit Console(Color color);

  /// One table row a fixture; `aggregates` as in the store.
  void table(const std::string& title, const std::vector<nlohmann::ordered_json>& aggregates);
  void line(const std::string& text);
  /// As it is, without a line end of its own. False where it could not be written.
  bool text(const std::string& whole);
  /// A line about something wrong; on standard error.
  void complain(const std::string& text);
  /// Rewrites the progress line; does nothing where standard error is no terminal.
  void progress(int done, int total, double seconds_left, const std::string& now);
  /// Rows that have no time, grouped by their reason.
  void without_time(const nlohmann::ordered_json& unavailable, const nlohmann::ordered_json& failed);

 private:
  void clear_progress();
  [[nodiscard]] std::string paint(const std::string& text, const char* code) const;
  bool color_ = false;
  bool terminal_ = false;
  bool progress_shown_ = false;
};

/// The plan in words: order, rounds, memory. For --mage_dry_run.
[[nodiscard]] std::string describe_plan(const Plan& plan, const Options& options);
/// Names, names with marks, or records of everything a tool may want to know without running anything.
[[nodiscard]] std::string list_fixtures(const std::vector<Fixture>& fixtures, ListFormat format);
/// What a filter that matches nothing could have matched.
[[nodiscard]] std::string what_exists(const Options& options, const Machine& machine);

}  // namespace mage
