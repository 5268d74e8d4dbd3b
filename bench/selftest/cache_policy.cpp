// SPDX-License-Identifier: Apache-2.0
// Cold is cold, warm is warm and the operation's own doing, and a rate that memory cannot have is flagged.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bench/gate.hpp"
#include "bench/samplers.hpp"
#include "bench/selftest/proof.hpp"
#include "bench/statistics.hpp"
#include "bench/store.hpp"

namespace mage::selftest {
namespace {

using Json = nlohmann::ordered_json;
using statistics::median;

constexpr int fewest_samples = 15;
constexpr int own_samples = 31;
constexpr std::size_t mebibyte = std::size_t{1} << 20U;
// A copy's share of lines to write back is visible where L2 holds about as much as is copied.
constexpr std::size_t smallest_judged_l2 = 32 * mebibyte;
constexpr double visible = 0.05;      // of a span
constexpr double warm_speedup = 1.2;  // reading from L2 over reading from memory, fixed cost included

class DeviceMemory {
 public:
  DeviceMemory(Device& device, std::size_t bytes) : device_{device}, raw_{device.allocate(bytes)} {}
  ~DeviceMemory() { device_.deallocate(raw_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  [[nodiscard]] void* get() const { return raw_; }

 private:
  Device& device_;
  void* raw_;
};

/// No carve-out outlives this, however the proof ends.
class CarveOutGuard {
 public:
  explicit CarveOutGuard(Device& device) : device_{device} {}
  ~CarveOutGuard() {
    try {
      device_.reset_persisting_l2();
    } catch (const std::exception&) {  // the device is lost: whatever comes next says so
    }
  }
  CarveOutGuard(const CarveOutGuard&) = delete;
  CarveOutGuard& operator=(const CarveOutGuard&) = delete;

 private:
  Device& device_;
};

struct FlushWay {
  const char* name;
  std::function<void()> enqueue;
};

class CachePolicy {
 public:
  CachePolicy(Context& context, Device& device, CacheExperiments& cache)
      : context_{context}, device_{device}, cache_{cache}, samples_{context.repeats_or(own_samples, fewest_samples)} {}

  ProofResult run() {
    const CarveOutGuard guard{device_};
    device_.reset_persisting_l2();
    raise_clock();
    const std::array<std::pair<void (CachePolicy::*)(), double>, 5> parts{{{&CachePolicy::dirty_lines, 0.5},
                                                                           {&CachePolicy::cold_and_warm, 0.6},
                                                                           {&CachePolicy::carve_out, 0.8},
                                                                           {&CachePolicy::marked_accesses, 0.9},
                                                                           {&CachePolicy::above_peak, 1}}};
    for (const auto& [part, share] : parts) {
      if (context_.interrupted()) break;
      (this->*part)();
      context_.progress(share);
    }
    add_check(result_, "samples whose operation began before it was wholly enqueued", "at most 20 %",
              fmt::format("{} of {}", gates_missed_, spans_), 5 * gates_missed_ <= spans_);
    result_.data["gates_missed"] = gates_missed_;
    return std::move(result_);
  }

 private:
  /// As event_cold takes a sample, with `between` for its sweep; behind a delay, since not all that stands there is
  /// long enough to hide enqueueing.
  double span_us(const std::function<void()>& between, const std::function<void()>& operation) {
    constexpr double delay_us = 100;
    operation();
    device_.delay(delay_us);
    between();
    device_.record(Stamp::begin);
    operation();
    device_.record(Stamp::end);
    gates_missed_ += device_.reached(Stamp::begin) ? 1 : 0;
    spans_ += 1;
    device_.synchronize();
    return whole_ns(device_.elapsed_us());
  }

  // The order of what is compared inside a sample removes what is left of a rising clock.
  void raise_clock() {
    const double begin_us = device_.now_us();
    while (device_.now_us() - begin_us < 300e3 && !context_.interrupted()) {
      device_.delay(1000);
      device_.flush_l2();
      device_.synchronize();
    }
  }

  void dirty_lines() {
    constexpr std::array<std::size_t, 4> sizes{1 * mebibyte, 8 * mebibyte, 16 * mebibyte, 64 * mebibyte};
    const DeviceMemory from{device_, sizes.back()}, to{device_, sizes.back()};
    device_.fill(from.get(), 0x2545F491U, sizes.back());
    using DirtyFlush = CacheExperiments::DirtyFlush;
    const std::array ways{FlushWay{"memset_us", [this] { cache_.dirty_flush(DirtyFlush::memset); }},
                          FlushWay{"write_sweep_us", [this] { cache_.dirty_flush(DirtyFlush::write_sweep); }},
                          FlushWay{"write_read_sweep_us", [this] { device_.flush_l2(); }}};
    Json data = Json::array();
    for (const auto bytes : sizes) {
      std::array<std::vector<double>, ways.size()> spans;
      const auto copy = [&] { device_.copy(to.get(), from.get(), bytes); };
      copy();
      for (const auto& way : ways) way.enqueue();  // what loads modules does so here, not inside a gate
      for (int i = 0; i < samples_ && !context_.interrupted(); ++i)
        for (std::size_t k = 0; k < ways.size(); ++k) {
          const auto way = (k + static_cast<std::size_t>(i)) % ways.size();
          spans[way].push_back(span_us(ways[way].enqueue, copy));
        }
      if (context_.interrupted()) break;
      Json entry{{"copied_bytes", bytes}};
      for (std::size_t k = 0; k < ways.size(); ++k) entry[ways[k].name] = spans[k];
      data.push_back(std::move(entry));
      judge_dirty(bytes, "a memset of L2's size", median(spans[0]), median(spans[2]));
      judge_dirty(bytes, "a write sweep", median(spans[1]), median(spans[2]));
    }
    result_.data["dirty_lines"] = std::move(data);
  }

  void judge_dirty(std::size_t bytes, const char* how, double dirty_us, double ours_us) {
    auto what = fmt::format("a copy of {} MiB behind {}, over one behind our sweep", bytes / mebibyte, how);
    auto measured =
        fmt::format("{:+.1f} % ({:.2f} us, ours {:.2f} us)", 100 * (dirty_us / ours_us - 1), dirty_us, ours_us);
    const bool judged = bytes >= 8 * mebibyte && device_.info().l2_bytes >= smallest_judged_l2;
    if (judged)
      add_check(result_, std::move(what),
                fmt::format(">= +{:g} %: its dirty lines are written back meanwhile", 100 * visible),
                std::move(measured), dirty_us >= (1 + visible) * ours_us);
    else
      add_figure(result_, std::move(what), std::move(measured));
  }

  void cold_and_warm() {
    const DeviceMemory memory{device_, half_l2()};
    const auto read = [&] { cache_.read(memory.get(), half_l2()); };
    device_.fill(memory.get(), 0x2545F491U, half_l2());
    std::vector<double> cold_us, warm_us;
    for (int i = 0; i < samples_ && !context_.interrupted(); ++i) {
      cold_us.push_back(span_us([this] { device_.flush_l2(); }, read));
      warm_us.push_back(span_us([] {}, read));
    }
    if (context_.interrupted()) return;
    const double speedup = median(cold_us) / median(warm_us);
    add_check(result_, fmt::format("a read of half of L2 ({:.0f} MiB), cold over warm", in_mebibytes(half_l2())),
              fmt::format(">= {:g}", warm_speedup),
              fmt::format("{:.2f} ({:.2f} us, {:.2f} us)", speedup, median(cold_us), median(warm_us)),
              speedup >= warm_speedup);
    result_.checks.push_back({"L2 hit rates of such a read, cold and warm", "low, high",
                              "not read here: hardware counters need ncu; run tools/ncu_check.py", Outcome::skipped});
    result_.data["read_cold_us"] = cold_us;
    result_.data["read_warm_us"] = warm_us;
  }

  void carve_out() {
    const DeviceMemory memory{device_, half_l2()};
    const auto read = [&] { cache_.read(memory.get(), half_l2()); };
    const auto flush = [this] { device_.flush_l2(); };
    device_.fill(memory.get(), 0x2545F491U, half_l2());
    std::vector<double> before_us, inside_us, after_us;
    for (int i = 0; i < samples_ && !context_.interrupted(); ++i) before_us.push_back(span_us(flush, read));
    std::size_t granted = 0;
    for (int i = 0; i < samples_ && !context_.interrupted(); ++i) {
      try {
        granted = cache_.persist(memory.get(), half_l2());
      } catch (const UnavailableError& error) {
        result_.checks.push_back({"a persisting carve-out of L2", "granted", error.what(), Outcome::unavailable});
        return;
      }
      if (granted == 0) break;
      read();
      inside_us.push_back(span_us(flush, read));
      device_.reset_persisting_l2();
      after_us.push_back(span_us(flush, read));
    }
    if (context_.interrupted()) return;
    if (granted == 0) {
      result_.checks.push_back(
          {"a persisting carve-out of L2", "granted", "this device has none", Outcome::unavailable});
      return;
    }
    judge_carve_out(median(before_us), median(inside_us), median(after_us));
    result_.data["carve_out"] = {
        {"granted_bytes", granted}, {"before_us", before_us}, {"inside_us", inside_us}, {"after_reset_us", after_us}};
  }

  void judge_carve_out(double before_us, double inside_us, double after_us) {
    const double inside = inside_us / before_us, after = after_us / before_us;
    const auto measured = [&](double ratio, double us) {
      return fmt::format("{:+.1f} % ({:.2f} us, {:.2f} us)", 100 * (ratio - 1), us, before_us);
    };
    const bool survives = inside <= 1 - visible;
    result_.checks.push_back({"a swept read with a persisting carve-out left on, over a cold one",
                              fmt::format("<= -{:g} %: the carve-out survives a sweep", 100 * visible),
                              measured(inside, inside_us) + (survives ? "" : ": no effect on this device"),
                              survives ? Outcome::passed : Outcome::skipped});
    add_check(result_, "the same once it was given back as before every round",
              fmt::format("within {:g} %", 100 * visible), measured(after, after_us),
              after >= 1 - visible && after <= 1 + visible);
  }

  /// What fills and checks leave in L2 must not show in warm samples: a copy by marked accesses before anything else
  /// touched its buffers, after a plain fill of both, and after that and the runner's own warm-up.
  void marked_accesses() {
    const std::size_t bytes = device_.info().l2_bytes * 4 / 15 / 256 * 256;  // as gelu's 1024x4096 on an H200
    const DeviceMemory from{device_, bytes}, to{device_, bytes};
    Launch copy = [this, bytes, to = to.get(), from = from.get()](StreamHandle) {
      cache_.marked_copy(to, from, bytes);
    };
    GraphSampler sampler{device_, copy};
    sampler.prepare();
    Samples alone, filled, warmed, discarded;
    SamplerGroup group{sampler};
    const auto fill = [&] {
      for (const auto* memory : {&from, &to}) device_.fill(memory->get(), 0x2545F491U, bytes);
    };
    warm_up(device_, sampler, discarded);
    for (int i = 0; i < samples_ && !context_.interrupted(); ++i) sampler.sample(alone);
    for (int i = 0; i < samples_ && !context_.interrupted(); ++i) {
      fill();
      sampler.sample(filled);
      fill();
      warm_up(device_, sampler, discarded);
      sampler.sample(warmed);
    }
    group.close();
    for (const auto* samples : {&alone, &filled, &warmed}) {
      gates_missed_ += samples->gate_missed;
      spans_ += static_cast<int>(samples->us.size());
    }
    if (context_.interrupted()) return;
    judge_marked_accesses(bytes, median(alone.us), median(filled.us), median(warmed.us));
    result_.data["marked_accesses"] = {{"copied_bytes", bytes},
                                       {"alone_us", alone.us},
                                       {"after_a_fill_us", filled.us},
                                       {"after_a_fill_and_warm_up_us", warmed.us}};
  }

  void judge_marked_accesses(std::size_t bytes, double alone_us, double filled_us, double warmed_us) {
    const double filled = filled_us / alone_us, warmed = warmed_us / alone_us;
    const auto measured = [&](double ratio, double us) {
      return fmt::format("{:+.1f} % ({:.2f} us, {:.2f} us)", 100 * (ratio - 1), us, alone_us);
    };
    const bool shows = filled <= 1 - visible;
    result_.checks.push_back(
        {fmt::format("a copy of {:.0f} MiB by marked accesses after a fill of both its buffers, over one before",
                     in_mebibytes(bytes)),
         fmt::format("<= -{:g} %: marked accesses hit the lines of the fill", 100 * visible),
         measured(filled, filled_us) + (shows ? "" : ": no effect on this device"),
         shows ? Outcome::passed : Outcome::skipped});
    const bool holds = warmed >= 1 - visible && warmed <= 1 + visible;
    result_.checks.push_back({"the same after a fill and a round's warm-up",
                              fmt::format("within {:g} %", 100 * visible), measured(warmed, warmed_us),
                              !holds  ? Outcome::failed
                              : shows ? Outcome::passed
                                      : Outcome::skipped});  // where nothing shows there is nothing to remedy
  }

  void above_peak() {
    const double peak = device_.info().peak_gbytes_per_s;
    if (peak <= 0) {
      result_.checks.push_back({"a write that stays in L2 is flagged", flag::above_dram_peak,
                                "the driver does not say what the memory's peak is", Outcome::unavailable});
      return;
    }
    const DeviceMemory memory{device_, half_l2()};
    bool seen_above = false;
    std::string measured;
    for (const std::size_t bytes : {half_l2() / 2, half_l2()}) {
      const auto us = write_us(memory.get(), bytes);
      if (us.empty()) return;  // interrupted
      const double rate = static_cast<double>(bytes) / median(us) / 1e3;
      seen_above = seen_above || rate > peak;
      measured += fmt::format("{}{:.0f} GB/s at {:.0f} MiB", measured.empty() ? "" : ", ", rate, in_mebibytes(bytes));
      judge_flag(fmt::format("a write of {:.0f} MiB at {:.0f} GB/s", in_mebibytes(bytes), rate), bytes, us,
                 rate > peak);
      result_.data["write_us"][std::to_string(bytes)] = us;
    }
    // The flag itself does not hang on how fast this device's L2 is.
    const double at_peak_us = static_cast<double>(half_l2()) / peak / 1e3;
    judge_flag("made up: 1 % above the peak", half_l2(), {at_peak_us / 1.01}, true);
    judge_flag("made up: 1 % below the peak", half_l2(), {at_peak_us / 0.99}, false);
    result_.checks.push_back({fmt::format("a write smaller than L2 beats the memory's {:.0f} GB/s", peak), "above",
                              measured + (seen_above ? "" : ": not on this device"),
                              seen_above ? Outcome::passed : Outcome::skipped});
  }

  /// Time of one write in a batch, without the fixed cost of stamps: (span of 2N - span of N) / N.
  std::vector<double> write_us(void* to, std::size_t bytes) {
    constexpr int writes = 10;
    const auto batch = [&](int count) {
      return [this, to, bytes, count] {
        for (int i = 0; i < count; ++i) cache_.write(to, bytes);
      };
    };
    const double delay_us = pilot_delay_us(device_, batch(2 * writes));
    std::vector<double> us;
    for (int i = 0; i < samples_ && !context_.interrupted(); ++i) {
      const auto once = gated_span(device_, delay_us, batch(writes));
      const auto twice = gated_span(device_, delay_us, batch(2 * writes));
      gates_missed_ += (once.held ? 0 : 1) + (twice.held ? 0 : 1);
      spans_ += 2;
      us.push_back(whole_ps((twice.us - once.us) / writes));
    }
    if (context_.interrupted()) return {};
    return us;
  }

  /// Through the store's own aggregate, of a row that holds what it looks at.
  void judge_flag(std::string what, std::size_t bytes, const std::vector<double>& us, bool flagged) {
    const Json row{{"name", "selftest/cache_policy"},
                   {"real_time", median(us)},
                   {"samples_us", us},
                   {"mage",
                    {{"rounds", 1},
                     {"floor_us", nullptr},
                     {"flags", Json::array()},
                     {"parts_us", Json::object()},
                     {"work", {{"flops", 0}, {"bytes_read", 0}, {"bytes_written", bytes}}},
                     {"peak_gbytes_per_s", device_.info().peak_gbytes_per_s}}}};
    const auto flags = aggregate({&row}).at("flags");
    const bool found = std::find(flags.begin(), flags.end(), flag::above_dram_peak) != flags.end();
    const auto in_words = [](bool has) { return has ? flag::above_dram_peak : "no flag"; };
    add_check(result_, std::move(what), in_words(flagged), in_words(found), found == flagged);
  }

  [[nodiscard]] std::size_t half_l2() const { return device_.info().l2_bytes / 2 / 256 * 256; }
  static double in_mebibytes(std::size_t bytes) { return static_cast<double>(bytes) / static_cast<double>(mebibyte); }

  Context& context_;
  Device& device_;
  CacheExperiments& cache_;
  int samples_;
  ProofResult result_;
  int spans_ = 0, gates_missed_ = 0;
};

}  // namespace

ProofResult cache_policy(Context& context) {
  if (!context.devices.cuda) return unavailable(context.no_cuda_reason);
  auto& device = *context.devices.cuda;
  auto* cache = device.cache_experiments();
  if (cache == nullptr || device.info().l2_bytes < mebibyte)
    return unavailable(fmt::format("{} has no L2 cache to experiment with", device.info().name));
  return CachePolicy{context, device, *cache}.run();
}

}  // namespace mage::selftest
