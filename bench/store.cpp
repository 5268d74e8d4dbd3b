// SPDX-License-Identifier: Apache-2.0
#include "bench/store.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>

#include "bench/ceilings.hpp"
#include "bench/json_text.hpp"
#include "bench/statistics.hpp"

namespace mage {
namespace {

using Json = nlohmann::ordered_json;

/// What the entries say of one fixture beside its rows.
struct Outcome {
  std::string status = "ok";
  Json entry;  ///< the status entry, where there is one
  bool gated_after = false;
};

std::map<std::string, Outcome> outcomes(const std::vector<Json>& entries) {
  std::map<std::string, Outcome> by_name;
  for (const auto& entry : entries) {
    const auto& kind = entry.at("kind");
    if (kind == "status") {
      auto& outcome = by_name[entry.at("name")];
      if (outcome.status == "ok") {
        outcome.status = entry.at("status");
        outcome.entry = entry;
      }
    } else if (kind == "gate" && entry.at("when") == "after" && entry.at("ok") == true) {
      by_name[entry.at("name")].gated_after = true;
    }
  }
  return by_name;
}

Json without_kind(Json entry) {
  entry.erase("kind");
  return entry;
}

bool has_flag(const Json& flags, const char* flag) {
  return std::find(flags.begin(), flags.end(), flag) != flags.end();
}

void add_flag(Json& flags, const char* flag) {
  if (!has_flag(flags, flag)) flags.push_back(flag);
}

double number_at(const Json& object, const char* key) { return object.at(key).get<double>(); }

Json rate(double amount, double us, double scale) { return us > 0 ? Json(amount / us / scale) : Json(nullptr); }

std::optional<Limit> limit_of(const Json& row) {
  const auto& work = row.at("mage").at("work");
  const auto named = work.find("ceiling_of");
  return named != work.end() && named->is_string() ? parse_limit(named->get<std::string>()) : std::nullopt;
}

/// What the bounds need of one benchmark; rows of stores before there were ceilings lack some of it.
TimedWork timed_work(const Json& row, const Json& aggregate) {
  const auto& block = row.at("mage");
  const auto& work = block.at("work");
  TimedWork timed;
  timed.name = row.at("name");
  timed.mode = block.value("mode", std::string{});
  // Stores from before rows named their device held GPU variants in .cu files alone.
  const auto device = block.find("device");
  timed.on_gpu = device != block.end() ? *device == "cuda" : block.value("source", std::string{}).ends_with(".cu");
  timed.unstable = has_flag(aggregate.at("flags"), flag::unstable);
  timed.median_us = number_at(aggregate, "median_us");
  timed.work = {number_at(work, "flops"), number_at(work, "bytes_read"), number_at(work, "bytes_written"),
                limit_of(row)};
  return timed;
}

/// As the driver says; 0 where no GPU took part.
double l2_bytes(const Json& device) {
  if (!device.is_object()) return 0;
  const auto text = device.value("l2_bytes", Json(nullptr));
  return text.is_string() ? std::strtod(text.get<std::string>().c_str(), nullptr) : 0;
}

/// Objects down to `depth` levels and the lists in them get a line for each member; what is deeper stays on one line.
void append_text(const Json& value, int depth, int indent, std::string& text) {
  if (depth == 0 || !value.is_structured() || value.empty()) {
    text += json_text(value);
    return;
  }
  const std::string margin(static_cast<std::size_t>(indent) + 1, ' ');
  const bool object = value.is_object();
  text += object ? '{' : '[';
  bool first = true;
  for (const auto& [key, member] : value.items()) {
    text += first ? "\n" : ",\n";
    first = false;
    text += margin;
    if (object) text += json_text(Json(key)) + ": ";
    append_text(member, object ? depth - 1 : 0, indent + 1, text);
  }
  text += '\n' + std::string(static_cast<std::size_t>(indent), ' ') + (object ? '}' : ']');
}

}  // namespace

Json aggregate(const std::vector<const Json*>& rows) {
  const Json& first = rows.front()->at("mage");
  std::vector<double> medians;
  std::vector<double> floors;
  std::map<std::string, std::vector<double>> part_medians;
  std::int64_t samples = 0;
  std::int64_t gate_missed = 0;
  std::size_t unstable_rounds = 0;
  double quantum_us = 0;
  Json flags = Json::array();
  for (const auto* row : rows) {
    const auto& block = row->at("mage");
    medians.push_back(number_at(*row, "real_time"));
    if (!block.at("floor_us").is_null()) floors.push_back(number_at(block, "floor_us"));
    samples += static_cast<std::int64_t>(row->at("samples_us").size());
    if (const auto missed = block.find("gate_missed"); missed != block.end() && missed->is_number())
      gate_missed += missed->get<std::int64_t>();
    if (const auto step = block.find("quantum_us"); step != block.end() && step->is_number())
      quantum_us = step->get<double>();
    for (const auto& flag : block.at("flags")) {
      if (flag == flag::unstable)
        unstable_rounds += 1;
      else if (flag != flag::gate_missed)
        add_flag(flags, flag.get<std::string>().c_str());
    }
    for (const auto& [part, values] : block.at("parts_us").items())
      part_medians[part].push_back(statistics::median(values.get<std::vector<double>>()));
  }
  // A host that is interrupted now and then misses a gate; a median of many does not notice one in a hundred.
  if (gate_missed * 100 > samples) add_flag(flags, flag::gate_missed);
  const auto planned = first.at("rounds").get<std::size_t>();
  if (rows.size() < planned) add_flag(flags, flag::missing_rounds);
  if (5 * unstable_rounds > rows.size()) add_flag(flags, flag::unstable);
  const double median_us = statistics::median(medians);
  Json summary;
  summary["name"] = rows.front()->at("name");
  if (const auto runs = first.find("picked"); runs != first.end()) summary["picked"] = *runs;
  summary["rounds"] = rows.size();
  summary["rounds_planned"] = planned;
  summary["samples"] = samples;
  summary["gate_missed"] = gate_missed;
  summary["median_us"] = median_us;
  // Never narrower than the step of the clock: equal medians say that the time lies within one step, not that it is
  // known.
  const auto interval = statistics::t_interval_us(medians);
  summary["interval95_us"] = interval ? Json::array({std::min(interval->low, median_us - quantum_us / 2),
                                                     std::max(interval->high, median_us + quantum_us / 2)})
                                      : Json(nullptr);
  summary["quantum_us"] = quantum_us > 0 ? Json(quantum_us) : Json(nullptr);
  const auto resampled = statistics::bootstrap_interval_us(medians, 1);
  summary["bootstrap95_us"] = resampled ? Json::array({resampled->low, resampled->high}) : Json(nullptr);
  summary["min_round_us"] = *std::min_element(medians.begin(), medians.end());
  summary["max_round_us"] = *std::max_element(medians.begin(), medians.end());
  summary["floor_us"] = floors.empty() ? Json(nullptr) : Json(statistics::median(floors));
  Json parts = Json::object();
  for (const auto& [part, values] : part_medians) parts[part] = statistics::median(values);
  summary["part_medians_us"] = std::move(parts);
  const auto& work = first.at("work");
  // bytes / us / 1e3 = GB/s; flops / us / 1e6 = TFLOP/s
  summary["gbytes_per_s"] = rate(number_at(work, "bytes_read") + number_at(work, "bytes_written"), median_us, 1e3);
  summary["tflops"] = rate(number_at(work, "flops"), median_us, 1e6);
  const auto peak = first.find("peak_gbytes_per_s");
  if (peak != first.end() && peak->is_number() && summary.at("gbytes_per_s").is_number() &&
      summary.at("gbytes_per_s") > *peak)
    add_flag(flags, flag::above_dram_peak);
  summary["flags"] = std::move(flags);
  return summary;
}

std::vector<Json> aggregates(const std::vector<RowGroup>& groups, const Json& device) {
  std::vector<Json> summaries;
  std::vector<TimedWork> timed;
  for (const auto& rows : groups) {
    summaries.push_back(aggregate(rows));
    timed.push_back(timed_work(*rows.front(), summaries.back()));
  }
  const auto ceilings = find_ceilings(timed, l2_bytes(device));
  for (std::size_t i = 0; i < summaries.size(); ++i) {
    auto& summary = summaries[i];
    summary["ceiling"] = nullptr;
    if (const auto& ceiling = ceilings[i]) {
      summary["ceiling"] = {{"binds", to_string(ceiling->binds)},
                            {"source", ceiling->source},
                            {"bound_us", ceiling->bound_us},
                            {"fraction", ceiling->fraction},
                            {"why", ceiling->why}};
      if (ceiling->fraction > 1) add_flag(summary["flags"], flag::above_ceiling);
    }
  }
  return summaries;
}

bool measures_a_limit(const Json& row) { return limit_of(row).has_value(); }

int protocol_of(const Json& header) {
  const auto found = header.find("protocol");
  if (found == header.end()) return 1;  // the first was not written down
  if (!found->is_number_integer() || *found < 1 || *found > measuring_protocol)
    throw std::runtime_error{
        fmt::format("its header has the protocol {}; this mage_bench knows 1 to {}: recover it with the program that "
                    "measured",
                    found->dump(), measuring_protocol)};
  return found->get<int>();
}

Json assemble_store(const std::vector<Json>& entries) {
  if (entries.empty() || entries.front().at("kind") != "header")
    throw std::runtime_error{"a journal begins with its header; these entries do not"};
  const auto& header = entries.front();
  const auto by_name = outcomes(entries);

  Json rows = Json::array();
  std::map<std::string, std::int64_t> rows_withheld;
  std::set<std::pair<std::string, Json>> rounds;
  Json problems = Json::array();
  Json gates = Json::array();
  Json floors = Json::array();
  Json device_state = Json::array();
  Json proofs = Json::array();
  Json admissions = Json::array();
  Json end = nullptr;
  for (const auto& entry : entries) {
    const auto& kind = entry.at("kind");
    if (kind == "problem") problems.push_back(without_kind(entry));
    if (kind == "gate") gates.push_back(without_kind(entry));
    if (kind == "floor") floors.push_back(without_kind(entry));
    if (kind == "device") device_state.push_back(without_kind(entry));
    if (kind == "admission") admissions.push_back(without_kind(entry));
    if (kind == "proof") proofs.push_back(without_kind(entry));
    if (kind == "end") end = without_kind(entry);
    if (kind != "row") continue;
    auto row = entry.at("row");
    const std::string name = row.at("name");
    if (!rounds.emplace(name, row.at("mage").at("round")).second)
      throw std::invalid_argument{"'" + name + "' has a round twice"};
    const auto outcome = by_name.find(name);
    if (outcome != by_name.end() && outcome->second.status != "ok") {
      rows_withheld[name] += 1;  // a time exists only when every check passed
      continue;
    }
    if (outcome == by_name.end() || !outcome->second.gated_after)
      add_flag(row["mage"]["flags"], flag::unverified_after);
    rows.push_back(std::move(row));
  }

  std::map<std::string, std::size_t> group_by_name;
  std::vector<RowGroup> groups;
  for (const auto& row : rows) {
    const auto [place, added] = group_by_name.try_emplace(row.at("name"), groups.size());
    if (added) groups.emplace_back();
    groups[place->second].push_back(&row);
  }

  Json unavailable = Json::array();
  Json failed = Json::array();
  for (const auto& [name, outcome] : by_name) {
    if (outcome.status == "ok") continue;
    auto entry = without_kind(outcome.entry);
    if (outcome.status == "wrong" || outcome.status == "failed") {
      const auto withheld = rows_withheld.find(name);
      entry["rounds_withheld"] = withheld == rows_withheld.end() ? 0 : withheld->second;
      failed.push_back(std::move(entry));
    } else {
      unavailable.push_back(std::move(entry));
    }
  }

  Json mage;
  mage["schema"] = store_schema;
  mage["protocol"] = protocol_of(header);
  mage["complete"] = end.is_object() && end.at("interrupted") == false;
  for (const char* key : {"provenance", "options", "device", "plan"}) mage[key] = header.at(key);
  mage["problems"] = std::move(problems);
  mage["unavailable"] = std::move(unavailable);
  mage["failed"] = std::move(failed);
  mage["aggregates"] = aggregates(groups, header.at("device"));
  mage["admissions"] = std::move(admissions);
  mage["gates"] = std::move(gates);
  mage["floors"] = std::move(floors);
  mage["device_state"] = std::move(device_state);
  if (mage.at("options").contains("selftest")) mage["selftest"] = std::move(proofs);
  mage["end"] = std::move(end);

  Json store;
  store["context"] = header.at("context");
  store["benchmarks"] = std::move(rows);
  store["mage"] = std::move(mage);
  return store;
}

std::string store_text(const Json& store) {
  constexpr int levels = 3;  // the store, its parts, and the lists and objects in those
  std::string text;
  append_text(store, levels, 0, text);
  return text + '\n';
}

void write_store(const std::string& path, const Json& store, bool overwrite) {
  const auto failure = [&](const std::string& what, int error) {
    return std::runtime_error{"cannot write the store " + path + ": " + what + ": " + std::strerror(error)};
  };
  const std::string temporary = path + ".tmp." + std::to_string(::getpid());
  const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (descriptor < 0) throw failure("creating " + temporary, errno);
  const std::string text = store_text(store);
  int error = 0;
  for (std::size_t written = 0; written < text.size() && error == 0;) {
    const auto count = ::write(descriptor, text.data() + written, text.size() - written);
    if (count >= 0)
      written += static_cast<std::size_t>(count);
    else if (errno != EINTR)
      error = errno;
  }
  if (error == 0 && ::fsync(descriptor) != 0) error = errno;
  static_cast<void>(::close(descriptor));
  // link() fails where the target exists, rename() replaces it: both whole or not at all.
  if (error == 0)
    error = (overwrite ? ::rename(temporary.c_str(), path.c_str()) : ::link(temporary.c_str(), path.c_str())) == 0
                ? 0
                : errno;
  static_cast<void>(::unlink(temporary.c_str()));
  if (error == EEXIST) throw std::runtime_error{"the store " + path + " exists; use --mage_overwrite to replace it"};
  if (error != 0) throw failure("writing " + std::to_string(text.size()) + " bytes", error);
}

void prepare_folder_of(const std::string& path) {
  const std::filesystem::path file{path};
  std::error_code error;
  const auto type = std::filesystem::symlink_status(file, error).type();
  if (!file.has_filename() || type == std::filesystem::file_type::directory)
    throw std::runtime_error{"--benchmark_out=" + path + " is a folder; name a file"};
  if (error && type != std::filesystem::file_type::not_found)
    throw std::runtime_error{"--benchmark_out=" + path + ": " + error.message() + "; choose another name"};
  // A store is moved into place, which would put a file where a device, a pipe or a link was.
  if (type != std::filesystem::file_type::not_found && type != std::filesystem::file_type::regular)
    throw std::runtime_error{"--benchmark_out=" + path + " is no regular file; choose another name"};
  error.clear();
  if (!file.parent_path().empty()) std::filesystem::create_directories(file.parent_path(), error);
  if (error)
    throw std::runtime_error{"cannot create the folder " + file.parent_path().string() + ": " + error.message() +
                             "; choose another store with --benchmark_out"};
}

std::string default_store_path(const std::string& started_utc, const std::string& run_id) {
  std::string stamp;
  for (const char c : started_utc)
    if (c != '-' && c != ':') stamp += c;
  return "results/" + stamp + "-" + run_id.substr(0, 8) + ".json";
}

std::string journal_path(const std::string& store_path) { return store_path + std::string{journal_suffix}; }

std::string store_path_of(const std::string& journal) {
  if (!journal.ends_with(journal_suffix) || journal.size() == journal_suffix.size())
    throw std::invalid_argument{"'" + journal + "' is no journal's name; one ends in " + std::string{journal_suffix} +
                                ". Name the store with --benchmark_out"};
  return journal.substr(0, journal.size() - journal_suffix.size());
}

}  // namespace mage
