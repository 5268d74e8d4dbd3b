// SPDX-License-Identifier: Apache-2.0
// Reads what is wanted of a JSON text in one pass. The rest is checked to be JSON and dropped as it goes by, so that
// memory follows what is wanted and not the text.
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace mage {

/// A text that is no JSON, or has a wanted key twice in one object; where, and what is wrong.
class JsonError : public std::runtime_error {
 public:
  explicit JsonError(const std::string& message, bool cut_off = false)
      : std::runtime_error{message}, cut_off_{cut_off} {}
  /// The text ended before its value did.
  [[nodiscard]] bool cut_off() const { return cut_off_; }

 private:
  bool cut_off_;
};

struct WantedMember;

/// What is wanted of one value. Neither `members` nor `each`: a plain value; a list or an object in its place is kept
/// as an empty one, which tells its type.
struct WantedJson {
  std::vector<WantedMember> members;          ///< of an object, by name
  std::vector<WantedJson> each;               ///< at most one: all elements of a list, or members of any name
  std::function<void(nlohmann::json&)> take;  ///< gets the value once it is read; then it is dropped
};

struct WantedMember {
  std::string key;
  WantedJson wanted;
};

/// Throws JsonError, and whatever a `take` throws.
[[nodiscard]] nlohmann::json pick_json(std::string_view text, const WantedJson& wanted);

/// Fit for a message: on one line, without what a terminal would obey, and cut where it is long.
[[nodiscard]] std::string excerpt(std::string_view text);
/// The same for an object's key, which is not quoted where it is an identifier.
[[nodiscard]] std::string shown_key(std::string_view key);

}  // namespace mage
