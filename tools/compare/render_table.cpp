// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <vector>

#include "tools/compare/report.hpp"
#include "tools/compare/words.hpp"

namespace mage::compare {
namespace {

std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }));
}

const char* code_of(Tone tone) {
  switch (tone) {
    case Tone::plain: return "";
    case Tone::good: return "32";
    case Tone::bad: return "1;31";
    case Tone::doubtful: return "33";
  }
  return "";
}

class Painter {
 public:
  explicit Painter(bool color) : color_{color} {}
  [[nodiscard]] std::string operator()(const std::string& text, std::string_view code) const {
    return color_ && !code.empty() && !text.empty() ? "\033[" + std::string{code} + "m" + text + "\033[0m" : text;
  }

 private:
  bool color_;
};

std::string padded(const std::string& text, std::size_t width, bool right, bool last) {
  const std::string space(width - std::min(width, width_of(text)), ' ');
  if (right) return space + text;
  return last ? text : text + space;  // no blanks at a line's end
}

std::string without_trailing_blanks(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace

std::string render_table(const Report& report, bool color) {
  const Painter paint{color};
  std::vector<std::size_t> widths;
  widths.reserve(report.columns.size());
  for (const auto& column : report.columns) widths.push_back(width_of(column.heading));
  for (const auto& section : report.sections)
    for (const auto& row : section.rows)
      for (std::size_t k = 0; k < row.cells.size(); ++k) widths[k] = std::max(widths[k], width_of(row.cells[k]));

  const auto line_of = [&](const std::vector<std::string>& cells, std::string_view first_code) {
    std::string line;
    for (std::size_t k = 0; k < cells.size(); ++k) {
      const auto text = padded(harmless(cells[k]), widths[k], report.columns[k].number, k + 1 == cells.size());
      line += (k == 0 ? "" : "  ") + (k == 0 ? paint(text, first_code) : text);
    }
    return without_trailing_blanks(line) + '\n';
  };
  std::vector<std::string> headings;
  headings.reserve(report.columns.size());
  for (const auto& column : report.columns) headings.push_back(column.heading);

  std::string text;
  for (const auto& line : report.intro) text += harmless(line) + '\n';
  text += '\n';
  for (const auto& section : report.sections) {
    if (section.rows.empty()) continue;
    if (!section.title.empty()) text += paint(harmless(section.title), "1") + '\n';
    text += line_of(headings, "");
    for (const auto& row : section.rows) text += line_of(row.cells, code_of(row.tone));
    text += '\n';
  }
  for (const auto& line : report.legend) text += harmless(line) + '\n';
  if (!report.legend.empty()) text += '\n';
  for (const auto& line : report.closing) text += harmless(line) + '\n';
  return text;
}

}  // namespace mage::compare
