// SPDX-License-Identifier: Apache-2.0
// A run on a simulated GPU: what touches its caches, what a variant may not change of it, and times that cannot be.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/store.hpp"
#include "test/support/runner_fixture.hpp"
#include "test/support/simulated_device.hpp"

namespace mage::test {
namespace {

/// On a simulated GPU: family copy by a spin, which can be captured. What touched L2 stands in caches().
class RunnerSimulatedTest : public RunnerTest {
 protected:
  RunnerSimulatedTest() {
    auto owned = std::make_unique<SimulatedDevice>();
    device = owned.get();
    devices_.cuda = std::move(owned);
    operation = prepared = {};
  }

  /// A variant of copy by a spin of 5 us. operation() is called in each call, and may change the spin.
  static VariantInfo by_spin(const char* name) {
    auto info = *copies().find_variant("reference");
    info.name = name;
    info.min_cc = 90;
    info.erased.call_prepare = [](detail::ErasedFunction, const void*, const void* args) -> Launch {
      const auto* pointers = static_cast<std::uint32_t* const*>(args);
      Spin spin{.us = 5, .from = pointers[0], .to = pointers[1], .words = 5 * 32};
      if (prepared) prepared(spin);
      return [spin](StreamHandle stream) {
        auto now = spin;
        if (operation) operation(now);
        device->spin(stream, now);
      };
    };
    return info;
  }
  std::vector<RoundResult> run_one(TimingMode mode) {
    const auto info = by_spin("by_spin");
    plan({fixture(info, copies(), "5x32", mode)});
    return run();
  }
  void run_in(TimingMode mode) {
    entries_.clear();
    device->caches.clear();
    const auto results = run_one(mode);
    EXPECT_EQ(results.size(), 3U) << to_string(mode) << Json(entries_).dump(1);
    for (const auto& result : results) EXPECT_EQ(result.samples.us.size(), 4U) << "a warm-up does not count";
  }
  static const Family& copies() { return *find_family("copy"); }
  static const std::string& caches() { return device->caches; }
  static bool has_flag(const RoundResult& result, const char* flag) {
    const auto& flags = result.block.at("flags");
    return std::find(flags.begin(), flags.end(), flag) != flags.end();
  }

  // A prepare function holds nothing.
  static inline SimulatedDevice* device = nullptr;
  static inline std::function<void(Spin&)> operation, prepared;
};

TEST_F(RunnerSimulatedTest, APartOfL2ThatIsAskedForBeforeCallsIsDeniedAndSaidSo) {
  prepared = [](Spin&) { device->limits[1].value = 7; };
  const auto results = run_one(TimingMode::event);
  ASSERT_EQ(results.size(), 3U) << Json(entries_).dump(1);
  for (const auto& result : results) EXPECT_TRUE(has_flag(result, flag::persisting_l2_denied));
  EXPECT_EQ(device->limits[1].value, 0U);
}

TEST_F(RunnerSimulatedTest, ASettingThatChangesInACallIsWrongAndSetBack) {
  operation = [](Spin&) { device->limits[1].value = 7; };
  EXPECT_TRUE(run_one(TimingMode::event).empty());
  expect_status("wrong", "it changed a setting of the device: persisting_l2_cache_size from 0 to 7");
  EXPECT_EQ(device->limits[1].value, 0U);
}

TEST_F(RunnerSimulatedTest, AStackThatGrowsInACallIsSetBackAndNoFault) {
  operation = [](Spin&) { device->limits[0].value = 4096; };
  const auto results = run_one(TimingMode::event);
  ASSERT_EQ(results.size(), 3U) << Json(entries_).dump(1);
  EXPECT_FALSE(has_flag(results[0], flag::persisting_l2_denied));
  EXPECT_EQ(device->limits[0].value, 1024U);
}

TEST_F(RunnerSimulatedTest, OneOfManyThatIsFasterThanItsWorkIsWrong) {
  operation = [capture = 0](Spin& spin) mutable {
    if (device->captures != capture) spin.us = 50;  // the first of a graph
    capture = device->captures;
  };
  EXPECT_TRUE(run_one(TimingMode::graph).empty());
  expect_status("wrong", "not all of them can have done the work");
}

TEST_F(RunnerSimulatedTest, ADeviceThatIsLostIsBlamedOnTheOneThatLostIt) {
  operation = [calls = 0](Spin&) mutable {
    if (++calls == 100) device->lost = "an illegal address";
  };
  const auto one = by_spin("one"), other = by_spin("other");
  plan({fixture(one, copies(), "5x32", TimingMode::event), fixture(other, copies(), "5x32", TimingMode::event)}, 10);
  static_cast<void>(run());
  const auto found = entries("status");
  ASSERT_EQ(found.size(), 2U);
  const std::string guilty = found[0].at("name");
  EXPECT_NE(found[0].at("reason").get<std::string>().find("an illegal address"), std::string::npos) << found[0];
  EXPECT_TRUE(found[1].at("reason").get<std::string>().starts_with("the device is unusable since " + guilty))
      << found[1];
}

TEST_F(RunnerSimulatedTest, WarmSamplesSeeAnL2ThatOnlyTheOperationFilled) {
  for (const auto mode :
       {TimingMode::event, TimingMode::batch, TimingMode::graph, TimingMode::host, TimingMode::kernel}) {
    run_in(mode);
    // Each round begins with a warm-up, and has one more behind the sample that is checked, unless that is the last.
    const auto sweeps = std::count(caches().begin(), caches().end(), 'l');
    EXPECT_TRUE(sweeps >= 3 && sweeps <= 6) << to_string(mode) << ": " << sweeps;
    // An audit spoils and disturbs. What disturbs alone is a sample that counts: between it and the last time that
    // anything was filled lie a sweep and an operation that does not count.
    bool filled = true, idle = true;
    int counted = 0;
    char before = 0;
    for (const char touch : caches()) {
      if (touch == 'd' && before != 'f' && !filled) {
        EXPECT_FALSE(idle) << to_string(mode) << ": " << caches();
        counted += 1;
      }
      filled = touch == 'f' || (filled && touch != 'l');
      idle = touch == 'l' || (idle && touch != 'o');
      before = touch;
    }
    EXPECT_GE(counted, 12) << to_string(mode);
  }
}

TEST_F(RunnerSimulatedTest, ColdSamplesNeedNoWarmUp) {
  run_in(TimingMode::event_cold);
  // A warm-up would sweep without a span behind it that counts, or ahead of another sweep.
  bool swept = false;
  for (const char touch : caches()) {
    EXPECT_FALSE(swept && touch == 'l') << caches();
    swept = touch == 'l' || (swept && touch != '!');
  }
}

}  // namespace
}  // namespace mage::test
