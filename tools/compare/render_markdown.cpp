// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <string_view>

#include "tools/compare/report.hpp"
#include "tools/compare/words.hpp"

namespace mage::compare {
namespace {

/// As it is read: nothing in it makes a cell, a tag, emphasis or a line of its own.
std::string escaped(std::string_view text) {
  constexpr std::string_view special = "\\`*_|<>[]#&";
  std::string result;
  for (const char character : harmless(text)) {
    if (special.find(character) != std::string_view::npos) result += '\\';
    result += character;
  }
  return result;
}

}  // namespace

std::string render_markdown(const Report& report) {
  std::string text;
  for (const auto& line : report.intro) text += "- " + escaped(line) + '\n';
  text += '\n';
  std::string header = "|";
  std::string rule = "|";
  for (const auto& column : report.columns) {
    header += ' ' + escaped(column.heading) + " |";
    rule += column.number ? " ---: |" : " --- |";
  }
  for (const auto& section : report.sections) {
    if (section.rows.empty()) continue;
    if (!section.title.empty()) text += "### " + escaped(section.title) + "\n\n";
    text += header + '\n' + rule + '\n';
    for (const auto& row : section.rows) {
      text += '|';
      for (const auto& cell : row.cells) text += (cell.empty() ? "" : ' ' + escaped(cell)) + " |";
      text += '\n';
    }
    text += '\n';
  }
  for (const auto& line : report.legend) text += "- " + escaped(line) + '\n';
  if (!report.legend.empty()) text += '\n';
  for (const auto& line : report.closing) text += "- " + escaped(line) + '\n';
  return text;
}

}  // namespace mage::compare
