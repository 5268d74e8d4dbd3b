// SPDX-License-Identifier: Apache-2.0
#include "bench/admission/admission.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
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

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// A variant to try, and what its admission would be remembered by.
struct Candidate {
  std::string subject;  ///< family/variant
  std::string key;      ///< empty: it cannot be remembered
};

Status status_of(const std::string& text) {
  for (const auto status : {Status::ok, Status::wrong, Status::unavailable, Status::failed})
    if (to_string(status) == text) return status;
  throw std::runtime_error{"a trial ended with the status '" + text + "'"};
}

Admission ended_as(Status status, std::string reason, std::string lacking = {}, double wall_s = 0) {
  Admission admission;
  admission.status = status;
  admission.reason = std::move(reason);
  admission.lacking = std::move(lacking);
  admission.wall_s = wall_s;
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

/// One child after the other, until every candidate has a verdict.
class TrialsInChildren {
 public:
  TrialsInChildren(const Options& options, std::vector<Candidate> candidates, Console& console)
      : options_{options}, pending_{std::move(candidates)}, console_{console}, total_{pending_.size()} {}

  /// False where an interrupt came.
  bool run(const std::function<void(const Candidate&, Admission)>& done) {
    while (!pending_.empty()) {
      const auto before = pending_.size();
      run_child(done);
      if (interrupt_signal != 0) return false;
      if (pending_.size() == before) {  // it did not come to the first one
        const auto candidate = std::move(pending_.front());
        pending_.erase(pending_.begin());
        done(candidate, ended_as(Status::failed, "the process that should try it ended at once: " + last_words_));
      }
    }
    return true;
  }

 private:
  void run_child(const std::function<void(const Candidate&, Admission)>& done) {
    std::string subjects;
    for (const auto& candidate : pending_) subjects += (subjects.empty() ? "" : ",") + candidate.subject;
    const TemporaryFolder folder;
    ChildLog log{folder.path() / "trials"};
    ChildProcess child{"/proc/self/exe",
                       {"--mage_try=" + subjects, fmt::format("--mage_device={}", options_.device)},
                       folder.path() / "trials"};
    auto alive = Clock::now();
    subject_.clear();
    last_words_ = "it printed nothing";
    for (bool ended = false; !ended;) {
      static_cast<void>(child.wait_until([] { return false; }, 0.02));
      ended = child.has_ended();  // before the last look at what it printed
      for (const auto& line : log.news()) {
        alive = Clock::now();
        take(line, done);
      }
      if (interrupt_signal != 0 || pending_.empty()) return child.kill();
      if (ended || seconds_since(alive) < options_.admission_deadline_s) continue;
      child.kill();
      return give_up(Status::failed, fmt::format("no sign of life for {:g} s", options_.admission_deadline_s), done);
    }
    const int code = child.wait();
    if (!subject_.empty())
      give_up(Status::wrong,
              code < 0 ? fmt::format("it ended the process by signal {} ({})", -code, ::strsignal(-code))
                       : fmt::format("it ended the process with code {}: {}", code, last_words_),
              done);
  }

  void take(const std::string& line, const std::function<void(const Candidate&, Admission)>& done) {
    const auto entry = Json::parse(line, nullptr, false);
    if (!entry.is_object() || !entry.contains("variant")) {
      if (!line.empty()) last_words_ = line;
      return;
    }
    subject_ = entry.at("variant");
    if (entry.contains("at")) {
      where_ = entry.at("at");
      console_.progress(static_cast<int>(total_ - pending_.size()), static_cast<int>(total_), -1,
                        "trying " + subject_ + ": " + where_);
      return;
    }
    const auto status = status_of(entry.at("status"));
    finish(ended_as(status, entry.at("reason"), entry.at("lacking"), entry.at("wall_s")), done);
  }

  void give_up(Status status, const std::string& why, const std::function<void(const Candidate&, Admission)>& done) {
    if (subject_.empty() && !pending_.empty()) subject_ = pending_.front().subject;
    finish(ended_as(status, where_.empty() ? why : where_ + ": " + why), done);
  }

  void finish(Admission admission, const std::function<void(const Candidate&, Admission)>& done) {
    const auto found = std::find_if(pending_.begin(), pending_.end(),
                                    [&](const Candidate& candidate) { return candidate.subject == subject_; });
    if (found == pending_.end()) return;
    const auto candidate = std::move(*found);
    pending_.erase(found);
    subject_.clear();
    where_.clear();
    done(candidate, std::move(admission));
  }

  const Options& options_;
  std::vector<Candidate> pending_;
  Console& console_;
  std::size_t total_;
  std::string subject_, where_;  ///< that is tried now, and by what
  std::string last_words_;
};

/// Host code does the same on any CPU that runs this program.
std::string identity_of(const VariantInfo& variant, int device) {
  return variant.on_host() ? "host" : cuda_identity(device);
}

void print_line(const Json& line) {
  static_cast<void>(std::fputs((json_text(line) + "\n").c_str(), stdout));
  static_cast<void>(std::fflush(stdout));  // the parent waits for signs of life
}

}  // namespace

Admissions admit(const Options& options, const std::vector<Fixture>& fixtures, Console& console) {
  Admissions admissions;
  AdmissionCache cache{options.admission_cache.value_or(AdmissionCache::default_path())};
  std::vector<Candidate> candidates;
  std::set<std::string> seen;
  for (const auto& fixture : fixtures) {
    const auto& variant = *fixture.variant;
    const auto subject = variant.family + "/" + variant.name;
    if (fixture.status != Status::ok || !seen.insert(subject).second) continue;
    const auto key = admission_key(*fixture.family, variant, identity_of(variant, options.device));
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
    if (admission.status == Status::ok && admission.lacking.empty() && !candidate.key.empty())
      if (const auto why = cache.add(candidate.key, candidate.subject, admission.wall_s); !why.empty())
        cannot_remember = why;
    admissions[candidate.subject] = std::move(admission);
  };
  const auto count = candidates.size();
  const auto begin = Clock::now();
  if (count > 0) {
    if (!TrialsInChildren{options, std::move(candidates), console}.run(done)) return {};
    const auto refused = std::count_if(admissions.begin(), admissions.end(),
                                       [](const auto& one) { return one.second.status != Status::ok; });
    console.line(fmt::format("{} variant{} tried in {:.1f} s: {} admitted{}", count, count == 1 ? "" : "s",
                             seconds_since(begin), count - static_cast<std::size_t>(refused),
                             refused == 0 ? std::string{} : fmt::format(", {} not", refused)));
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
    if (fixture.status == Status::unavailable) fixture.reason = Unavailable::memory;
    fixture.detail = "not admitted: " + found->second.reason;
  }
}

int run_trials(const Options& options) {
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
    if (!known) known = std::make_unique<TrialProblems>(*family);
    const auto begin = Clock::now();
    const auto at = [&](const std::string& what) { print_line({{"variant", subject}, {"at", what}}); };
    at("its problems");  // from here on what happens is its doing
    TrialVerdict verdict;
    if (variant->min_cc > device.info().compute_capability && !variant->on_host())
      verdict.status = Status::ok;  // the plan says that it cannot run here
    else
      verdict = try_variant(device, *known, *variant, at);
    print_line({{"variant", subject},
                {"status", to_string(verdict.status)},
                {"reason", verdict.reason},
                {"lacking", verdict.lacking},
                {"problems", verdict.problems},
                {"wall_s", seconds_since(begin)}});
    // What a variant leaves behind, as a thread that still writes, must not be the next one's fault.
    if (verdict.status != Status::ok) return exit_code::row_failed;
  }
  return exit_code::measured;
}

}  // namespace mage
