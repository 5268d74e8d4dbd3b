// SPDX-License-Identifier: Apache-2.0
#include "bench/run_record.hpp"

#include <fmt/format.h>

#include <exception>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "bench/benchmark_bridge.hpp"
#include "bench/provenance.hpp"
#include "bench/store.hpp"

namespace mage {
namespace {

using Json = nlohmann::ordered_json;

Json device_json(const Devices& devices, const Nvml* nvml, const std::string& nvml_why_not) {
  if (!devices.cuda) return nullptr;
  const auto& info = devices.cuda->info();
  Json device{{"name", info.name}};
  for (const auto& [key, value] : info.facts) device[key] = value;
  device["nvml"] = nvml != nullptr ? nvml->facts() : Json{{"unavailable", nvml_why_not}};
  return device;
}

void refuse_taken(const std::string& path, bool overwrite) {
  prepare_folder_of(path);
  if (std::filesystem::exists(path) && !overwrite)
    throw std::runtime_error{"the store " + path + " exists; use --mage_overwrite to replace it"};
}

}  // namespace

void check_place_of_store(const Options& options) {
  if (options.out.empty()) return;  // results/ is made when it is needed
  refuse_taken(options.out, options.overwrite);
  Journal{journal_path(options.out)}.remove();
}

RunRecord::RunRecord(const Options& options, const Devices& devices)
    : options_{options}, devices_{devices}, run_id_{make_run_id()} {
  if (devices_.cuda) nvml_ = Nvml::load(nvml_why_not_, &devices_.cuda->info());
  started_utc_ = utc_now();
  store_path_ = options.out.empty() ? default_store_path(started_utc_, run_id_) : options.out;
}

void RunRecord::open() {
  refuse_taken(store_path_, options_.overwrite);
  journal_ = std::make_unique<Journal>(journal_path(store_path_));
}

void RunRecord::append_header(Json context, Json options, Json plan) {
  for (const auto& [key, value] : options_.context)
    if (!context.emplace(key, value).second)  // of a Google Benchmark that knows more keys than our options refuse
      throw std::runtime_error{"--benchmark_context: key '" + key + "' is the run's own; choose another"};
  context["mage_schema"] = store_schema;
  context["mage_run_id"] = run_id_;
  library_is_debug_ = benchmark_library_is_debug(context);
  append({{"kind", "header"},
          {"schema", store_schema},
          {"protocol", measuring_protocol},
          {"context", std::move(context)},
          {"provenance", collect_provenance(options_.argv, run_id_, started_utc_)},
          {"options", std::move(options)},
          {"device", device_json(devices_, nvml_.get(), nvml_why_not_)},
          {"plan", std::move(plan)}});
}

void RunRecord::append(Json entry) {
  entries_.push_back(std::move(entry));
  try {
    journal_->append(entries_.back());
  } catch (const std::exception& error) {
    throw RecordError{error.what()};
  }
}

bool RunRecord::save(const std::string& holds, Console& console) {
  store_ = assemble_store(entries_);
  try {
    prepare_folder_of(store_path_);  // it may have gone since
    write_store(store_path_, store_, options_.overwrite);
  } catch (const std::exception& error) {
    console.complain(
        fmt::format("{}\n{} stand in {}; free space or choose another place, then run "
                    "mage_bench --mage_recover={} --benchmark_out=PATH",
                    error.what(), holds, journal_->path(), journal_->path()));
    return false;
  }
  journal_->remove();
  return true;
}

}  // namespace mage
