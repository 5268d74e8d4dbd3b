// SPDX-License-Identifier: Apache-2.0
// What a measurement and a self-test have in common: a journal while they run, a store at the end, the same header.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/console.hpp"
#include "bench/journal.hpp"
#include "bench/nvml.hpp"
#include "bench/options.hpp"
#include "bench/runner.hpp"

namespace mage {

/// Before anything costs time: throws std::runtime_error where the store that the options name cannot be written.
void check_place_of_store(const Options& options);

class RunRecord {
 public:
  RunRecord(const Options& options, const Devices& devices);

  /// Takes the store's place. Throws std::runtime_error where it is taken or cannot be written.
  void open();
  /// The first entry; `context` is Google Benchmark's own.
  void append_header(nlohmann::ordered_json context, nlohmann::ordered_json options, nlohmann::ordered_json plan);
  /// Into memory and the journal. Throws RecordError.
  void append(nlohmann::ordered_json entry);
  /// True where the store was written; the journal goes only then. `holds` says what there is to lose, as in "7 rows".
  [[nodiscard]] bool save(const std::string& holds, Console& console);
  /// Without a store: for a journal that holds nothing.
  void discard() { journal_->remove(); }

  [[nodiscard]] const std::vector<nlohmann::ordered_json>& entries() const { return entries_; }
  [[nodiscard]] const nlohmann::ordered_json& store() const { return store_; }  ///< once saved
  [[nodiscard]] const std::string& store_path() const { return store_path_; }
  [[nodiscard]] const std::string& run_id() const { return run_id_; }
  [[nodiscard]] Nvml* nvml() const { return nvml_.get(); }  ///< null where there is none
  [[nodiscard]] bool library_is_debug() const { return library_is_debug_; }

 private:
  const Options& options_;
  const Devices& devices_;
  std::string run_id_, started_utc_, store_path_, nvml_why_not_;
  std::unique_ptr<Nvml> nvml_;
  std::unique_ptr<Journal> journal_;
  std::vector<nlohmann::ordered_json> entries_;
  nlohmann::ordered_json store_;
  bool library_is_debug_ = false;
};

}  // namespace mage
