// SPDX-License-Identifier: Apache-2.0
#include "bench/ceilings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace mage {
namespace {

/// What one benchmark measured of a limit.
struct Measured {
  std::string source;
  double per_us = 0;  ///< bytes, flops, or operations
};
using Limits = std::map<Limit, Measured>;

/// What a limit counts.
double amount(Limit limit, const Work& work) {
  switch (limit) {
    case Limit::dram_copy:
    case Limit::dram_read:
    case Limit::dram_write:
    case Limit::dram_gather:
    case Limit::l2_copy:
    case Limit::l2_read:
    case Limit::l2_write:
    case Limit::l2_gather: return work.bytes();
    case Limit::ffma: return work.flops;
    case Limit::empty: return 1;
  }
  return 0;
}

/// The best of each limit, by mode: a limit that was reached once is within reach.
std::map<std::string, Limits> limits_by_mode(std::span<const TimedWork> measured) {
  std::map<std::string, Limits> limits;
  for (const auto& timed : measured) {
    if (!timed.work.ceiling_of || !timed.on_gpu || timed.unstable || !(timed.median_us > 0)) continue;
    auto& best = limits[timed.mode][*timed.work.ceiling_of];
    const double per_us = amount(*timed.work.ceiling_of, timed.work) / timed.median_us;
    if (per_us > best.per_us) best = {timed.name, per_us};
  }
  return limits;
}

/// A part of the work and the limit that it is held against.
struct Part {
  Limit limit;
  double amount;
  const Measured* measured = nullptr;
  [[nodiscard]] double us() const { return amount / measured->per_us; }
};

/// How a benchmark's bytes move. What is as much written as read goes at the rate of a copy, the rest at that of reads
/// or of writes alone.
std::vector<Part> traffic(const TimedWork& timed, double l2_bytes) {
  const auto& work = timed.work;
  if (timed.mode != "event_cold" && work.bytes() <= l2_bytes) return {{Limit::l2_read, work.bytes()}};
  const double both = 2 * std::min(work.bytes_read, work.bytes_written);
  const double reads = work.bytes_read - both / 2, writes = work.bytes_written - both / 2;
  return {{Limit::dram_copy, both}, {Limit::dram_read, reads}, {Limit::dram_write, writes}};
}

std::string rate_of(const Part& part) {
  return part.limit == Limit::ffma ? fmt::format("{:.4g} TFLOP/s", part.measured->per_us / 1e6)
                                   : fmt::format("{:.4g} GB/s", part.measured->per_us / 1e3);
}

std::string sentence(const Part& part, double l2_bytes) {
  const auto takes = [&](const char* what, const std::string& where) {
    return fmt::format("{:.4g} {} at {}{} take {:.4g} us", part.amount, what, rate_of(part), where, part.us());
  };
  switch (part.limit) {
    case Limit::dram_copy: return takes("bytes", ", memory read and written,");
    case Limit::dram_read: return takes("bytes", ", memory read,");
    case Limit::dram_write: return takes("bytes", ", memory written,");
    case Limit::l2_read: return takes("bytes", fmt::format(" from an L2 of {:.4g} bytes, which they fit,", l2_bytes));
    case Limit::ffma: return takes("flops", " by FP32 multiply-adds");
    case Limit::empty: return fmt::format("an operation that writes one word takes {:.4g} us", part.us());
    case Limit::dram_gather:
    case Limit::l2_copy:
    case Limit::l2_write:
    case Limit::l2_gather: break;  // shown beside others, and no bound for them
  }
  return {};
}

/// How an honest measurement can be faster than that.
const char* excuse(Limit limit) {
  switch (limit) {
    case Limit::dram_copy:
    case Limit::dram_read:
    case Limit::dram_write: return "L2 held bytes of an earlier call, or kept written ones back";
    case Limit::l2_read:
      return "caches above L2 held some of the bytes, or the kernel moves fewer than its contract says";
    case Limit::ffma: return "tensor cores did them, or the kernel does fewer than its contract says";
    case Limit::empty: return "it overlaps with the operations beside it";
    case Limit::dram_gather:
    case Limit::l2_copy:
    case Limit::l2_write:
    case Limit::l2_gather: break;
  }
  return "";
}

std::optional<Ceiling> ceiling_of(const TimedWork& timed, const Limits& limits, double l2_bytes) {
  std::string missing;
  const auto find = [&](Part& part) {
    const auto found = limits.find(part.limit);
    if (found == limits.end()) {
      missing += (missing.empty() ? "" : ", ") + std::string{to_string(part.limit)};
      return false;
    }
    part.measured = &found->second;
    return true;
  };

  struct Bound {
    Part part;  ///< its largest
    double us;
  };
  std::vector<Bound> bounds;
  // A part without a measured rate counts no time, so that the sum stays a bound; most of the bytes may not.
  std::vector<Part> moved;
  double bytes_without_rate = 0;
  for (auto& part : traffic(timed, l2_bytes)) {
    if (!(part.amount > 0)) continue;
    if (find(part))
      moved.push_back(part);
    else
      bytes_without_rate += part.amount;
  }
  if (2 * bytes_without_rate < timed.work.bytes()) {
    double us = 0;
    for (const auto& part : moved) us += part.us();
    const auto shorter = [](const Part& x, const Part& y) { return x.us() < y.us(); };
    bounds.push_back({*std::max_element(moved.begin(), moved.end(), shorter), us});
  }
  if (Part part{Limit::ffma, timed.work.flops}; part.amount > 0 && find(part)) bounds.push_back({part, part.us()});
  // An empty operation alone would make any kernel look far from its ceiling.
  const bool works = timed.work.bytes() > 0 || timed.work.flops > 0;
  if (works && bounds.empty()) return std::nullopt;
  if (Part part{Limit::empty, 1}; find(part)) bounds.push_back({part, part.us()});
  if (bounds.empty()) return std::nullopt;

  const auto& largest =
      *std::max_element(bounds.begin(), bounds.end(), [](const Bound& a, const Bound& b) { return a.us < b.us; });
  Ceiling ceiling{largest.part.limit, largest.part.measured->source, largest.us, largest.us / timed.median_us,
                  sentence(largest.part, l2_bytes)};
  if (largest.us > largest.part.us()) ceiling.why += fmt::format(", with its other bytes {:.4g} us", largest.us);
  if (ceiling.fraction > 1) ceiling.why += fmt::format("; faster is possible where {}", excuse(ceiling.binds));
  if (!missing.empty()) ceiling.why += fmt::format("; not measured: {}", missing);
  return ceiling;
}

}  // namespace

std::vector<std::optional<Ceiling>> find_ceilings(std::span<const TimedWork> measured, double l2_bytes) {
  const auto limits = limits_by_mode(measured);
  std::vector<std::optional<Ceiling>> ceilings(measured.size());
  for (std::size_t i = 0; i < measured.size(); ++i) {
    const auto& timed = measured[i];
    const auto of_mode = limits.find(timed.mode);
    if (!timed.on_gpu || timed.work.ceiling_of || of_mode == limits.end() || !(timed.median_us > 0)) continue;
    ceilings[i] = ceiling_of(timed, of_mode->second, l2_bytes);
  }
  return ceilings;
}

std::optional<Limit> parse_limit(std::string_view text) {
  const auto* found =
      std::find_if(all_limits.begin(), all_limits.end(), [&](Limit limit) { return to_string(limit) == text; });
  return found == all_limits.end() ? std::nullopt : std::optional{*found};
}

}  // namespace mage
