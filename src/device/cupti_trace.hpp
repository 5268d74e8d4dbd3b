// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "mage_bench/device.hpp"

namespace mage {

/// Records what the device executes, through CUPTI's Activity API: kernels, and the copies and fills that are part of
/// an operation ("[memcpy DtoD]", "[memset]"). CUPTI is loaded by the first start(), never before.
/// CUPTI has one client a process, so one trace runs at a time; marks belong to the calling thread.
class CuptiTrace {
 public:
  /// CUPTI stays attached to the process after a trace, and an attached CUPTI makes every later CUDA call a little
  /// slower. Detaching ends that, at the price of a new attachment in the next start(): see stop() in the source.
  enum class AfterStop { stay_attached, detach };

  explicit CuptiTrace(AfterStop after_stop = AfterStop::stay_attached) : after_stop_{after_stop} {}
  ~CuptiTrace();
  CuptiTrace(const CuptiTrace&) = delete;
  CuptiTrace& operator=(const CuptiTrace&) = delete;

  /// Throws UnavailableError: cupti_busy where another tool holds CUPTI, cupti_missing where it can't be used at all.
  /// A trace of this object that an error left running is abandoned first.
  void start();
  /// What is enqueued from now on carries this mark; 0 stands for none.
  void mark(std::uint64_t mark);
  /// The caller has synchronised. Records in order of their start, in microseconds from the first.
  /// Throws std::runtime_error where anything was lost, so that a partial trace is never taken for a whole one.
  [[nodiscard]] std::vector<KernelRecord> stop();

 private:
  void abandon();

  AfterStop after_stop_;
  bool running_ = false;
  bool marked_ = false;
};

}  // namespace mage
