// SPDX-License-Identifier: Apache-2.0
// The store: Benchmark's JSON with our tail, always assembled from a journal's entries, so that an orderly end and a
// recovery write the same file. docs/store.md describes every field.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace mage {

inline constexpr const char* store_schema = "mage_bench/store/1";
/// Raised where the same row of the same program would come to another figure; docs/store.md says what changed.
inline constexpr int measuring_protocol = 3;
/// Of a journal's name, after that of its store.
inline constexpr std::string_view journal_suffix = ".journal.jsonl";

/// Flags of a row or an aggregate; docs/store.md says what each means.
namespace flag {
inline constexpr const char* above_ceiling = "above_ceiling";
inline constexpr const char* above_dram_peak = "above_dram_peak";
inline constexpr const char* clock_moved = "clock_moved";
inline constexpr const char* clock_unsettled = "clock_unsettled";
inline constexpr const char* counter_example = "counter_example";
inline constexpr const char* fewer_samples = "fewer_samples";
inline constexpr const char* floor_dominated = "floor_dominated";
inline constexpr const char* gains_by_repetition = "gains_by_repetition";
inline constexpr const char* gate_missed = "gate_missed";
inline constexpr const char* launch_bound = "launch_bound";
inline constexpr const char* missing_rounds = "missing_rounds";
inline constexpr const char* persisting_l2_denied = "persisting_l2_denied";
inline constexpr const char* perturbed = "perturbed";
inline constexpr const char* throttled = "throttled";
inline constexpr const char* unstable = "unstable";
inline constexpr const char* unverified_after = "unverified_after";
}  // namespace flag

/// Of a journal's header. Throws std::runtime_error where it is none that this program knows.
[[nodiscard]] int protocol_of(const nlohmann::ordered_json& header);

/// Throws std::runtime_error where the entries are not those of a journal.
[[nodiscard]] nlohmann::ordered_json assemble_store(const std::vector<nlohmann::ordered_json>& journal_entries);

/// One fixture over its rounds; what the console shows and what stands under mage.aggregates.
[[nodiscard]] nlohmann::ordered_json aggregate(const std::vector<const nlohmann::ordered_json*>& rows);

/// The rows of one benchmark, in the order of its rounds.
using RowGroup = std::vector<const nlohmann::ordered_json*>;

/// aggregate() of each group, and beside each what the others say of the machine's limits. `device` is the header's.
[[nodiscard]] std::vector<nlohmann::ordered_json> aggregates(const std::vector<RowGroup>& groups,
                                                             const nlohmann::ordered_json& device);

/// Whether a benchmark is there to measure a limit of the machine: others need its rows.
[[nodiscard]] bool measures_a_limit(const nlohmann::ordered_json& row);

/// JSON text with one line for each row and for each entry of a list of the mage block: small, and fit for diff.
[[nodiscard]] std::string store_text(const nlohmann::ordered_json& store);

/// Writes to a temporary beside `path` and moves it there, so that `path` is whole or absent.
/// Without `overwrite` an existing file is left alone. Throws std::runtime_error.
void write_store(const std::string& path, const nlohmann::ordered_json& store, bool overwrite);

/// Creates the folder that `path` lies in. Throws std::runtime_error where it cannot, or where `path` names a folder.
void prepare_folder_of(const std::string& path);

/// results/<utc>-<id>.json
[[nodiscard]] std::string default_store_path(const std::string& started_utc, const std::string& run_id);
[[nodiscard]] std::string journal_path(const std::string& store_path);
/// The store that belongs to a journal; throws std::invalid_argument where the name is not a journal's.
[[nodiscard]] std::string store_path_of(const std::string& journal);

}  // namespace mage
