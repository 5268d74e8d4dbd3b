// SPDX-License-Identifier: Apache-2.0
#include "bench/program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>

#include "bench/admission/admission.hpp"
#include "bench/console.hpp"
#include "bench/journal.hpp"
#include "bench/measurement.hpp"
#include "bench/options.hpp"
#include "bench/plan.hpp"
#include "bench/provenance.hpp"
#include "bench/run_record.hpp"
#include "bench/runner.hpp"
#include "bench/selftest/selftest.hpp"
#include "bench/store.hpp"
#include "bench/store_reader.hpp"

namespace mage {
namespace {

using Json = nlohmann::ordered_json;

extern "C" void on_signal(int signal) {
  interrupt_signal = signal;
  // A second one ends the process at once; the journal holds what was measured.
  static_cast<void>(std::signal(signal, SIG_DFL));
}

/// Where the text is all that was asked for.
void print(Console& console, const std::string& text) {
  if (!console.text(text)) throw std::runtime_error{fmt::format("cannot write to stdout: {}", std::strerror(errno))};
}

/// A journal holds what mage_bench does not write.
class ChangedError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The store of these entries, which mage_compare can read.
Json readable_store(const std::vector<Json>& entries, const std::string& journal) {
  const auto wrong_value = [&](const std::exception& error) {
    return ChangedError{journal + " has values that mage_bench does not write: it was changed (" + error.what() + ")"};
  };
  try {
    auto store = assemble_store(entries);
    static_cast<void>(parse_store(store_text(store), "its store"));
    return store;
  } catch (const Json::exception&) {
    throw ChangedError{journal + " has lines without the fields that mage_bench writes: it was changed"};
  } catch (const std::invalid_argument& error) {
    throw wrong_value(error);
  } catch (const StoreError& error) {
    throw wrong_value(error);
  }
}

/// Lines that are JSON, but of which no store can be made even where they are alone behind the header.
void leave_out_damaged(JournalContents& contents, const std::string& journal) {
  auto header = contents.entries.front();
  header["plan"] = nullptr;  // large, and no line is judged by it
  JournalContents whole{{contents.entries.front()}, {contents.lines.front()}, std::move(contents.damaged_lines)};
  for (std::size_t i = 1; i < contents.entries.size(); ++i) {
    try {
      static_cast<void>(readable_store({header, contents.entries[i]}, journal));
      whole.entries.push_back(std::move(contents.entries[i]));
      whole.lines.push_back(contents.lines[i]);
    } catch (const ChangedError&) {
      whole.damaged_lines.push_back(contents.lines[i]);
    }
  }
  std::sort(whole.damaged_lines.begin(), whole.damaged_lines.end());
  contents = std::move(whole);
}

Json store_of(JournalContents& contents, const std::string& journal) {
  const auto& named = contents.entries.front().value("schema", Json(nullptr));
  const auto schema = named.is_string() ? named.get<std::string>() : std::string{"none"};
  if (schema != store_schema)
    throw std::runtime_error{
        fmt::format("{} has the schema {}; this mage_bench writes {}: recover it with the program "
                    "that measured",
                    journal, schema, store_schema)};
  try {  // before what takes a line that it cannot read for a damaged one
    static_cast<void>(protocol_of(contents.entries.front()));
  } catch (const std::runtime_error& error) {
    throw std::runtime_error{journal + ": " + error.what()};
  }
  try {
    return readable_store(contents.entries, journal);
  } catch (const ChangedError&) {
    leave_out_damaged(contents, journal);
  }
  return readable_store(contents.entries, journal);
}

int recover(const Options& options, Console& console) {
  if (is_being_written(options.recover))
    throw std::runtime_error{"the journal " + options.recover +
                             " is still being written by another process; wait for it or stop it"};
  auto contents = read_journal(options.recover);
  const auto path = options.out.empty() ? store_path_of(options.recover) : options.out;
  const auto store = store_of(contents, options.recover);
  prepare_folder_of(path);
  write_store(path, store, options.overwrite);
  const auto proofs = store.at("mage").value("selftest", Json::array()).size();
  console.line(fmt::format("recovered {} rows of {} benchmarks{}; store: {}", store.at("benchmarks").size(),
                           store.at("mage").at("aggregates").size(),
                           proofs > 0 ? fmt::format(" and {} proofs", proofs) : "", path));
  if (!contents.damaged_lines.empty())
    console.complain(fmt::format("{}: {} lines are cut off or damaged and were left out, the first is line {}",
                                 options.recover, contents.damaged_lines.size(), contents.damaged_lines.front()));
  return store.at("benchmarks").empty() && proofs == 0 ? exit_code::nothing_measured : exit_code::measured;
}

int verify_only(const Options& options, const Plan& plan, Devices& devices, Console& console) {
  std::vector<Json> entries;
  Json unavailable = Json::array();
  Json failed = Json::array();
  int passed = 0;
  const auto record = [&](const Json& entry) {
    if (entry.at("kind") == "gate" && entry.at("when") == "after" && entry.at("ok") == true) {
      console.line(fmt::format("ok    {}  worst error / bound {:.3f}", entry.at("name").get<std::string>(),
                               entry.at("worst_error_over_bound").get<double>()));
      passed += 1;
    }
    if (entry.at("kind") == "status") {
      const bool wrong = entry.at("status") == "wrong" || entry.at("status") == "failed";
      (wrong ? failed : unavailable).push_back(entry);
    }
  };
  for (const auto& fixture : plan.fixtures)
    if (fixture.status != Status::ok)
      record({{"kind", "status"},
              {"name", fixture.name},
              {"status", to_string(fixture.status)},
              {"reason", fixture.detail}});
  Runner runner{options, plan, devices, 1, {record, {}, {}}};
  for (std::size_t p = 0; p < plan.problems.size() && interrupt_signal == 0; ++p)
    if (!plan.problems[p].steps.empty()) runner.verify(p);
  console.without_time(unavailable, failed);
  console.line(fmt::format("{} passed both gates, {} wrong or failed", passed, failed.size()));
  if (interrupt_signal != 0) return exit_code::interrupted;
  if (runner.failures() + plan.failures() > 0) return exit_code::row_failed;
  return passed == 0 ? exit_code::nothing_measured : exit_code::measured;
}

void catch_signals() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP})
    // What the caller had ignored, as nohup does, stays ignored.
    if (std::signal(number, on_signal) == SIG_IGN) static_cast<void>(std::signal(number, SIG_IGN));
}

int measure(const Options& options, Console& console) {
  if (const auto reason = refuse_environment()) {
    console.complain(*reason);
    return exit_code::usage;
  }
  const auto presence = cuda_presence();
  if (options.require_gpu && presence.why_not) {
    console.complain(fmt::format("--mage_require_gpu: {}", presence.detail));
    return exit_code::row_failed;
  }
  if (options.selftest) {
    const auto proofs = selftest::choose(options.selftest_names, selftest::proofs());
    const bool clones = std::any_of(proofs.begin(), proofs.end(), [](const selftest::Proof& proof) {
      return std::string_view{proof.name} == "null_comparisons";
    });
    if (options.filter != "." && (!clones || select_fixtures(options, {presence, 1000, 0, 0}).empty())) {
      console.complain(
          clones ? "--benchmark_filter selects no benchmark, so null_comparisons would compare none of them"
                 : "--benchmark_filter is for the proof null_comparisons, which is not among those asked for");
      return exit_code::usage;
    }
    Devices both{make_host_device(), presence.why_not ? nullptr : make_cuda_device(options.device)};
    catch_signals();
    return selftest::run(proofs, options, both, presence.detail, console);
  }
  Devices devices{make_host_device(), nullptr};
  // Only where a CUDA row is selected: a host run needs no context.
  Machine machine{presence, 1000, 0, 0};
  const auto wanted = select_fixtures(options, machine);
  if (wanted.empty()) {
    console.complain(what_exists(options, machine));
    return exit_code::nothing_measured;
  }
  Admissions admissions;
  if (!options.dry_run) {
    catch_signals();
    if (!options.verify_only) check_place_of_store(options);
    // Before this process opens the device, which may allow one process only.
    admissions = admit(options, wanted, console);
    if (interrupt_signal != 0) {
      console.complain("interrupted while variants were tried: nothing was measured");
      return exit_code::interrupted;
    }
  }
  const bool needs_cuda = std::any_of(wanted.begin(), wanted.end(), [](const Fixture& fixture) {
    return fixture.status == Status::ok && !fixture.variant->on_host();
  });
  if (needs_cuda) devices.cuda = make_cuda_device(options.device);
  machine = describe_machine(presence, devices.cuda.get());
  auto fixtures = select_fixtures(options, machine);
  withhold(admissions, fixtures);
  const auto plan = make_plan(std::move(fixtures), options);
  if (options.dry_run) {
    print(console, describe_plan(plan, options));
    return exit_code::measured;
  }
  if (options.verify_only) return verify_only(options, plan, devices, console);
  if (plan.steps() == 0) {
    Json unavailable = Json::array();
    Json failed = Json::array();
    for (const auto& fixture : plan.fixtures)
      (fixture.status == Status::wrong || fixture.status == Status::failed ? failed : unavailable)
          .push_back({{"name", fixture.name}, {"status", to_string(fixture.status)}, {"reason", fixture.detail}});
    console.without_time(unavailable, failed);
    console.complain("nothing that was selected can be measured here");
    return plan.failures() == 0 ? exit_code::nothing_measured : exit_code::row_failed;
  }
  return run_measurement(options, plan, admissions, devices, console);
}

}  // namespace

int run_program(const std::vector<std::string>& argv) {
  // A reader of our output that leaves, as head does, must not end a measurement.
  static_cast<void>(std::signal(SIGPIPE, SIG_IGN));
  // A file size limit then is an error of write(), like a full disk.
  static_cast<void>(std::signal(SIGXFSZ, SIG_IGN));
  const auto parsed = parse_options(argv);
  if (!parsed.options && parsed.exit != 0) {
    static_cast<void>(std::fputs(parsed.message.c_str(), stderr));
    return parsed.exit;
  }
  Console console{parsed.options ? parsed.options->color : Color::no};
  try {
    if (!parsed.options) {
      print(console, parsed.message);
      return parsed.exit;
    }
    const auto& options = *parsed.options;
    if (!options.recover.empty()) return recover(options, console);
    if (!options.trials.empty()) return run_trials(options);
    if (options.list) {
      const Machine no_matter{{1, std::nullopt, {}}, 1000, 0, 0};
      const auto fixtures = select_fixtures(options, no_matter);
      if (fixtures.empty()) {
        console.complain(what_exists(options, no_matter));
        return exit_code::nothing_measured;
      }
      print(console, list_fixtures(fixtures, *options.list));
      return exit_code::measured;
    }
    return measure(options, console);
  } catch (const std::invalid_argument& error) {
    console.complain(error.what());
    return exit_code::usage;
  } catch (const std::exception& error) {
    console.complain(error.what());
    return exit_code::row_failed;
  }
}

}  // namespace mage
