// SPDX-License-Identifier: Apache-2.0
// The members of a JSON object by type; what is missing or of another type is an error that says where it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "bench/json_picker.hpp"

namespace mage {

/// What is wrong with a field: where it is, and what to do.
class FieldError : public std::runtime_error {
 public:
  explicit FieldError(const std::string& what, const char* advice = "mage_bench did not write that: take another copy")
      : std::runtime_error{what + "; " + advice} {}
};

[[nodiscard]] inline std::string described(const nlohmann::json& value) {
  switch (value.type()) {
    case nlohmann::json::value_t::null: return "null";
    case nlohmann::json::value_t::object: return "an object";
    case nlohmann::json::value_t::array: return "a list";
    case nlohmann::json::value_t::string: return excerpt(value.get_ref<const std::string&>());
    default: return value.dump();
  }
}

/// An object of the store and its place there, such as "benchmarks[17]"; gives its members by type.
class Fields {
 public:
  Fields(const nlohmann::json& object, std::string_view list, std::size_t index)
      : object_{&object}, list_{list}, index_{static_cast<std::ptrdiff_t>(index)} {
    require_object();
  }
  /// `name` is empty for the outermost object.
  Fields(const nlohmann::json& object, std::string_view name) : object_{&object}, list_{name} { require_object(); }

  [[nodiscard]] Fields object(std::string_view key) const {
    const auto& member = at(key);
    if (!member.is_object()) wrong(key, "an object");
    return Fields{*this, key, member};
  }
  [[nodiscard]] const nlohmann::json& list(std::string_view key) const {
    const auto& member = at(key);
    if (!member.is_array()) wrong(key, "a list");
    return member;
  }
  [[nodiscard]] const std::string& text(std::string_view key) const {
    const auto& member = at(key);
    if (!member.is_string() || member.get_ref<const std::string&>().empty()) wrong(key, "a text that is not empty");
    return member.get_ref<const std::string&>();
  }
  /// Empty where there is none.
  [[nodiscard]] std::string text_or_absent(std::string_view key) const {
    return object_->contains(key) ? text(key) : std::string{};
  }
  /// Empty where it is null.
  [[nodiscard]] std::string text_or_null(std::string_view key) const {
    const auto& member = at(key);
    if (member.is_null()) return {};
    if (!member.is_string()) wrong(key, "a text or null");
    return member.get_ref<const std::string&>();
  }
  [[nodiscard]] bool boolean(std::string_view key) const {
    const auto& member = at(key);
    if (!member.is_boolean()) wrong(key, "true or false");
    return member.get<bool>();
  }
  [[nodiscard]] std::optional<bool> boolean_or_null(std::string_view key) const {
    if (at(key).is_null()) return std::nullopt;
    return boolean(key);
  }
  [[nodiscard]] std::uint64_t whole(std::string_view key, std::uint64_t least, std::uint64_t most) const {
    const auto& member = at(key);
    if (!member.is_number_unsigned() || member.get<std::uint64_t>() < least || member.get<std::uint64_t>() > most)
      wrong(key, "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
    return member.get<std::uint64_t>();
  }
  [[nodiscard]] int count(std::string_view key, int least) const {
    return static_cast<int>(
        whole(key, static_cast<std::uint64_t>(least), static_cast<std::uint64_t>(std::numeric_limits<int>::max())));
  }
  [[nodiscard]] double number(std::string_view key) const {
    const auto& member = at(key);
    if (!member.is_number()) wrong(key, "a number");
    return member.get<double>();
  }
  [[nodiscard]] double positive(std::string_view key) const {
    const auto& member = at(key);
    if (!member.is_number() || !(member.get<double>() > 0)) wrong(key, "a number above 0");
    return member.get<double>();
  }
  [[nodiscard]] double not_negative(std::string_view key) const {
    const auto& member = at(key);
    if (!member.is_number() || !(member.get<double>() >= 0)) wrong(key, "a number of at least 0");
    return member.get<double>();
  }
  [[nodiscard]] bool is_null(std::string_view key) const { return at(key).is_null(); }
  [[nodiscard]] bool has(std::string_view key) const { return object_->contains(key); }
  [[nodiscard]] const nlohmann::json& json() const { return *object_; }

  /// "benchmarks[17].mage"; "the file" for the outermost object.
  [[nodiscard]] std::string where() const {
    const std::string path = path_to("");
    return path.empty() ? "the file" : path;
  }
  [[noreturn]] void object_to(const std::string& what) const { throw FieldError{where() + ' ' + what}; }

 private:
  Fields(const Fields& outer, std::string_view key, const nlohmann::json& object)
      : object_{&object}, list_{outer.list_}, index_{outer.index_}, inner_{outer.inner_} {
    if (!inner_.empty()) inner_ += '.';
    inner_ += key;
  }

  [[nodiscard]] std::string path_to(std::string_view key) const {
    std::string path{list_};
    if (index_ >= 0) path += '[' + std::to_string(index_) + ']';
    if (!inner_.empty()) path += (path.empty() ? "" : ".") + inner_;
    if (!key.empty()) path += (path.empty() ? "" : ".") + shown_key(key);
    return path;
  }
  void require_object() const {
    if (!object_->is_object()) object_to("is " + described(*object_) + ", and should be an object");
  }
  [[nodiscard]] const nlohmann::json& at(std::string_view key) const {
    const auto found = object_->find(key);
    if (found == object_->end()) object_to("has no field " + shown_key(key));
    return *found;
  }
  [[noreturn]] void wrong(std::string_view key, const std::string& expected) const {
    throw FieldError{path_to(key) + " is " + described(at(key)) + ", and should be " + expected};
  }

  const nlohmann::json* object_;
  std::string_view list_;
  std::ptrdiff_t index_ = -1;
  std::string inner_;
};

}  // namespace mage
