// SPDX-License-Identifier: Apache-2.0
#include "bench/audits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "bench/samplers.hpp"
#include "bench/statistics.hpp"

namespace mage {

void judge_order(const std::vector<KernelRecord>& records) {
  constexpr double clock_step_us = 0.5;  // between the stamps of two kernels, and for the end of one to be written
  const auto own =
      std::find_if(records.begin(), records.end(), [](const KernelRecord& record) { return record.is_harness(); });
  if (own == records.end()) return;  // nothing to hold them against
  const KernelRecord* before = nullptr;
  std::map<std::uint64_t, const KernelRecord*> turns;  // by mark: what its first kernel ran behind
  std::vector<const KernelRecord*> operation;          // its kernels since the last one of the protocol
  for (const auto& record : records) {                 // by the time at which they began
    if (!record.is_kernel) continue;
    if (record.is_harness()) {
      for (const auto* kernel : operation)
        if (kernel->end_us > record.begin_us + clock_step_us)
          throw WrongError{"the kernel " + kernel->name +
                           " was still running when the stream had gone on to what comes behind the operation"};
      operation.clear();
      before = &record;
      continue;
    }
    const auto about = "the kernel " + record.name + " ";
    if (record.mark == 0)
      throw WrongError{about + "was enqueued outside of a call of the operation, or by another thread"};
    const bool known = record.thread != 0 && own->thread != 0;
    if (known && record.thread != own->thread) throw WrongError{about + "was enqueued by another thread"};
    // On the stream itself a dependent kernel may begin while the one before it ends.
    if (record.stream != own->stream && before != nullptr && record.begin_us + clock_step_us < before->end_us)
      throw WrongError{about + "ran on another stream, and began before what the stream held it behind had ended"};
    if (const auto [turn, first] = turns.try_emplace(record.mark, before); !first && turn->second != before)
      throw WrongError{about + "ran when the stream had gone on to what comes behind the operation"};
    operation.push_back(&record);
  }
}

AuditVerdict work_out_of_turn(Device& device, Case& bound, Launch& launch) {
  constexpr double least_hold_us = 2000, look_after_us = 400;
  constexpr int tries = 3;  // a busy host may need longer than the hold
  double hold_us = 0, look_us = 0;
  if (device.trials() == nullptr) return {};  // nothing can be looked at meanwhile
  for (int i = 0; i < tries; ++i) {
    bound.spoil();
    device.synchronize();
    const double look_begin_us = device.now_us();
    const auto before = bound.glance();
    look_us = device.now_us() - look_begin_us;
    hold_us = least_hold_us + 3 * look_us;
    device.delay(hold_us);
    device.record(Stamp::begin);
    device.submit(launch);
    const double begin_us = device.now_us();
    while (device.now_us() - begin_us < look_after_us) {
    }
    const auto meanwhile = bound.glance();
    const bool held = !device.reached(Stamp::begin);
    device.wait_idle();
    if (!held) continue;
    if (meanwhile == before) return {};
    return {"outputs changed while the stream was held: work of the operation is on another stream", {}};
  }
  return {
      {},
      fmt::format("outputs could not be read while the stream was held for {:.1f} ms: reading took {:.1f} ms, or the "
                  "operation waits for the device",
                  hold_us / 1e3, look_us / 1e3)};
}

std::string work_left_behind(Device& device, Launch& launch) {
  constexpr double more_us = 60;  // than behind nothing: a host may do something else meanwhile
  constexpr int trials = 5;
  auto nothing = device.empty_launch();
  const auto wait_behind_us = [&](Launch& operation) {
    device.wait_idle();
    device.submit(operation);
    device.synchronize();
    const double done_us = device.now_us();
    device.wait_idle();
    return device.now_us() - done_us;
  };
  std::vector<double> waits_us, idle_us;
  for (int i = 0; i < trials; ++i) {
    idle_us.push_back(wait_behind_us(nothing));
    waits_us.push_back(wait_behind_us(launch));
  }
  const double wait_us = statistics::median(waits_us), none_us = statistics::median(idle_us);
  if (wait_us < none_us + more_us) return {};
  return fmt::format(
      "the device was still running for {:.0f} us when the stream had done all of the operation: work of the operation "
      "is on another stream",
      wait_us - none_us);
}

double spoilt_ratio(Device& device, Case& bound, Launch& launch) {
  constexpr int trials = 9;
  const auto operation = [&] { device.submit(launch); };
  const double delay_us = pilot_delay_us(device, operation);
  std::vector<double> spoilt_us, right_us;
  for (int i = 0; i < 2 * trials; ++i) {
    device.submit(launch);
    const bool spoil = i % 4 == 0 || i % 4 == 3;
    if (spoil)
      bound.spoil();
    else
      bound.touch();
    (spoil ? spoilt_us : right_us).push_back(gated_span(device, delay_us, operation).us);
  }
  return statistics::median(spoilt_us) / statistics::median(right_us);
}

double unrepeated_ratio(Device& device, Case& bound, Launch& launch, Launch& copies) {
  constexpr int trials = 5;
  constexpr double target_us = 300;
  constexpr int fewest = 2, most = 16;
  bound.spoil_copies();
  const double alone_us = std::max(pilot_span_us(device, launch), 0.1);
  const int pairs = std::clamp(static_cast<int>(std::lround(target_us / alone_us / 2)), fewest, most);
  const auto batch = [&](Launch& second) {
    return [&] {
      for (int i = 0; i < pairs; ++i) {
        device.submit(launch);
        device.submit(second);
      }
    };
  };
  const double delay_us = pilot_delay_us(device, batch(copies));
  std::vector<double> ratios;
  for (int i = 0; i < trials; ++i) {
    device.submit(launch);
    const double repeated_us = gated_span(device, delay_us, batch(launch)).us;
    device.submit(copies);
    const double unrepeated_us = gated_span(device, delay_us, batch(copies)).us;
    ratios.push_back(unrepeated_us / repeated_us);
  }
  if (const auto changed = bound.unspoil_copies(); !changed.empty()) throw WrongError{changed};
  return statistics::median(ratios);
}

std::string too_good_for_one(const Slope& slope) {
  // Of honest operations on an H200 each is within a hundredth of one alone, over several rounds; a single round may
  // have had a bad moment. What finds in L2 what the one before left is at most as fast as L2.
  const double share = slope.repetition ? 0.45 : slope.many_rounds ? 0.95 : 0.7;
  // The start of a kernel hides behind the end of the one before.
  const double hidden_us = 0.5 + std::max(1.0, slope.start_us) * slope.kernels;
  if (slope.each_us >= share * slope.own_us - hidden_us) return {};
  return fmt::format(
      "one of many operations takes {:.2f} us, one alone {:.2f} us more than nothing does: not all of them "
      "can have done the work",
      slope.each_us, slope.own_us);
}

std::string faster_than_memory(const Work& work, double us, double peak_gbytes_per_s, std::size_t l2_bytes) {
  if (peak_gbytes_per_s <= 0 || us <= 0) return {};
  const double possible_bytes = peak_gbytes_per_s * 1e3 * us;
  // What is read cold comes from memory. What is written may stay in L2, as much as it holds.
  const double all = work.bytes() - static_cast<double>(l2_bytes);
  for (const auto& [bytes, what] :
       {std::pair{work.bytes_read, "reading its inputs"}, std::pair{all, "moving its bytes, but for what L2 holds,"}})
    if (bytes > possible_bytes)
      return fmt::format(
          "faster than memory: {} alone is {:.0f} bytes in {:.2f} us or {:.0f} GB/s; the memory's peak "
          "is {:.0f} GB/s",
          what, bytes, us, bytes / us / 1e3, peak_gbytes_per_s);
  return {};
}

std::string changed_settings(const std::vector<DeviceSetting>& before, const std::vector<DeviceSetting>& after,
                             Changes which) {
  std::string text;
  for (std::size_t i = 0; i < before.size() && i < after.size(); ++i) {
    const auto &was = before[i], &is = after[i];
    if (was == is) continue;
    if (which != Changes::any && was.name == "stack_size" && is.value > was.value) continue;
    if (which == Changes::forbidden_before_calls && was.name == "persisting_l2_cache_size") continue;
    text += fmt::format("{}{} from {} to {}", text.empty() ? "" : ", ", was.name, was.value, is.value);
  }
  return text;
}

}  // namespace mage
