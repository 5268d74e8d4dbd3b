// SPDX-License-Identifier: Apache-2.0
#include "bench/admission/trial.hpp"

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <utility>

#include "bench/admission/chain.hpp"
#include "bench/audits.hpp"
#include "bench/gate.hpp"

namespace mage {
namespace {

constexpr std::size_t small_device_bytes = std::size_t{4} << 20U, small_host_bytes = std::size_t{1} << 20U;
// Large enough for many blocks, small enough for thousands of calls.
constexpr std::size_t repeated_device_bytes = std::size_t{1} << 20U, repeated_host_bytes = std::size_t{16} << 10U;
constexpr int device_calls = 20'000, host_calls = 3'000;
constexpr int direct_calls = 2'000;  // on a device: what counts its calls counts those of the host
constexpr double longest_repetition_us = 2e6;
constexpr int calls_a_graph = 50, calls_a_capture = 500;
constexpr int chain_repetitions = 6;
constexpr int pairs_together = 8, calls_together = 20, calls_longer = 4;
constexpr std::size_t traced_problems = 3;

class Trial {
 public:
  Trial(Device& device, TrialProblems& problems, const VariantInfo& variant,
        const std::function<void(const std::string&)>& at)
      : device_{device},
        problems_{problems},
        family_{problems.family()},
        variant_{variant},
        tell_{at},
        host_{device.info().is_host},
        settings_{device.settings()},
        secret_{problems.seed()} {}

  TrialVerdict run() {
    try {
      if (!host_ && variant_.min_cc > device_.info().compute_capability)
        throw UnavailableError{Unavailable::arch, std::string{explain(Unavailable::arch)}};
      const auto accepted = problems_.accepted(variant_, host_ ? small_host_bytes : small_device_bytes);
      if (accepted.empty())
        throw std::runtime_error{"it accepts none of its family's problems, so that it cannot be tried"};
      look_for_borders();
      for (std::size_t i = 0; i < accepted.size(); ++i) {
        at_border(accepted[i], Trials::Border::rear);
        if (i % 2 == 0) at_border(accepted[i], Trials::Border::front);
      }
      const auto& repeated = middle(accepted);
      if (!host_) on_its_stream(accepted);
      chained();
      together(repeated);
      many_calls(repeated);
      verdict_.problems = static_cast<int>(accepted.size());
    } catch (const UnavailableError& error) {
      fail(Status::unavailable, error.what());
      verdict_.code = error.reason();
    } catch (const WrongError& error) {
      fail(Status::wrong, error.what());
    } catch (const std::exception& error) {
      // An address that is not the operation's: nothing else there stops a kernel that was launched.
      fail(at_border_ && is_lost() ? Status::wrong : Status::failed, error.what());
    }
    finish();
    return verdict_;
  }

 private:
  void fail(Status status, const std::string& reason) {
    verdict_.status = status;
    verdict_.reason = where_ + ": " + reason;
  }
  /// Whether the device can do nothing any more.
  [[nodiscard]] bool is_lost() {
    try {
      device_.wait_idle();
      return false;
    } catch (const std::exception&) {
      return true;
    }
  }
  void at(const std::string& where) {
    where_ = where;
    tell_(where);
  }
  void expect(const std::string& reason) {
    if (!reason.empty()) throw WrongError{reason};
  }
  void expect(const Verdict& verdict) {
    if (!verdict.ok) throw WrongError{verdict.reason};
  }

  /// After the last trial: the device is to be what it was.
  void finish() {
    if (verdict_.status != Status::ok) return;  // and this process ends
    try {
      device_.wait_idle();
      const auto changed = changed_settings(settings_, device_.settings(), Changes::forbidden_before_calls);
      if (!changed.empty()) return fail(Status::wrong, "it changed a setting of the device: " + changed);
      device_.set_back(settings_);
      device_.place_scratch(0);
    } catch (const std::exception& error) {
      fail(Status::failed, error.what());
    }
  }

  [[nodiscard]] std::size_t bytes(const AnyProblem& problem) const {
    std::size_t total = 0;
    for (const auto& operand : family_.operands(problem)) total += operand.bytes();
    return total;
  }
  /// The largest that is still small enough to be repeated.
  [[nodiscard]] const AnyProblem& middle(const std::vector<AnyProblem>& accepted) const {
    const auto most = host_ ? repeated_host_bytes : repeated_device_bytes;
    const auto smaller = [&](const AnyProblem& a, const AnyProblem& b) { return bytes(a) < bytes(b); };
    const auto* best = &*std::min_element(accepted.begin(), accepted.end(), smaller);
    for (const auto& problem : accepted)
      if (bytes(problem) <= most && smaller(*best, problem)) best = &problem;
    return *best;
  }

  void look_for_borders() {
    try {
      device_.deallocate(device_.trials()->allocate_at_border(256, Trials::Border::rear));
    } catch (const UnavailableError& error) {
      borders_ = false;
      cannot_look(error.what());
    }
  }

  /// One call each behind poison, behind plausible values, and behind inputs that change late.
  void at_border(const AnyProblem& problem, Trials::Border border) {
    const bool rear = border == Trials::Border::rear;
    at(problem.name + (!borders_ ? ", call by call"
                       : rear    ? ", operands and scratch end where nobody may read or write"
                                 : ", operands and scratch begin where nobody may read or write"));
    at_border_ = true;
    const auto edge = borders_ ? std::optional{border} : std::nullopt;
    Case bound{device_, problems_.oracle(problem), {.slack_bytes = 0, .border = edge, .secret = ++secret_}};
    device_.place_scratch(secret_);
    if (borders_) device_.trials()->scratch_at_border(border);
    auto launch = bound.bind(variant_);
    std::map<int, std::uint64_t> bits;
    for (int call = 0; call < 3; ++call) {
      if (call != 0) bound.spoil();
      if (call == 1)
        bound.disturb_late();
      else
        bound.disturb();
      if (call == 0) bound.poison();  // behind what spoils elements: a spoilt poison is none
      device_.submit(launch);
      bound.inspect_as_dependent();
      const auto verdict = check_all(bound);
      expect(verdict);
      const auto [known, first] = bits.try_emplace(bound.set(), verdict.output_checksum);
      if (variant_.deterministic && !first && known->second != verdict.output_checksum)
        throw WrongError{"two calls gave different bits, though the variant says it is deterministic"};
    }
    in_graph(bound, launch);
    launch = {};
    device_.place_scratch(0);
    at_border_ = false;
  }

  void in_graph(Case& bound, Launch& launch) {
    if (host_ || captured_ == traced_problems) return;
    try {
      const auto graph = device_.capture(launch, 1);
      ++captured_;
      if (graph->kernel_nodes() + graph->other_nodes() == 0)
        throw WrongError{"the operation put nothing on the stream that it was given"};
      bound.spoil();
      bound.disturb();
      device_.replay(*graph);
      bound.inspect();
      expect(check_all(bound));
    } catch (const UnavailableError& error) {
      lacks(error.what());
    }
  }

  /// What is the variant's own nature: it will be so the next time.
  void lacks(const std::string& what) {
    if (verdict_.lacking.find(what) == std::string::npos)
      verdict_.lacking += (verdict_.lacking.empty() ? "" : "; ") + what;
  }
  /// What another machine, or another time, may allow.
  void cannot_look(const std::string& why) {
    lacks(why);
    verdict_.complete = false;
  }

  /// By holding the stream, and by the profiler's records of which kernel ran where and when.
  void on_its_stream(const std::vector<AnyProblem>& accepted) {
    // From the largest on: work that is out of order shows where it takes long.
    auto order = accepted;
    std::sort(order.begin(), order.end(),
              [this](const AnyProblem& a, const AnyProblem& b) { return bytes(a) > bytes(b); });
    if (order.size() > traced_problems) order.resize(traced_problems);
    for (const auto& problem : order) {
      at(problem.name + ", on its stream");
      Case bound{device_, problems_.oracle(problem), {.slack_bytes = 0, .border = {}, .secret = ++secret_}};
      device_.place_scratch(secret_);
      auto launch = bound.bind(variant_);
      device_.submit(launch);
      const auto out_of_turn = work_out_of_turn(device_, bound, launch);
      expect(out_of_turn.wrong);
      if (!out_of_turn.lacking.empty()) cannot_look(out_of_turn.lacking);
      expect(work_left_behind(device_, launch));
      for (int call = 0; call < 3; ++call) {
        device_.delay(100);
        bound.disturb();
        device_.submit(launch);
        bound.inspect_as_dependent();
      }
      expect(bound.found());
      device_.wait_idle();
      try {
        device_.trace_start();
      } catch (const UnavailableError& error) {
        cannot_look(error.what());
        continue;
      }
      for (std::uint64_t call = 1; call <= 5; ++call) {
        device_.delay(100);
        bound.disturb();
        device_.trace_mark(call);
        device_.submit(launch);
        device_.trace_mark(0);
        bound.inspect();
      }
      judge_order(device_.trace_stop());
      expect(check_all(bound));
    }
  }

  void chained() {
    const auto problems = chained_problems(family_);
    int chains = 0;
    for (const auto& problem : problems) {
      if (!accepts(variant_, problem)) continue;
      const auto operands = family_.operands(problem);
      for (const auto& link : links(operands)) {
        at(problem.name + ", calls that pass " + operands[link.out].name + " on as " + operands[link.in].name);
        device_.place_scratch(++secret_);
        const Chained chained{
            .operands = operands,
            .link = link,
            .prepare =
                [&](const Pointers& pointers) { return prepare(variant_, problem, family_.bind(problem, pointers)); },
            .derive = [&](const Pointers& host) { family_.derive(problem, host); },
            .varies = !variant_.deterministic};
        const auto verdict = check_chain(device_, chained, host_ ? 1 : chain_repetitions);
        if (!verdict.ok()) throw WrongError{verdict.reason};
        chains += 1;
      }
    }
    if (chains == 0 && !problems.empty())
      lacks("it accepts none of the problems on which its family's calls are chained, as " + problems.front().name);
  }

  /// Two bindings with memory and inputs of their own: what they share is what no call may keep to itself.
  void together(const AnyProblem& problem) {
    at(problem.name + ", two at the same time");
    Case one{device_, problems_.oracle(problem), {.slack_bytes = 0, .border = {}, .secret = ++secret_}};
    Case other{device_, problems_.oracle(problem, 1), {.slack_bytes = 0, .border = {}, .secret = ++secret_}};
    device_.place_scratch(secret_);
    auto first = one.bind(variant_), second = other.bind(variant_);
    bool ever = false;
    for (int pair = 0; pair < pairs_together; ++pair) {
      for (auto* bound : {&one, &other}) {
        bound->spoil();
        bound->disturb();
      }
      // The newest call of the shorter one has company to its end.
      auto &shorter = pair % 2 == 0 ? first : second, &longer = pair % 2 == 0 ? second : first;
      ever = device_.trials()->run_together({shorter, calls_together}, {longer, calls_together + calls_longer}) || ever;
      expect(one.check());
      expect(other.check());
    }
    if (!ever) cannot_look("no two calls ran at the same time: one ended before the other was enqueued");
  }

  /// Each checked as a whole: a call in some hundred that is wrong is found.
  void many_calls(const AnyProblem& problem) {
    const int calls = host_ ? host_calls : device_calls;
    at(problem.name + ", up to " + std::to_string(calls) + " calls");
    Case bound{device_, problems_.oracle(problem), {.slack_bytes = 0, .border = {}, .secret = ++secret_}};
    device_.place_scratch(secret_);
    auto launch = bound.bind(variant_);
    for (int set = 0; set < 2; ++set) {  // what both sets lead to must be on the device before a graph is captured
      while (bound.set() != set) bound.disturb();
      bound.judge();
      static_cast<void>(bound.found());
    }
    const auto call = [&](StreamHandle stream) {
      bound.disturb();
      launch(stream);
      bound.judge();
    };
    std::unique_ptr<Graph> graph;
    bool graphs = !host_;
    Launch checked = call;
    const double begin_us = device_.now_us();
    for (int& done = verdict_.calls; done < calls && device_.now_us() - begin_us < longest_repetition_us;
         done += calls_a_graph) {
      if (graphs && done >= direct_calls && done % calls_a_capture == 0) {
        try {
          graph = device_.capture(checked, calls_a_graph);
        } catch (const UnavailableError&) {
          graphs = false;  // its calls are enqueued one by one
        }
      }
      if (graph)
        device_.replay(*graph);
      else
        for (int i = 0; i < calls_a_graph; ++i) device_.submit(checked);
      if (const auto reason = bound.found(); !reason.empty())
        throw WrongError{"in one of calls " + std::to_string(done + 1) + " to " + std::to_string(done + calls_a_graph) +
                         ": " + reason};
    }
    expect(bound.check());
  }

  Device& device_;
  TrialProblems& problems_;
  const Family& family_;
  const VariantInfo& variant_;
  const std::function<void(const std::string&)>& tell_;
  bool host_;
  std::vector<DeviceSetting> settings_;
  TrialVerdict verdict_;
  std::string where_ = "before the first trial";
  bool at_border_ = false, borders_ = true;
  std::size_t captured_ = 0;
  std::uint64_t secret_;
};

}  // namespace

std::vector<AnyProblem> TrialProblems::accepted(const VariantInfo& variant, std::size_t most_bytes) const {
  auto all = family_.test_problems();
  const auto bench = family_.bench_problems();
  const auto bytes = [&](const AnyProblem& problem) { return Case::device_bytes(family_.operands(problem)); };
  std::vector<AnyProblem> small;
  for (const auto& problem : all)
    if (bytes(problem) <= most_bytes && accepts(variant, problem)) small.push_back(problem);
  if (!small.empty()) return small;
  all.insert(all.end(), bench.begin(), bench.end());
  std::erase_if(all, [&](const AnyProblem& problem) { return !accepts(variant, problem); });
  const auto smallest = std::min_element(all.begin(), all.end(),
                                         [&](const AnyProblem& a, const AnyProblem& b) { return bytes(a) < bytes(b); });
  return smallest == all.end() ? all : std::vector<AnyProblem>{*smallest};
}

const Oracle& TrialProblems::oracle(const AnyProblem& problem, std::uint32_t input_epoch) {
  auto& known = oracles_[{problem.name, input_epoch}];
  if (!known) {
    known = std::make_unique<Oracle>(family_, problem, input_epoch);
    known->vary(seed_ + input_epoch);
  }
  return *known;
}

TrialVerdict try_variant(Device& device, TrialProblems& problems, const VariantInfo& variant,
                         const std::function<void(const std::string&)>& at) {
  return Trial{device, problems, variant, at}.run();
}

}  // namespace mage
