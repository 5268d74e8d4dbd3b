// SPDX-License-Identifier: Apache-2.0
#include "bench/json_picker.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace mage {
namespace {

using Json = nlohmann::json;

constexpr std::size_t deepest = 64;

/// The receiver of the library's events.
class Picker final : public nlohmann::json_sax<Json> {
 public:
  Picker(std::string_view text, const WantedJson& wanted) : text_{text}, next_{&wanted} {}

  [[nodiscard]] Json& picked() { return root_; }

  bool null() override { return plain(nullptr); }
  bool boolean(bool value) override { return plain(value); }
  bool number_integer(number_integer_t value) override { return plain(value); }
  bool number_unsigned(number_unsigned_t value) override { return plain(value); }
  bool number_float(number_float_t value, const string_t& /*token*/) override { return plain(value); }
  bool string(string_t& value) override { return wants() ? plain(std::move(value)) : true; }
  bool binary(binary_t& /*value*/) override { return false; }  // JSON text has none

  bool start_object(std::size_t /*members*/) override { return open(Json::value_t::object); }
  bool start_array(std::size_t /*elements*/) override { return open(Json::value_t::array); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    if (skipped_ > 0) return true;
    auto& level = levels_.back();
    const auto& wanted = *level.wanted;
    level.key = name;
    next_ = nullptr;
    if (!wanted.each.empty()) {
      next_ = &wanted.each.front();
    } else {
      const auto found = std::ranges::find(wanted.members, name, &WantedMember::key);
      if (found == wanted.members.end()) return true;
      next_ = &found->wanted;
    }
    if (level.value->contains(name)) throw JsonError{where() + " stands twice in one object"};
    return true;
  }

  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) override;

 private:
  struct Level {
    Json* value;
    const WantedJson* wanted;
    std::string key{};      // of the member that is being read
    std::size_t count = 0;  // of the elements so far
  };

  /// Whether the value that begins now is wanted.
  [[nodiscard]] bool wants() const {
    if (skipped_ > 0) return false;
    if (levels_.empty() || levels_.back().value->is_object()) return next_ != nullptr;
    return !levels_.back().wanted->each.empty();
  }

  /// Puts `value` where it belongs; only after wants().
  Json& place(Json value) {
    if (levels_.empty()) return root_ = std::move(value);
    auto& level = levels_.back();
    if (level.value->is_object()) return (*level.value)[level.key] = std::move(value);
    level.count += 1;
    level.value->push_back(std::move(value));
    return level.value->back();
  }

  [[nodiscard]] const WantedJson& wanted_now() const {
    const bool element = !levels_.empty() && levels_.back().value->is_array();
    return element ? levels_.back().wanted->each.front() : *next_;
  }

  /// Hands a whole value over and drops it. An object keeps the key, so that a second one is seen.
  void finish(Json& value, const WantedJson& wanted) {
    if (!wanted.take) return;
    wanted.take(value);
    if (!levels_.empty() && levels_.back().value->is_array())
      levels_.back().value->clear();
    else
      value = Json(value.type());
  }

  template <typename T>
  bool plain(T&& value) {
    if (!wants()) return true;
    const auto& wanted = wanted_now();
    finish(place(Json(std::forward<T>(value))), wanted);
    return true;
  }

  bool open(Json::value_t type) {
    if (levels_.size() + skipped_ >= deepest)
      throw JsonError{where() + " is nested deeper than " + std::to_string(deepest) + " levels"};
    if (!wants()) {
      skipped_ += 1;
      return true;
    }
    const auto& wanted = wanted_now();
    auto& value = place(Json(type));
    levels_.push_back({.value = &value, .wanted = &wanted});
    next_ = nullptr;
    return true;
  }

  bool close() {
    if (skipped_ > 0) {
      skipped_ -= 1;
      return true;
    }
    const auto level = std::move(levels_.back());
    levels_.pop_back();
    finish(*level.value, *level.wanted);
    return true;
  }

  /// "benchmarks[17].mage.round"; "the file" outside of everything wanted.
  [[nodiscard]] std::string where() const {
    std::string path;
    for (const auto& level : levels_) {
      if (level.value->is_array())
        path += '[' + std::to_string(level.count - (&level == &levels_.back() ? 0 : 1)) + ']';
      else if (!level.key.empty())
        path += (path.empty() ? "" : ".") + shown_key(level.key);
    }
    return path.empty() ? "the file" : path;
  }

  std::string_view text_;
  Json root_;
  std::vector<Level> levels_;         // of what is wanted, from the outside
  std::size_t skipped_ = 0;           // levels below those
  const WantedJson* next_ = nullptr;  // of the member that follows; null where it is not wanted
};

/// Of the token around `text[at]`: what strict JSON leaves out and other writers put in; empty for others.
std::string_view constant_around(std::string_view text, std::size_t at) {
  constexpr std::array<std::string_view, 4> constants{"NaN", "Infinity", "nan", "inf"};
  const auto begin = text.substr(0, at).find_last_of(" \t\r\n,:[{");
  const auto token = text.substr(begin == std::string_view::npos ? 0 : begin + 1);
  const std::string_view unsigned_token = token.starts_with('-') ? token.substr(1) : token;
  const auto found =
      std::ranges::find_if(constants, [&](auto constant) { return unsigned_token.starts_with(constant); });
  return found == constants.end() ? std::string_view{} : *found;
}

bool Picker::parse_error(std::size_t position, const std::string& /*token*/, const nlohmann::detail::exception& error) {
  // The position counts the bytes read, so that the last of them is the one that does not fit.
  if (position > text_.size())
    throw JsonError{"cut off at byte " + std::to_string(text_.size()) + " in " + where(), true};
  const std::string at = "byte " + std::to_string(position) + " in " + where() + ": ";
  constexpr int number_overflow = 406;
  if (error.id == number_overflow) throw JsonError{at + "a number that does not fit a double"};
  if (std::string_view{error.what()}.find("ill-formed UTF-8") != std::string_view::npos)
    throw JsonError{at + "bytes that are no UTF-8"};
  const std::size_t last = position > 0 ? position - 1 : 0;
  if (const auto constant = constant_around(text_, last); !constant.empty())
    throw JsonError{at + std::string{constant} + " is no JSON"};
  throw JsonError{at + "no JSON at " + excerpt(text_.substr(last))};
}

}  // namespace

nlohmann::json pick_json(std::string_view text, const WantedJson& wanted) {
  Picker picker{text, wanted};
  if (!Json::sax_parse(text.begin(), text.end(), &picker)) throw JsonError{"no JSON text"};
  return std::move(picker.picked());
}

std::string shown_key(std::string_view key) {
  const bool identifier = std::ranges::all_of(key, [](unsigned char c) { return c == '_' || std::isalnum(c) != 0; });
  return identifier && excerpt(key).size() == key.size() + 2 ? std::string{key} : excerpt(key);
}

std::string excerpt(std::string_view text) {
  constexpr std::size_t longest = 48;
  const bool cut = text.size() > longest;
  if (cut) text = text.substr(0, longest);
  std::string shown = "'";
  for (const char c : text) {
    const bool plain = c >= ' ' && c <= '~';
    shown += plain ? c : '?';
  }
  return shown + (cut ? "...'" : "'");
}

}  // namespace mage
