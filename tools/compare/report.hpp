// SPDX-License-Identifier: Apache-2.0
// A report as data: what every format prints, each in its own way.
#pragma once

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/options.hpp"
#include "bench/store_reader.hpp"
#include "tools/compare/options.hpp"

namespace mage::compare {

using Json = nlohmann::ordered_json;

struct Column {
  std::string heading;
  bool number = false;  ///< to the right
};

/// A key of a report's rows, and where its value comes from.
template <typename Source>
struct Field {
  const char* name;
  Json (*of)(const Source&);
};

/// How the first cell of a row looks on a terminal.
enum class Tone { plain, good, bad, doubtful };

/// A row twice: `cells` for people, one a column; `fields` for programs, the same keys in every row of a report.
struct Row {
  std::vector<std::string> cells;
  Json fields;
  Tone tone = Tone::plain;
};

/// Rows that stand together under a title, which may be empty.
struct Section {
  std::string title;
  std::vector<Row> rows;
};

struct Report {
  Json head = Json::object();      ///< for JSON: schema, stores, settings
  std::vector<std::string> intro;  ///< lines for people
  std::vector<Column> columns;
  std::vector<std::string> fields;  ///< the keys of every row's `fields`, in order
  std::vector<Section> sections;
  std::vector<std::string> legend;   ///< "name: what it means"
  std::vector<std::string> closing;  ///< lines for people; the last is the summary
  Json tail = Json::object();        ///< for JSON: counts and lists
  int comparable = 0;                ///< rows that hold a result
  bool regression = false;           ///< a row is slower, or what the old store measured is wrong or failed in the new
};

[[nodiscard]] Report compare_one(const StoreContents& store, const Options& options);
[[nodiscard]] Report compare_two(const StoreContents& before, const StoreContents& after, const Options& options);
[[nodiscard]] Report rank(const StoreContents& store, const Options& options);
[[nodiscard]] Report decompose(const StoreContents& store, const Options& options);

/// Names the selected benchmarks without a time. Most are only not available here; what is wrong or failed has a line
/// of its own, and is a regression where `before`, which may be null, has a time for it.
void add_absences(Report& report, const StoreContents& store, const StoreContents* before, const Options& options);

/// Two stores whose machines differ, and --allow_different_machines was not given.
class DifferentMachines : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// One renderer a format, each in its own file.
[[nodiscard]] std::string render_table(const Report& report, bool color);
[[nodiscard]] std::string render_markdown(const Report& report);
[[nodiscard]] std::string render_json(const Report& report);
[[nodiscard]] std::string render_csv(const Report& report);

}  // namespace mage::compare
