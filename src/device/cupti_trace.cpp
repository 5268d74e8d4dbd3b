// SPDX-License-Identifier: Apache-2.0
#include "device/cupti_trace.hpp"

#if MAGE_HAVE_CUPTI
#include <cupti.h>
#endif

// Record layouts belong to one major version of CUPTI.
#if MAGE_HAVE_CUPTI && CUPTI_API_VERSION >= 130000

#include <cxxabi.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>

namespace mage {
namespace {

constexpr unsigned cupti_major = CUPTI_API_VERSION / 10000;

// CUPTI hands activity records over in buffers that it asks for and gives back through two callbacks without a user
// pointer. They run inside CUDA calls and on CUPTI's own threads, so they take one short lock, call nothing of CUDA
// or CUPTI, and never throw. Parsing waits for stop(). Trivially destructible: CUPTI may call during exit.
class Buffers {
 public:
  struct Filled {
    std::uint8_t* data;
    std::size_t bytes;
  };

  void request(std::uint8_t** data, std::size_t* bytes, std::size_t* max_records) noexcept {
    const std::lock_guard lock{mutex_};
    *max_records = 0;  // as many as fit
    *data = in_use_ < max_buffers ? static_cast<std::uint8_t*>(std::malloc(buffer_bytes)) : nullptr;
    *bytes = *data == nullptr ? 0 : buffer_bytes;  // CUPTI counts what it then has to drop
    if (*data != nullptr) ++in_use_;
  }
  void complete(std::uint8_t* data, std::size_t valid_bytes) noexcept {
    if (data == nullptr) return;
    const std::lock_guard lock{mutex_};
    if (keep_ && valid_bytes > 0) {
      filled_[filled_count_++] = {data, valid_bytes};
    } else {
      std::free(data);
      --in_use_;
    }
  }
  void keep(bool keep) {
    const std::lock_guard lock{mutex_};
    keep_ = keep;
  }
  /// Calls use(Filled) on each filled buffer and frees it, also where `use` throws.
  template <class Use>
  void drain(const Use& use) {
    std::array<Filled, max_buffers> taken{};
    std::size_t count = 0;
    {
      const std::lock_guard lock{mutex_};
      std::swap(taken, filled_);
      count = std::exchange(filled_count_, 0);
      in_use_ -= count;
    }
    std::exception_ptr error;
    for (std::size_t i = 0; i < count; ++i) {
      try {
        if (error == nullptr) use(taken[i]);
      } catch (...) {
        error = std::current_exception();
      }
      std::free(taken[i].data);
    }
    if (error != nullptr) std::rethrow_exception(error);
  }

 private:
  static constexpr std::size_t buffer_bytes = 1U << 20U;
  static constexpr std::size_t max_buffers = 64;  // 64 MiB: some 200,000 kernels in one trace

  std::mutex mutex_;
  std::array<Filled, max_buffers> filled_{};
  std::size_t filled_count_ = 0;
  std::size_t in_use_ = 0;  // filled, or in CUPTI's hands
  bool keep_ = false;
};

constinit Buffers buffers;
constinit bool trace_running = false;

void CUPTIAPI on_request(std::uint8_t** data, std::size_t* bytes, std::size_t* max_records) {
  buffers.request(data, bytes, max_records);
}
void CUPTIAPI on_complete(CUcontext, std::uint32_t, std::uint8_t* data, std::size_t, std::size_t valid_bytes) {
  buffers.complete(data, valid_bytes);
}

/// The calls of CUPTI that a trace needs. Loaded at run time, so that a machine without CUPTI runs everything else.
struct Cupti {
  decltype(&cuptiGetVersion) get_version = nullptr;
  decltype(&cuptiGetErrorMessage) get_error_message = nullptr;
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityDisable) disable = nullptr;
  decltype(&cuptiActivityEnableRuntimeApi) enable_runtime_api = nullptr;
  decltype(&cuptiActivityEnableDriverApi) enable_driver_api = nullptr;
  decltype(&cuptiActivityPushExternalCorrelationId) push_mark = nullptr;
  decltype(&cuptiActivityPopExternalCorrelationId) pop_mark = nullptr;
  decltype(&cuptiActivityFlushAll) flush_all = nullptr;
  decltype(&cuptiActivityGetNextRecord) get_next_record = nullptr;
  decltype(&cuptiActivityGetNumDroppedRecords) get_dropped = nullptr;
  decltype(&cuptiFinalize) finalize = nullptr;

  [[nodiscard]] std::string text(CUptiResult result) const {
    const char* message = nullptr;
    if (get_error_message(result, &message) != CUPTI_SUCCESS || message == nullptr) message = "no text";
    return "CUPTI result " + std::to_string(static_cast<int>(result)) + " (" + message + ")";
  }
  void check(CUptiResult result, const char* call) const {
    if (result != CUPTI_SUCCESS)
      throw std::runtime_error{std::string{call} + " failed during a kernel trace: " + text(result)};
  }
};

[[noreturn]] void throw_missing(const std::string& what) { throw UnavailableError{Unavailable::cupti_missing, what}; }

void* open_library() {
  const std::string name = "libcupti.so." + std::to_string(cupti_major);
  std::vector<std::string> candidates;
  if (const char* chosen = std::getenv("MAGE_CUPTI_LIBRARY")) {
    candidates = {chosen};
  } else {
    candidates = {name};
    std::vector<std::string> toolkits;
    for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
      if (const char* toolkit = std::getenv(variable)) toolkits.emplace_back(toolkit);
    toolkits.emplace_back("/usr/local/cuda");
    for (const auto& toolkit : toolkits)
      for (const char* folder : {"/lib64/", "/extras/CUPTI/lib64/"}) candidates.push_back(toolkit + folder + name);
  }
  std::string why;
  for (const auto& candidate : candidates) {
    if (void* library = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    if (why.empty()) why = dlerror();
  }
  throw_missing("CUPTI could not be loaded: " + why + ". Install the toolkit's CUPTI or set CUDA_HOME");
}

template <class Function>
void resolve(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) throw_missing(std::string{"the CUPTI that was loaded has no "} + name);
}

Cupti load() {
  void* library = open_library();  // never closed: CUPTI's threads may outlive any trace
  Cupti cupti;
  resolve(library, "cuptiGetVersion", cupti.get_version);
  resolve(library, "cuptiGetErrorMessage", cupti.get_error_message);
  resolve(library, "cuptiActivityRegisterCallbacks", cupti.register_callbacks);
  resolve(library, "cuptiActivityEnable", cupti.enable);
  resolve(library, "cuptiActivityDisable", cupti.disable);
  resolve(library, "cuptiActivityEnableRuntimeApi", cupti.enable_runtime_api);
  resolve(library, "cuptiActivityEnableDriverApi", cupti.enable_driver_api);
  resolve(library, "cuptiActivityPushExternalCorrelationId", cupti.push_mark);
  resolve(library, "cuptiActivityPopExternalCorrelationId", cupti.pop_mark);
  resolve(library, "cuptiActivityFlushAll", cupti.flush_all);
  resolve(library, "cuptiActivityGetNextRecord", cupti.get_next_record);
  resolve(library, "cuptiActivityGetNumDroppedRecords", cupti.get_dropped);
  resolve(library, "cuptiFinalize", cupti.finalize);
  std::uint32_t version = 0;
  if (cupti.get_version(&version) != CUPTI_SUCCESS || version / 10000 != cupti_major)
    throw_missing("CUPTI " + std::to_string(version) + " was loaded, but this program was built for CUPTI " +
                  std::to_string(CUPTI_API_VERSION));
  return cupti;
}

const Cupti& cupti() {
  static const Cupti loaded = load();
  return loaded;
}

// CUPTI emits the record that ties a mark to a launch beside the launch's own API record, so both API kinds are on:
// kernels come through the runtime as well as through the driver.
constexpr std::array activity_kinds{
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET,
    CUPTI_ACTIVITY_KIND_RUNTIME,           CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION};
constexpr auto mark_kind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;

void disable_all() {
  for (const auto kind : activity_kinds) static_cast<void>(cupti().disable(kind));
}

// Under another tool the first call that would subscribe is refused: on an H200 with CUDA 13.0 the registration.
[[noreturn]] void throw_refused(const char* call, CUptiResult result, const std::string& why) {
  const auto detail = std::string{call} + " failed: " + why;
  if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED || result == CUPTI_ERROR_HARDWARE_BUSY)
    throw UnavailableError{Unavailable::cupti_busy,
                           detail + ". Another tool (ncu, nsys, compute-sanitizer, cuda-gdb) is attached"};
  throw_missing(detail);
}

void enable_all() {
  for (const auto kind : activity_kinds) {
    const auto result = cupti().enable(kind);
    if (result == CUPTI_SUCCESS) continue;
    const auto why = cupti().text(result);
    disable_all();
    buffers.keep(false);
    throw_refused("cuptiActivityEnable", result, why);
  }
  // A host that polls an event would fill the buffers. Without these two calls the trace is larger, not wrong.
  static_cast<void>(cupti().enable_runtime_api(CUPTI_RUNTIME_TRACE_CBID_cudaEventQuery_v3020, 0));
  static_cast<void>(cupti().enable_driver_api(CUPTI_DRIVER_TRACE_CBID_cuEventQuery, 0));
}

std::string demangle(const char* name) {
  if (name == nullptr) return "(unnamed kernel)";
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text{abi::__cxa_demangle(name, nullptr, nullptr, &status),
                                                         &std::free};
  return status == 0 ? text.get() : name;  // an extern "C" kernel has no mangled name
}

std::string memcpy_name(unsigned kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD: return "[memcpy HtoD]";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH: return "[memcpy DtoH]";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD: return "[memcpy DtoD]";
    case CUPTI_ACTIVITY_MEMCPY_KIND_PTOP: return "[memcpy PtoP]";
    default: return "[memcpy]";  // arrays and host to host
  }
}

class Parser {
 public:
  void operator()(Buffers::Filled buffer) {
    CUpti_Activity* record = nullptr;
    auto result = CUPTI_SUCCESS;
    while ((result = cupti().get_next_record(buffer.data, buffer.bytes, &record)) == CUPTI_SUCCESS) take(*record);
    if (result != CUPTI_ERROR_MAX_LIMIT_REACHED) cupti().check(result, "cuptiActivityGetNextRecord");
  }

  [[nodiscard]] std::vector<KernelRecord> finish() {
    std::stable_sort(found_.begin(), found_.end(),
                     [](const Found& a, const Found& b) { return a.begin_ns < b.begin_ns; });
    std::vector<KernelRecord> records;
    for (auto& found : found_) {
      if (found.begin_ns == 0 || found.end_ns < found.begin_ns)
        throw std::runtime_error{"CUPTI has no times for " + found.record.name +
                                 ": its profiling buffers were full. Trace fewer launches at a time"};
      if (const auto mark = marks_.find(found.correlation); mark != marks_.end()) found.record.mark = mark->second;
      if (const auto thread = threads_.find(found.correlation); thread != threads_.end())
        found.record.thread = thread->second;
      const auto first_ns = found_.front().begin_ns;
      found.record.begin_us = static_cast<double>(found.begin_ns - first_ns) * 1e-3;
      found.record.end_us = static_cast<double>(found.end_ns - first_ns) * 1e-3;
      records.push_back(std::move(found.record));
    }
    return records;
  }

 private:
  struct Found {
    KernelRecord record;
    std::uint64_t begin_ns, end_ns;
    std::uint32_t correlation;  // of the API call that enqueued it: the launch, or the graph's launch
  };

  void take(const CUpti_Activity& activity) {
    if (activity.kind == CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION) {
      const auto& link = reinterpret_cast<const CUpti_ActivityExternalCorrelation&>(activity);
      if (link.externalKind == mark_kind) marks_.insert_or_assign(link.correlationId, std::uint64_t{link.externalId});
    } else if (activity.kind == CUPTI_ACTIVITY_KIND_RUNTIME || activity.kind == CUPTI_ACTIVITY_KIND_DRIVER) {
      const auto& call = reinterpret_cast<const CUpti_ActivityAPI&>(activity);
      threads_.insert_or_assign(call.correlationId, call.threadId);
    } else if (activity.kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
      const auto& kernel = reinterpret_cast<const CUpti_ActivityKernel10&>(activity);
      add(kernel, demangle(kernel.name));
      auto& record = found_.back().record;
      record.is_kernel = true;
      const std::array grid{kernel.gridX, kernel.gridY, kernel.gridZ};
      const std::array block{kernel.blockX, kernel.blockY, kernel.blockZ};
      std::transform(grid.begin(), grid.end(), record.grid, [](int n) { return static_cast<unsigned>(n); });
      std::transform(block.begin(), block.end(), record.block, [](int n) { return static_cast<unsigned>(n); });
    } else if (activity.kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
      const auto& copy = reinterpret_cast<const CUpti_ActivityMemcpy6&>(activity);
      add(copy, memcpy_name(copy.copyKind));
    } else if (activity.kind == CUPTI_ACTIVITY_KIND_MEMSET) {
      add(reinterpret_cast<const CUpti_ActivityMemset4&>(activity), "[memset]");
    }
  }
  template <class Activity>
  void add(const Activity& activity, std::string name) {
    Found found{{}, activity.start, activity.end, activity.correlationId};
    found.record.name = std::move(name);
    found.record.is_kernel = false;
    found.record.stream = activity.streamId;
    found_.push_back(std::move(found));
  }

  std::vector<Found> found_;
  std::unordered_map<std::uint32_t, std::uint64_t> marks_;    // by correlation
  std::unordered_map<std::uint32_t, std::uint32_t> threads_;  // likewise
};

}  // namespace

CuptiTrace::~CuptiTrace() {
  try {
    abandon();
  } catch (const std::exception&) {
    running_ = false;  // a destructor can report nothing
  }
}

// What an interrupted trace has recorded is of no use, and CUPTI must not go on recording.
void CuptiTrace::abandon() {
  if (!running_) return;
  if (std::exchange(marked_, false)) static_cast<void>(cupti().pop_mark(mark_kind, nullptr));
  disable_all();
  // Records that CUPTI still holds would turn up in the next trace.
  static_cast<void>(cupti().flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
  buffers.keep(false);
  buffers.drain([](Buffers::Filled) {});
  trace_running = running_ = false;
}

void CuptiTrace::start() {
  abandon();
  if (trace_running) throw std::logic_error{"a kernel trace was started while another one runs: stop that one first"};
  // Once a trace: cuptiFinalize forgets the callbacks.
  if (const auto result = cupti().register_callbacks(&on_request, &on_complete); result != CUPTI_SUCCESS)
    throw_refused("cuptiActivityRegisterCallbacks", result, cupti().text(result));
  buffers.keep(true);
  enable_all();
  trace_running = running_ = true;
}

void CuptiTrace::mark(std::uint64_t mark) {
  if (!running_) throw std::logic_error{"trace_mark was called outside a kernel trace: call trace_start first"};
  if (std::exchange(marked_, false))
    cupti().check(cupti().pop_mark(mark_kind, nullptr), "cuptiActivityPopExternalCorrelationId");
  if (mark == 0) return;
  cupti().check(cupti().push_mark(mark_kind, mark), "cuptiActivityPushExternalCorrelationId");
  marked_ = true;
}

// Detaching: NVIDIA's sample cupti_finalize attaches and detaches "any number of times", CUPTI attaches again by the
// next call, and callbacks have to be registered again. cuptiFinalize may run outside a CUDA callback only where no
// other thread is in a CUDA call and everything is synchronised and flushed. Re-attaching crashed programs with graphs
// before CUDA 12.6 (pytorch/pytorch#146604). After it, no CUPTI call: each would attach anew.
std::vector<KernelRecord> CuptiTrace::stop() {
  if (!running_) throw std::logic_error{"trace_stop was called outside a kernel trace: call trace_start first"};
  mark(0);
  const auto flushed = cupti().flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  disable_all();
  buffers.keep(false);
  trace_running = running_ = false;

  std::size_t dropped = 0;
  const auto counted = cupti().get_dropped(nullptr, 0, &dropped);
  Parser parser;
  buffers.drain([&](Buffers::Filled buffer) { parser(buffer); });
  auto records = parser.finish();
  if (after_stop_ == AfterStop::detach) cupti().check(cupti().finalize(), "cuptiFinalize");

  cupti().check(flushed, "cuptiActivityFlushAll");
  cupti().check(counted, "cuptiActivityGetNumDroppedRecords");
  if (dropped > 0)
    throw std::runtime_error{"CUPTI dropped " + std::to_string(dropped) +
                             " records of a kernel trace for want of buffers: trace fewer launches at a time"};
  return records;
}

}  // namespace mage

#else

namespace mage {

CuptiTrace::~CuptiTrace() = default;
void CuptiTrace::abandon() {}
void CuptiTrace::start() {
  throw UnavailableError{Unavailable::cupti_missing, "this program was built without CUPTI 13 or newer"};
}
void CuptiTrace::mark(std::uint64_t) {}
std::vector<KernelRecord> CuptiTrace::stop() { return {}; }

}  // namespace mage

#endif
