// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "bench/json_text.hpp"
#include "tools/compare/report.hpp"

namespace mage::compare {
namespace {

/// A list with an entry a line, so that diff and grep work.
void add_list(std::string& text, const Json& list) {
  text += '[';
  bool first = true;
  for (const auto& entry : list) {
    text += (first ? "\n    " : ",\n    ") + json_text(entry);
    first = false;
  }
  text += first ? "]" : "\n  ]";
}

void add_fields(std::string& text, const Json& fields) {
  for (const auto& [key, value] : fields.items()) {
    text += (text.size() > 2 ? ",\n  " : "  ") + json_text(Json(key)) + ": ";
    if (value.is_array())
      add_list(text, value);
    else
      text += json_text(value);
  }
}

}  // namespace

std::string render_json(const Report& report) {
  std::string text = "{\n";
  add_fields(text, report.head);
  text += ",\n  \"rows\": [";
  bool first = true;
  for (const auto& section : report.sections)
    for (const auto& row : section.rows) {
      text += (first ? "\n    " : ",\n    ") + json_text(row.fields);
      first = false;
    }
  text += first ? "]" : "\n  ]";
  add_fields(text, report.tail);
  return text + "\n}\n";
}

}  // namespace mage::compare
