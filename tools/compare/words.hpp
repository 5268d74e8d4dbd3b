// SPDX-License-Identifier: Apache-2.0
// How figures and modes read, the same in every report.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "bench/statistics.hpp"
#include "tools/compare/report.hpp"

namespace mage::compare {

/// What a sample of the mode contains, in a sentence.
[[nodiscard]] std::string boundary(const std::string& mode);
/// A line a mode, for the legend.
[[nodiscard]] std::vector<std::string> boundaries(const std::set<std::string>& modes);

// "-" where there is nothing.
[[nodiscard]] std::string microseconds(std::optional<double> us);
[[nodiscard]] std::string ratio(std::optional<double> value);
[[nodiscard]] std::string interval(const std::optional<statistics::Interval>& value);
[[nodiscard]] std::string probability(std::optional<double> value);
[[nodiscard]] std::string join(const std::vector<std::string>& items, const char* between);

/// A name in a store may hold anything, and a terminal obeys control characters and what turns the reading direction.
/// Each becomes one '?'.
[[nodiscard]] std::string harmless(std::string_view text);

/// null where there is nothing, or nothing finite.
[[nodiscard]] Json number(std::optional<double> value);

[[nodiscard]] double median_us(const StoredBenchmark& benchmark);

/// Path, run, time, commit and machine of a store, in a line and as fields.
[[nodiscard]] std::string describe(const StoreContents& store);
[[nodiscard]] Json fields_of(const StoreContents& store);
/// The fields that every report begins with.
[[nodiscard]] Json head_of(const char* report, const std::vector<const StoreContents*>& stores);

}  // namespace mage::compare
