// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "bench/json_text.hpp"
#include "tools/compare/report.hpp"

namespace mage::compare {
namespace {

/// By RFC 4180.
std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string result = "\"";
  for (const char character : text) {
    if (character == '"') result += '"';
    result += character;
  }
  return result + '"';
}

/// Nothing for null; the entries of a list between semicolons.
std::string text_of(const Json& value) {
  if (value.is_null()) return {};
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return json_text(value);
  std::string text;
  for (const auto& entry : value) text += (text.empty() ? "" : "; ") + text_of(entry);
  return text;
}

}  // namespace

std::string render_csv(const Report& report) {
  std::string text;
  for (const auto& field : report.fields) text += (text.empty() ? "" : ",") + quoted(field);
  text += '\n';
  for (const auto& section : report.sections)
    for (const auto& row : section.rows) {
      bool first = true;
      for (const auto& field : report.fields) {
        text += (first ? "" : ",") + quoted(text_of(row.fields.at(field)));
        first = false;
      }
      text += '\n';
    }
  return text;
}

}  // namespace mage::compare
