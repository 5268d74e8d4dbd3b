// SPDX-License-Identifier: Apache-2.0
// Faults planted in a variant that only this process knows, and a second process that is misused and killed.
#include "bench/selftest/failures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/child_process.hpp"
#include "bench/journal.hpp"
#include "bench/selftest/subject.hpp"
#include "bench/store.hpp"

namespace mage::selftest {
namespace {

using Json = nlohmann::ordered_json;
using Prepare = Launch (*)(detail::ErasedFunction, const void* problem, const void* args);

// A prepare function is told its problem and its memory only. What the planted ones wrap stands here.
const VariantInfo* wrapped_variant = nullptr;
Device* wrapped_device = nullptr;
int wrapped_calls = 0;  // of all its bindings: each round has one of its own

/// The real operation, and after it `then(device, calls so far)`.
template <class Then>
Launch wrapped(const void* problem, const void* args, const Then& then) {
  const auto& erased = wrapped_variant->erased;
  auto inner = std::make_shared<Launch>(erased.call_prepare(erased.prepare, problem, args));
  return [inner, device = wrapped_device, then](StreamHandle stream) {
    if (then.before(++wrapped_calls)) (*inner)(stream);
    then.after(*device);
  };
}

struct ThenNothing {
  int last_call = 0;  ///< the operation is left out after that many
  [[nodiscard]] bool before(int call) const { return call <= last_call; }
  void after(Device&) const {}
};
struct EverySecond {
  [[nodiscard]] bool before(int call) const { return call % 2 == 0; }
  void after(Device&) const {}
};
struct ThenSynchronize {
  [[nodiscard]] bool before(int) const { return true; }
  void after(Device& device) const { device.synchronize(); }
};

Launch writes_nothing(detail::ErasedFunction, const void*, const void*) {
  return [](StreamHandle) {};
}
Launch throws(detail::ErasedFunction, const void*, const void*) {
  return [](StreamHandle) { throw std::runtime_error{"planted by the self-test"}; };
}
Launch stops_working(detail::ErasedFunction, const void* problem, const void* args) {
  return wrapped(problem, args, ThenNothing{20});  // through the gate and into the first rounds
}
Launch works_every_second_time(detail::ErasedFunction, const void* problem, const void* args) {
  return wrapped(problem, args, EverySecond{});
}
Launch synchronizes(detail::ErasedFunction, const void* problem, const void* args) {
  return wrapped(problem, args, ThenSynchronize{});
}

struct Fault {
  const char* what;
  Prepare prepare;
  TimingMode mode;
  std::vector<std::string> expected;  ///< status, or status and code; any of these
};

class Failures {
 public:
  Failures(Context& context, std::filesystem::path program) : context_{context}, program_{std::move(program)} {}

  ProofResult run() {
    planted_on_host();
    context_.progress(0.2);
    planted_on_cuda();
    context_.progress(0.3);
    if (!context_.interrupted()) exit_codes();
    context_.progress(0.6);
    if (!context_.interrupted()) killed();
    context_.progress(0.8);
    if (!context_.interrupted()) libraries_absent();
    not_provoked("an address that is not the operation's",
                 "it costs a process its device, and no registered variant does it");
    not_provoked(
        "CUPTI held by another tool",
        "no tool can attach from inside; under ncu or compute-sanitizer mode kernel is unavailable: cupti_busy");
    return std::move(result_);
  }

 private:
  void not_provoked(std::string what, const std::string& why) {
    result_.checks.push_back({std::move(what), "a status", "not provoked here: " + why, Outcome::skipped});
  }

  void planted_on_host() {
    const auto subject = smallest_subject(*context_.devices.host);
    if (!subject) throw std::runtime_error{"no variant runs on the host, so that no fault can be planted in one"};
    for (const auto& fault :
         {Fault{"an operation that writes nothing", writes_nothing, TimingMode::host, {"wrong"}},
          Fault{"an operation that throws", throws, TimingMode::host, {"failed"}},
          Fault{"an operation that works on every second call", works_every_second_time, TimingMode::host, {"wrong"}},
          Fault{"an operation that stops working in the rounds", stops_working, TimingMode::host, {"wrong"}}})
      plant(fault, *subject);
  }

  void planted_on_cuda() {
    const char* what = "an operation that cannot be captured";
    if (!context_.devices.cuda) {
      result_.checks.push_back({what, "unavailable", context_.no_cuda_reason, Outcome::unavailable});
      return;
    }
    const auto subject = smallest_subject(*context_.devices.cuda);
    if (!subject) {
      result_.checks.push_back({what, "unavailable", "no variant runs on this device", Outcome::unavailable});
      return;
    }
    plant({what, synchronizes, TimingMode::graph, {"unavailable: capture_illegal", "unavailable: needs_sync"}},
          *subject);
  }

  void plant(const Fault& fault, const Subject& subject) {
    VariantInfo planted = *subject.variant;
    planted.erased.call_prepare = fault.prepare;
    wrapped_variant = subject.variant;
    wrapped_device = &context_.devices.of(planted);
    wrapped_calls = 0;
    Options options;
    options.rounds = 4;
    options.samples = 4;
    const auto plan = make_plan({subject.fixture(planted, fault.mode)}, options);
    std::vector<Json> entries;
    Runner runner{options, plan, context_.devices, 1, {[&](const Json& entry) { entries.push_back(entry); }, {}, {}}};
    for (const auto& step : plan.problems.at(0).steps)
      if (auto result = runner.run(0, step))
        entries.push_back({{"kind", "row"}, {"row", {{"name", plan.fixtures[0].name}}}});
    runner.finish(context_.interrupted());
    if (context_.interrupted()) return;
    std::string status = "ok";
    std::string reason;
    for (const auto& entry : entries)
      if (entry.at("kind") == "status") {
        status = entry.at("status");
        if (entry.at("code").is_string()) status += ": " + entry.at("code").get<std::string>();
        reason = entry.at("reason");
      }
    std::string expected;
    for (const auto& one : fault.expected) expected += (expected.empty() ? "" : " or ") + one;
    const bool as_expected = std::find(fault.expected.begin(), fault.expected.end(), status) != fault.expected.end();
    add_check(result_, fault.what, expected, status, as_expected);
    // The program exits with 1 where this is not 0.
    const int failures = status.starts_with("unavailable") ? 0 : 1;
    if (runner.failures() != failures)
      add_check(result_, fmt::format("{}: benchmarks that count as failed", fault.what), std::to_string(failures),
                std::to_string(runner.failures()), false);
    result_.data["planted"].push_back({{"what", fault.what}, {"status", status}, {"reason", reason}});
  }

  [[nodiscard]] ChildProcess start(const std::vector<std::string>& arguments,
                                   std::map<std::string, std::string> variables = {}) const {
    // On a busy machine a team of threads waits long for the one of it that was put aside.
    variables.emplace("OMP_NUM_THREADS", "1");
    return ChildProcess{program_, arguments, folder_.path() / "log", variables};
  }
  [[nodiscard]] int run_child(const std::vector<std::string>& arguments,
                              const std::map<std::string, std::string>& variables = {}) const {
    return start(arguments, variables).wait();
  }
  void add_exit_check(std::string what, int expected, int code) {
    add_check(result_, std::move(what), fmt::format("exit code {}", expected), fmt::format("exit code {}", code),
              code == expected);
  }

  /// Nothing where it is no strict JSON; the check says so.
  Json parse_store(const std::filesystem::path& path, const std::string& what) {
    std::ifstream file{path};
    auto store = Json::parse(std::string{std::istreambuf_iterator<char>{file}, {}}, nullptr, false);
    const bool whole = store.is_object() && store.contains("benchmarks") && store.contains("mage");
    add_check(result_, what, "strict JSON", whole ? "strict JSON" : "not even a store", whole);
    return whole ? store : Json();
  }

  [[nodiscard]] std::vector<std::string> quick(const std::string& filter, const std::filesystem::path& out) const {
    return {"--benchmark_filter=" + filter, "--benchmark_out=" + out.string(), "--mage_rounds=2", "--mage_samples=3"};
  }
  [[nodiscard]] std::string host_filter() const {
    return filter_of(smallest_subject(*context_.devices.host).value().name(TimingMode::host));
  }

  void exit_codes() {
    const auto out = folder_.path() / "store.json";
    add_exit_check("a filter that matches nothing", exit_code::nothing_measured,
                   run_child(quick("^no such name$", out)));
    add_exit_check("a flag that does not exist", exit_code::usage, run_child({"--mage_no_such_flag"}));
    add_exit_check("a run of one benchmark", exit_code::measured, run_child(quick(host_filter(), out)));
    const auto store = parse_store(out, "its store");
    if (store.is_null()) return;
    const auto rows = store.at("benchmarks").size();
    add_check(result_, "rows in it", "2", std::to_string(rows), rows == 2);
    add_exit_check("a second run to the same store", exit_code::row_failed, run_child(quick(host_filter(), out)));
  }

  /// SIGKILL between or inside rounds, and then the last line cut in two as a full disk would.
  void killed() {
    const auto out = folder_.path() / "killed.json";
    const auto journal = journal_path(out.string());
    auto child = start({"--benchmark_filter=" + host_filter(), "--benchmark_out=" + out.string(), "--mage_rounds=500",
                        "--mage_samples=1000", "--mage_round_budget=0.05"});
    constexpr int enough = 3;
    const bool began = child.wait_until([&] { return rows_in(journal) >= enough || context_.interrupted(); }, 60);
    if (context_.interrupted()) return;
    child.kill();
    const int code = child.wait();
    const int left = rows_in(journal);
    add_check(result_, "a run that is killed",
              fmt::format("{} rows in its journal or more, after signal {}", enough, SIGKILL),
              fmt::format("{} rows, {}", left,
                          code < 0 ? fmt::format("signal {}", -code) : fmt::format("exit code {}", code)),
              began && code == -SIGKILL && left >= enough);
    add_check(result_, "its store", "absent", std::filesystem::exists(out) ? "there" : "absent",
              !std::filesystem::exists(out));
    constexpr const char* recovering = "recovering its journal, whose last line is cut";
    if (left < enough)
      return add_check(result_, recovering, fmt::format("exit code {}", exit_code::measured),
                       std::filesystem::exists(journal) ? fmt::format("only {} rows to recover", left) : "no journal",
                       false);
    constexpr std::uintmax_t cut_bytes = 20;
    std::filesystem::resize_file(journal, std::filesystem::file_size(journal) - cut_bytes);
    const int whole = rows_in(journal);
    add_exit_check(recovering, exit_code::measured, run_child({"--mage_recover=" + journal}));
    const auto store = parse_store(out, "the recovered store");
    if (store.is_null()) return;
    const auto rows = store.at("benchmarks").size();
    add_check(result_, "rows in it", fmt::format("{}, those of whole lines", whole), std::to_string(rows),
              rows > 0 && rows == static_cast<std::size_t>(whole));
    const bool complete = store.at("mage").at("complete").get<bool>();
    add_check(result_, "it calls itself", "not complete", complete ? "complete" : "not complete", !complete);
  }

  /// Rows whose line is whole; 0 while there is no journal.
  static int rows_in(const std::string& journal) {
    if (!std::filesystem::exists(journal)) return 0;
    try {
      const auto entries = read_journal(journal).entries;
      return static_cast<int>(
          std::count_if(entries.begin(), entries.end(), [](const Json& entry) { return entry.at("kind") == "row"; }));
    } catch (const std::runtime_error&) {
      return 0;  // its header is being written
    }
  }

  /// Libraries are loaded by name at run time, so that another process can be told names that do not exist.
  void libraries_absent() {
    constexpr const char* cupti = "mode kernel without CUPTI";
    constexpr const char* nvml = "the GPU's state without NVML";
    const auto subject = context_.devices.cuda ? smallest_subject(*context_.devices.cuda) : std::nullopt;
    if (!subject) {
      const auto why = context_.devices.cuda ? "no variant runs on this device" : context_.no_cuda_reason;
      result_.checks.push_back({cupti, "unavailable: cupti_missing", why, Outcome::unavailable});
      result_.checks.push_back({nvml, "unavailable, and why", why, Outcome::unavailable});
      return;
    }
    const auto out = folder_.path() / "absent.json";
    const auto nowhere = (folder_.path() / "absent.so").string();
    auto arguments =
        quick(filter_of(subject->name(TimingMode::event)) + "|" + filter_of(subject->name(TimingMode::kernel)), out);
    arguments.push_back(fmt::format("--mage_device={}", context_.options.device));
    add_exit_check("a run without CUPTI and NVML", exit_code::measured,
                   run_child(arguments, {{"MAGE_CUPTI_LIBRARY", nowhere}, {"MAGE_NVML_LIBRARY", nowhere}}));
    const auto store = parse_store(out, "its store");
    if (store.is_null()) return;
    std::string status = "a time";
    for (const auto& entry : store.at("mage").at("unavailable"))
      if (entry.at("name") == subject->name(TimingMode::kernel))
        status =
            fmt::format("unavailable: {}", entry.at("code").is_string() ? entry.at("code").get<std::string>() : "");
    add_check(result_, cupti, "unavailable: cupti_missing", status, status == "unavailable: cupti_missing");
    const auto& state = store.at("mage").at("device").at("nvml");
    const auto why = state.is_object() ? state.value("unavailable", std::string{}) : std::string{};
    add_check(result_, nvml, "unavailable, and why", why.empty() ? "no reason" : why,
              why.find(nowhere) != std::string::npos);
  }

  Context& context_;
  std::filesystem::path program_;
  TemporaryFolder folder_;
  ProofResult result_;
};

}  // namespace

ProofResult failures_of(Context& context, const std::filesystem::path& program) {
  return Failures{context, program}.run();
}

ProofResult failures(Context& context) { return failures_of(context, "/proc/self/exe"); }

}  // namespace mage::selftest
