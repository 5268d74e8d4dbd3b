// SPDX-License-Identifier: Apache-2.0
// A run of a plan on this machine, by variants of gelu that only a test knows.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/runner.hpp"

namespace mage::test {

using Json = nlohmann::ordered_json;

inline const Family& family() { return *find_family("gelu"); }
inline const VariantInfo& reference() { return *family().find_variant("reference"); }

/// The reference's own launch behind something else; calls are counted from the binding on.
template <class Around>
Launch wrapped(const void* problem, const void* args, const Around& around) {
  const auto& erased = reference().erased;
  auto inner = std::make_shared<Launch>(erased.call_prepare(erased.prepare, problem, args));
  auto calls = std::make_shared<int>(0);
  return [inner, calls, around](StreamHandle stream) { around(*inner, stream, ++*calls); };
}

using Prepare = Launch (*)(detail::ErasedFunction, const void* problem, const void* args);

/// A variant of family gelu that only this test knows.
inline VariantInfo variant(const char* name, Prepare prepare) {
  auto info = reference();
  info.name = name;
  info.erased.call_prepare = prepare;
  return info;
}

class RunnerTest : public testing::Test {
 protected:
  RunnerTest() { devices_.host = make_host_device(); }
  ~RunnerTest() override { interrupt_signal = 0; }
  RunnerTest(const RunnerTest&) = delete;
  RunnerTest& operator=(const RunnerTest&) = delete;

  static Fixture fixture(const VariantInfo& info, const Family& of, const char* text,
                         TimingMode mode = TimingMode::host) {
    const auto problem = of.parse(text).value();
    const BenchmarkName name{std::string{of.name()}, info.name, problem.name, mode};
    return {&of, &info, problem, mode, to_string(name), Status::ok, {}, {}};
  }

  void plan(std::vector<Fixture> fixtures, int rounds = 3) {
    options_.rounds = rounds;
    if (options_.samples == 0) options_.samples = 4;
    plan_ = make_plan(std::move(fixtures), options_);
  }
  void plan(const VariantInfo& info, int rounds = 3) { plan({fixture(info, family(), "5x32")}, rounds); }

  /// Runs all steps; the results that have a time.
  std::vector<RoundResult> run() {
    Runner runner{options_, plan_, devices_, 7, {[this](const Json& entry) { entries_.push_back(entry); }, {}, {}}};
    std::vector<RoundResult> results;
    for (std::size_t p = 0; p < plan_.problems.size(); ++p)
      for (const auto& step : plan_.problems[p].steps)
        if (auto result = runner.run(p, step)) results.push_back(std::move(*result));
    runner.finish(interrupt_signal != 0);
    failures_ = runner.failures();
    return results;
  }

  [[nodiscard]] std::vector<Json> entries(const std::string& kind) const {
    std::vector<Json> found;
    for (const auto& entry : entries_)
      if (entry.at("kind") == kind) found.push_back(entry);
    return found;
  }
  void expect_status(const std::string& status, const std::string& fragment) const {
    const auto found = entries("status");
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].at("status"), status);
    EXPECT_NE(found[0].at("reason").get<std::string>().find(fragment), std::string::npos) << found[0].at("reason");
    EXPECT_EQ(failures_, 1);
  }

  Options options_;
  Plan plan_;
  Devices devices_;
  std::vector<Json> entries_;
  int failures_ = 0;
};

}  // namespace mage::test
