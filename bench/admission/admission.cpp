// SPDX-License-Identifier: Apache-2.0
#include "bench/admission/admission.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <utility>

#include "bench/admission/cache.hpp"
#include "bench/admission/trial.hpp"
#include "bench/child_process.hpp"
#include "bench/json_text.hpp"
#include "bench/runner.hpp"

namespace mage {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr const char* parent_variable = "MAGE_TRIALS_OF_PROCESS";

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// A variant to try, and what its admission would be remembered by.
struct Candidate {
  std::string subject;  ///< family/variant
  std::string key;      ///< empty: it cannot be remembered
};

Admission ended_as(Status status, std::string reason) {
  Admission admission;
  admission.status = status;
  admission.reason = std::move(reason);
  return admission;
}

/// What a child printed, line by line as it comes.
class ChildLog {
 public:
  explicit ChildLog(std::filesystem::path path) : path_{std::move(path)} {}

  /// Whole lines that are new since the last call.
  std::vector<std::string> news() {
    std::ifstream file{path_, std::ios::binary};
    file.seekg(static_cast<std::streamoff>(read_));
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line) && !file.eof();) {
      read_ += line.size() + 1;
      lines.push_back(std::move(line));
    }
    return lines;
  }

 private:
  std::filesystem::path path_;
  std::size_t read_ = 0;
};

/// The last line that says anything.
std::string last_line_of(const std::filesystem::path& path) {
  std::ifstream file{path};
  std::string last = "it printed nothing";
  for (std::string line; std::getline(file, line);)
    if (line.find_first_not_of(" \t\r") != std::string::npos) last = std::move(line);
  return last;
}

/// One child after the other, until every candidate has a verdict.
class TrialsInChildren {
 public:
  using Done = std::function<void(const Candidate&, Admission)>;
  TrialsInChildren(const Options& options, std::vector<Candidate> candidates, Console& console, Done done)
      : options_{options},
        pending_{std::move(candidates)},
        console_{console},
        done_{std::move(done)},
        total_{pending_.size()} {}

  /// False where an interrupt came.
  bool run() {
    while (!pending_.empty()) {
      const auto before = pending_.size();
      const auto last_words = run_child();
      if (interrupt_signal != 0) return false;
      if (pending_.size() == before) {  // it did not come to the first one
        subject_ = pending_.front().subject;
        finish(ended_as(Status::failed, "the process that should try it ended at once: " + last_words));
      }
    }
    return true;
  }

 private:
  /// Until it has tried all or one was refused. Returns its last words.
  std::string run_child() {
    std::string subjects;
    for (const auto& candidate : pending_) subjects += (subjects.empty() ? "" : ",") + candidate.subject;
    const TemporaryFolder folder;
    const auto words = folder.path() / "words";
    ChildLog log{folder.path() / "trials"};
    seed_ = std::random_device{}();
    ChildProcess child{"/proc/self/exe",
                       {"--mage_try=" + subjects, fmt::format("--mage_device={}", options_.device),
                        fmt::format("--mage_seed={}", seed_)},
                       folder.path() / "trials",
                       {{parent_variable, std::to_string(::getpid())}},
                       words};
    auto alive = Clock::now();
    subject_.clear();
    where_.clear();
    admitted_ = 0;
    for (bool ended = false; !ended;) {
      static_cast<void>(child.wait_until([] { return false; }, 0.02));
      ended = child.has_ended();  // before the last look at what it printed
      bool refused = false;
      for (const auto& line : log.news()) {
        alive = Clock::now();
        try {
          refused = take(line) || refused;
        } catch (const std::exception&) {  // of JSON: only a process that is out of its mind prints such a line
          give_up(Status::failed, "its process printed what is no verdict: " + line);
          refused = true;
        }
      }
      // What a refused variant leaves behind, as a thread that still writes, must not be the next one's fault.
      if (refused || interrupt_signal != 0 || pending_.empty()) {
        child.kill();
        return {};
      }
      if (ended || seconds_since(alive) < options_.admission_deadline_s) continue;
      child.kill();
      if (admitted_ > 0) return {};
      give_up(Status::failed, fmt::format("no sign of life for {:g} s", options_.admission_deadline_s));
      return {};
    }
    const int code = child.wait();
    auto last_words = last_line_of(words);
    // A thread that an admitted one left behind can do this, too: a new process tries the variant first.
    if (subject_.empty() || admitted_ > 0) return last_words;
    if (code == -SIGKILL)
      give_up(Status::failed, "its process was killed from outside (signal 9): was memory short?");
    else if (code < 0)
      give_up(Status::wrong, fmt::format("it ended the process by signal {} ({})", -code, ::strsignal(-code)));
    else
      give_up(Status::wrong, fmt::format("it ended the process with code {}: {}", code, last_words));
    return last_words;
  }

  /// One line of a child's. True where it refuses a variant.
  bool take(const std::string& line) {
    const auto entry = Json::parse(line);
    subject_ = entry.at("variant");
    if (entry.contains("at")) {
      where_ = entry.at("at");
      console_.progress(static_cast<int>(total_ - pending_.size()), static_cast<int>(total_), -1,
                        "trying " + subject_ + ": " + where_);
      return false;
    }
    auto admission = ended_as(parse_status(entry.at("status").get<std::string>()).value(), entry.at("reason"));
    if (const auto& code = entry.at("code"); !code.is_null())
      admission.code = parse_unavailable(code.get<std::string>());
    admission.lacking = entry.at("lacking");
    admission.complete = entry.at("complete");
    admission.wall_s = entry.at("wall_s");
    admission.problems = entry.at("problems");
    admission.calls = entry.at("calls");
    const bool refused = admission.status != Status::ok;
    admitted_ += refused ? 0 : 1;
    finish(std::move(admission));
    return refused;
  }

  void give_up(Status status, const std::string& why) {
    if (subject_.empty() && !pending_.empty()) subject_ = pending_.front().subject;
    finish(ended_as(status, where_.empty() ? why : where_ + ": " + why));
  }

  void finish(Admission admission) {
    const auto found = std::find_if(pending_.begin(), pending_.end(),
                                    [&](const Candidate& candidate) { return candidate.subject == subject_; });
    if (found == pending_.end()) return;
    const auto candidate = std::move(*found);
    pending_.erase(found);
    subject_.clear();
    where_.clear();
    admission.seed = seed_;
    done_(candidate, std::move(admission));
  }

  const Options& options_;
  std::vector<Candidate> pending_;
  Console& console_;
  Done done_;
  std::size_t total_;
  std::uint64_t seed_ = 0;       ///< of the child that runs
  std::string subject_, where_;  ///< that is tried now, and by what
  int admitted_ = 0;             ///< by the child that runs
};

/// Where two of these are equal, the same machine code does the same. Host code does so on any CPU that runs it.
std::string identity_of(const VariantInfo& variant, const std::optional<DeviceInfo>& cuda) {
  if (variant.on_host() || !cuda) return "host";
  std::string text = cuda->name;
  for (const auto& [key, value] : cuda->facts)
    if (key == "compute_capability" || key == "cuda_driver_api" || key == "cuda_runtime") text += " " + value;
  return text;
}

/// A run that is killed takes its child along, which may be one that never ends.
void end_with_parent() {
  const char* parent = std::getenv(parent_variable);
  if (parent == nullptr) return;  // a user's own --mage_try
  static_cast<void>(::prctl(PR_SET_PDEATHSIG, SIGKILL));
  if (std::to_string(::getppid()) != parent) std::_Exit(exit_code::row_failed);  // it was killed before that
}

/// The lines of a child's, where a variant prints nothing.
class Report {
 public:
  Report() : file_{::fdopen(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0), "w")} {
    if (!file_ || ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
      throw std::runtime_error{std::string{"cannot set stdout apart for the trials' lines: "} + std::strerror(errno)};
  }
  void operator()(const Json& line) {
    static_cast<void>(std::fputs((json_text(line) + "\n").c_str(), file_.get()));
    static_cast<void>(std::fflush(file_.get()));  // the parent waits for signs of life
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { static_cast<void>(std::fclose(file)); }
  };
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace

Admissions admit(const Options& options, const std::vector<Fixture>& fixtures, Console& console) {
  Admissions admissions;
  AdmissionCache cache{options.admission_cache.value_or(AdmissionCache::default_path())};
  std::optional<DeviceInfo> cuda;
  std::vector<Candidate> candidates;
  std::set<std::string> seen;
  for (const auto& fixture : fixtures) {
    const auto& variant = *fixture.variant;
    const auto subject = variant.family + "/" + variant.name;
    if (fixture.status != Status::ok || !seen.insert(subject).second) continue;
    if (!variant.on_host()) {
      if (!cuda) cuda = cuda_device_info(options.device);
      if (variant.min_cc > cuda->compute_capability) continue;  // the plan says that it cannot run here
    }
    const auto key = admission_key(*fixture.family, variant, identity_of(variant, cuda));
    if (key.empty() || !cache.has(key)) {
      candidates.push_back({subject, key});
      continue;
    }
    admissions[subject].remembered = true;
    admissions[subject].code_sha256 = code_sha256(variant.source);
  }
  std::string cannot_remember;
  const auto done = [&](const Candidate& candidate, Admission admission) {
    const auto slash = candidate.subject.find('/');
    const auto* variant =
        find_family(candidate.subject.substr(0, slash))->find_variant(candidate.subject.substr(slash + 1));
    admission.code_sha256 = code_sha256(variant->source);
    // What was not looked at is looked at the next time.
    if (admission.status == Status::ok && admission.complete && !candidate.key.empty())
      if (const auto why = cache.add(candidate.key, candidate.subject, admission.wall_s); !why.empty())
        cannot_remember = why;
    admissions[candidate.subject] = std::move(admission);
  };
  const auto count = candidates.size();
  const auto begin = Clock::now();
  if (count > 0) {
    if (!TrialsInChildren{options, std::move(candidates), console, done}.run()) return {};
    const auto refused = std::count_if(admissions.begin(), admissions.end(),
                                       [](const auto& one) { return one.second.status != Status::ok; });
    console.line(fmt::format("{} variant{} tried in {:.1f} s: {} admitted{}", count, count == 1 ? "" : "s",
                             seconds_since(begin), count - static_cast<std::size_t>(refused),
                             refused == 0 ? std::string{} : fmt::format(", {} not", refused)));
    const auto first = std::find_if(admissions.begin(), admissions.end(),
                                    [](const auto& one) { return one.second.status != Status::ok; });
    if (first != admissions.end())
      console.line(fmt::format("to see one step by step: mage_bench --mage_try={} --mage_seed={}{}", first->first,
                               first->second.seed,
                               options.device == 0 ? std::string{} : fmt::format(" --mage_device={}", options.device)));
  }
  if (!cannot_remember.empty())
    console.complain("admissions cannot be remembered: " + cannot_remember +
                     "; name another file with --mage_admission_cache");
  return admissions;
}

void withhold(const Admissions& admissions, std::vector<Fixture>& fixtures) {
  for (auto& fixture : fixtures) {
    const auto found = admissions.find(fixture.variant->family + "/" + fixture.variant->name);
    if (fixture.status != Status::ok || found == admissions.end() || found->second.status == Status::ok) continue;
    fixture.status = found->second.status;
    fixture.reason = found->second.code;
    fixture.detail = "not admitted: " + found->second.reason;
  }
}

int run_trials(const Options& options) {
  end_with_parent();
  Report report;
  auto host = make_host_device();
  std::unique_ptr<Device> cuda;
  std::map<std::pair<const Family*, const Device*>, std::unique_ptr<TrialProblems>> problems;
  for (const auto& subject : options.trials) {
    const auto slash = subject.find('/');
    const auto* family = find_family(subject.substr(0, slash));
    const auto* variant =
        family == nullptr || slash == std::string::npos ? nullptr : family->find_variant(subject.substr(slash + 1));
    if (variant == nullptr || variant->skipped)
      throw std::invalid_argument{"--mage_try: there is no variant '" + subject + "' in this build"};
    if (!variant->on_host() && !cuda) cuda = make_cuda_device(options.device);
    auto& device = variant->on_host() ? *host : *cuda;
    auto& known = problems[{family, &device}];
    if (!known) known = std::make_unique<TrialProblems>(*family, options.seed);
    const auto begin = Clock::now();
    const auto at = [&](const std::string& what) { report({{"variant", subject}, {"at", what}}); };
    at("its problems");  // from here on what happens is its doing
    const auto verdict = try_variant(device, *known, *variant, at);
    report({{"variant", subject},
            {"status", to_string(verdict.status)},
            {"reason", verdict.reason},
            {"code", verdict.code ? Json(to_string(*verdict.code)) : Json(nullptr)},
            {"lacking", verdict.lacking},
            {"complete", verdict.complete},
            {"problems", verdict.problems},
            {"calls", verdict.calls},
            {"wall_s", seconds_since(begin)}});
    if (verdict.status != Status::ok) return exit_code::row_failed;  // whoever reads this goes on in another process
  }
  return exit_code::measured;
}

}  // namespace mage
