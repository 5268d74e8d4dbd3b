// SPDX-License-Identifier: Apache-2.0
// The one seam between measurement and hardware. CudaDevice and HostDevice implement it; tests bring a FakeDevice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mage_bench/inspection.hpp"
#include "mage_bench/launch.hpp"
#include "mage_bench/types.hpp"

namespace mage {

/// What a device says of itself; facts as (key, value) go to the store unchanged.
struct DeviceInfo {
  std::string name;
  bool is_host = false;
  int compute_capability = 0;  ///< major * 10 + minor; 0 on the host
  std::size_t l2_bytes = 0;
  std::size_t memory_bytes = 0;
  std::size_t free_bytes = 0;    ///< when the device was opened
  double peak_gbytes_per_s = 0;  ///< of its memory, by clock and bus width; 0 where unknown
  std::vector<std::pair<std::string, std::string>> facts;
};

/// The two stamps of a span.
enum class Stamp { begin, end };

/// A captured graph of one operation repeated; made by Device::capture.
class Graph {
 public:
  virtual ~Graph() = default;
  [[nodiscard]] virtual int kernel_nodes() const = 0;
  [[nodiscard]] virtual int other_nodes() const = 0;
  [[nodiscard]] virtual double instantiate_us() const = 0;
  /// Each node in words (kernel, grid, block, shared memory), sorted: what graphs of one and of many are compared by.
  [[nodiscard]] virtual std::vector<std::string> nodes() const = 0;
};

/// One kernel execution as the profiler saw it.
struct KernelRecord {
  std::string name;
  std::uint64_t mark = 0;  ///< the trace_mark under which it was enqueued
  double begin_us = 0, end_us = 0;
  unsigned grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  bool is_kernel = true;     ///< and no copy or fill
  std::uint32_t stream = 0;  ///< by the profiler's own numbers
  std::uint32_t thread = 0;  ///< of the host, that enqueued it; likewise, and 0 where nobody knows
  /// A kernel of the measuring protocol's own: these run between calls, where the mark is 0.
  [[nodiscard]] bool is_harness() const {
    return is_kernel && mark == 0 && name.find("mage_harness_") != std::string::npos;
  }
};

/// One of a device's limits, as cudaLimitPersistingL2CacheSize, or another setting of the whole process.
struct DeviceSetting {
  std::string name;
  std::size_t value = 0;
  bool operator==(const DeviceSetting&) const = default;
};

/// What the protocol keeps away from, for the self-test to show why. Enqueued like everything else, except persist().
class CacheExperiments {
 public:
  /// Sweeps that others flush L2 with: their own lines stay in it, dirty.
  enum class DirtyFlush { memset, write_sweep };

  virtual void dirty_flush(DirtyFlush how) = 0;
  virtual void read(const void* from, std::size_t bytes) = 0;  ///< in whole 16-byte vectors
  virtual void write(void* to, std::size_t bytes) = 0;         ///< likewise
  /// In whole 16-byte vectors, by loads that pass L1 and stores that ask to be evicted first.
  virtual void marked_copy(void* to, const void* from, std::size_t bytes) = 0;
  /// Asks for the largest persisting carve-out of L2, and for the stream's accesses to those bytes to use it.
  /// Returns the bytes of the carve-out, 0 where the device has none. Device::reset_persisting_l2() ends it.
  [[nodiscard]] virtual std::size_t persist(void* pointer, std::size_t bytes) = 0;

 protected:
  CacheExperiments() = default;
  ~CacheExperiments() = default;  // nobody owns one: it is a side of its device
  CacheExperiments(const CacheExperiments&) = default;
  CacheExperiments& operator=(const CacheExperiments&) = default;
};

/// What a variant is tried with before it has a time: memory and company that a measurement does not have.
class Trials {
 public:
  enum class Border { front, rear };

  /// Memory that begins (front) or ends (rear) exactly where an address begins that nobody may touch: whoever does
  /// loses the process. `bytes` a multiple of vector_bytes, which is its alignment. Released by Device::deallocate.
  [[nodiscard]] virtual void* allocate_at_border(std::size_t bytes, Border border) = 0;
  static constexpr std::size_t vector_bytes = 16;  ///< the widest access of one thread on most devices
  /// From now on memory that a variant allocates for itself lies so, rounded up to 256 bytes, until the next
  /// Device::place_scratch().
  virtual void scratch_at_border(Border /*border*/) {}
  /// Memory that host and device both read and write. Released by Device::deallocate.
  [[nodiscard]] virtual void* allocate_shared(std::size_t bytes) = 0;
  struct Calls {
    Launch& launch;
    int count;
  };
  /// At the same time as far as the device can: on two streams, or by two threads. Waits. False where one began before
  /// all were enqueued.
  [[nodiscard]] virtual bool run_together(const Calls& one, const Calls& other) = 0;
  /// As Device::checksum, without waiting for what was enqueued before.
  [[nodiscard]] virtual std::uint64_t checksum_meanwhile(const void* from, std::size_t bytes) = 0;

 protected:
  Trials() = default;
  ~Trials() = default;  // nobody owns one: it is a side of its device
  Trials(const Trials&) = default;
  Trials& operator=(const Trials&) = default;
};

/// What the in-band clock probe saw: cycles over nanoseconds of one short spin.
struct ClockProbe {
  double sm_mhz = 0;
};

/// An operation of known duration, for the self-test.
struct Spin {
  double us = 0;                        ///< by the device's own clock, from its first to its last instruction
  const std::uint32_t* from = nullptr;  ///< what it copies meanwhile, so that its result can be checked
  std::uint32_t* to = nullptr;
  int words = 0;
  std::uint64_t* stamps = nullptr;  ///< two words for when it began and ended, in nanoseconds; null for none
};

/// Everything runs in order on one stream that the device owns, and may change for another. Failures throw
/// std::runtime_error with the call, the error and what to do; UnavailableError where the device cannot do a thing at
/// all.
class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  [[nodiscard]] virtual const DeviceInfo& info() const = 0;
  /// Why a mode cannot be timed on this device; nothing where it can.
  [[nodiscard]] virtual std::optional<Unavailable> unavailable(TimingMode mode) const = 0;

  // Memory: 256-byte aligned.
  [[nodiscard]] virtual void* allocate(std::size_t bytes) = 0;
  virtual void deallocate(void* pointer) noexcept = 0;
  virtual void upload(void* to, const void* from_host, std::size_t bytes) = 0;
  virtual void download(void* to_host, const void* from, std::size_t bytes) = 0;
  /// Enqueues filling `bytes` with a 32-bit pattern, which begins anew at every address that is a multiple of 4.
  virtual void fill(void* to, std::uint32_t pattern, std::size_t bytes) = 0;
  /// Enqueues a copy inside the device.
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  /// Position-dependent 64-bit checksum, by 32-bit words, the last one padded with zeros; the same on every device.
  [[nodiscard]] virtual std::uint64_t checksum(const void* from, std::size_t bytes) = 0;

  /// Of each region, without waiting between them.
  struct Region {
    const void* begin = nullptr;
    std::size_t bytes = 0;
  };
  [[nodiscard]] virtual std::vector<std::uint64_t> checksums(const std::vector<Region>& regions) {
    std::vector<std::uint64_t> sums;
    sums.reserve(regions.size());
    for (const auto& region : regions) sums.push_back(checksum(region.begin, region.bytes));
    return sums;
  }

  // Checks that are enqueued like operations, and judged later (src/device/inspection.hpp).
  /// Enqueues flipping one bit of each element, so that values stay plausible: high in a float's mantissa. A `secret`
  /// of 0 flips none, by the same accesses.
  virtual void spoil(void* to, DType dtype, std::size_t elements, std::uint64_t secret) = 0;
  /// Enqueues giving the inputs the changed elements of question.set, and spoiling a few elements of each output.
  virtual void disturb(const Inspection& inspection, const Question& question) = 0;
  /// As disturb(), by a kernel that lets a dependent kernel start at once and changes memory a while later.
  virtual void disturb_late(const Inspection& inspection, const Question& question) { disturb(inspection, question); }
  /// Enqueues looking at those elements of the outputs.
  virtual void inspect(const Inspection& inspection, const Question& question) = 0;
  /// As inspect(), by a dependent kernel: it starts when what was enqueued before it lets it, and waits as such a
  /// kernel must.
  virtual void inspect_as_dependent(const Inspection& inspection, const Question& question) {
    inspect(inspection, question);
  }
  /// Enqueues looking whether memory still holds what fill() put there. The tag comes back in Findings.
  virtual void inspect_fill(const void* from, std::uint32_t pattern, std::size_t bytes, std::uint32_t tag) = 0;
  /// Enqueues looking whether anybody wrote beside the scratch that is in use.
  virtual void inspect_scratch(std::uint32_t /*tag*/) {}
  /// Enqueues comparing every element as compare() of case.hpp does.
  virtual void judge(const Judged& output, std::uint32_t tag) = 0;
  /// Enqueues giving these elements another value and bound.
  virtual void amend(double* value, float* bound, const Amendment* amendments, std::size_t count) = 0;
  /// Waits for what was enqueued; what was found since the last call.
  [[nodiscard]] virtual Findings findings() = 0;

  // Execution.
  /// Waits for what was enqueued, then goes on on the stream of that index, modulo how many there are; returns which.
  /// The fixed cost of stamps depends on the stream (experiments/foundation), so a run samples several.
  virtual int change_stream(int /*index*/) { return 0; }
  virtual void submit(Launch& launch) = 0;
  virtual void synchronize() = 0;
  /// Waits for everything on the device, whoever enqueued it and where.
  virtual void wait_idle() { synchronize(); }
  /// An operation that does nothing, by the path of a real one: an empty kernel.
  [[nodiscard]] virtual Launch empty_launch() const = 0;
  /// Enqueues it on `stream`, as a launch does.
  virtual void spin(StreamHandle stream, const Spin& spin) = 0;

  // Time.
  [[nodiscard]] virtual double now_us() = 0;  ///< host clock, steady
  virtual void record(Stamp stamp) = 0;
  [[nodiscard]] virtual bool reached(Stamp stamp) = 0;
  [[nodiscard]] virtual double elapsed_us() = 0;  ///< from begin to end; both must be complete

  // Protocol pieces.
  /// Enqueues a kernel that spins for `us` microseconds and ends by itself: hides host enqueue time.
  virtual void delay(double us) = 0;
  /// Enqueues a write sweep, then a read sweep, over more than twice L2: nothing useful and nothing dirty stays.
  virtual void flush_l2() = 0;
  /// Gives back any persisting carve-out of L2 that an operation may have left.
  virtual void reset_persisting_l2() = 0;
  /// Null where the device has no cache to experiment with.
  [[nodiscard]] virtual CacheExperiments* cache_experiments() { return nullptr; }
  /// Spins for some tens of microseconds and reports the SM clock; nothing on the host.
  [[nodiscard]] virtual std::optional<ClockProbe> probe_clock() = 0;

  // Graphs.
  [[nodiscard]] virtual std::unique_ptr<Graph> capture(Launch& launch, int operations) = 0;
  virtual void replay(Graph& graph) = 0;

  // Kernel activity. Between start and stop, kernels enqueued after trace_mark(k) carry mark k.
  virtual void trace_start() = 0;
  virtual void trace_mark(std::uint64_t mark) = 0;
  [[nodiscard]] virtual std::vector<KernelRecord> trace_stop() = 0;

  // What an operation could change for all others.
  /// Where the scratch memory of the next launches lies follows from `seed`: drawn anew for each launch of a round.
  virtual void place_scratch(std::uint64_t /*seed*/) {}
  /// Bytes from the beginning of the scratch arena, of all that was allocated since place_scratch().
  [[nodiscard]] virtual std::vector<std::size_t> scratch_offsets() const { return {}; }
  [[nodiscard]] virtual std::vector<DeviceSetting> settings() const { return {}; }
  virtual void set_back(const std::vector<DeviceSetting>& /*settings*/) {}
  /// Null where the device has none.
  [[nodiscard]] virtual Trials* trials() { return nullptr; }

  // For profilers around one benchmark: cudaProfilerStart/Stop.
  virtual void profiler_start() = 0;
  virtual void profiler_stop() = 0;
};

[[nodiscard]] std::unique_ptr<Device> make_host_device();

/// The number of CUDA devices, without creating a context; or why there is none.
struct CudaPresence {
  int count = 0;
  std::optional<Unavailable> why_not;
  std::string detail;  ///< why_not in words, with the driver's own
};
[[nodiscard]] CudaPresence cuda_presence();
// Both throw UnavailableError where cuda_presence() says so, std::invalid_argument where `index` is out of range.
/// All but free_bytes, without creating a context.
[[nodiscard]] DeviceInfo cuda_device_info(int index);
[[nodiscard]] std::unique_ptr<Device> make_cuda_device(int index);

}  // namespace mage
