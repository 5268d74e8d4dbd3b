// SPDX-License-Identifier: Apache-2.0
// A libcupti whose device is made up: it delivers the records of launches that a test describes, through the buffer
// callbacks and in the layouts of cupti_activity.h. What the real one does is proved by the tests named Gpu*.
#include "fake_cupti.hpp"

#include <cupti.h>

#include <cstring>
#include <set>
#include <string>
#include <vector>

namespace {

struct State {
  CUpti_BuffersCallbackRequestFunc request = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
  std::set<CUpti_ActivityKind> enabled;
  std::vector<std::uint64_t> marks;
  std::vector<std::string> records;  // bytes of one record each
  std::uint32_t correlation = 0;
  std::size_t dropped = 0;
  int buffers_held = 0;
  std::string fault, calls;
};
State state;

bool fault(const char* name) { return state.fault == name; }

CUptiResult called(const std::string& name, CUptiResult result = CUPTI_SUCCESS) {
  if (!state.calls.empty()) state.calls += ' ';
  state.calls += name;
  return result;
}

template <class Record>
void deliver(const Record& record) {
  state.records.emplace_back(reinterpret_cast<const char*>(&record), sizeof record);
}

// Only an API call that is itself recorded is tied to a mark.
void begin_api_call() {
  state.correlation += 1;
  if (!state.enabled.contains(CUPTI_ACTIVITY_KIND_RUNTIME)) return;
  if (!state.marks.empty() && state.enabled.contains(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION)) {
    CUpti_ActivityExternalCorrelation link{};
    link.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
    link.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
    link.externalId = state.marks.back();
    link.correlationId = state.correlation;
    deliver(link);
  }
  CUpti_ActivityAPI api{};
  api.kind = CUPTI_ACTIVITY_KIND_RUNTIME;
  api.correlationId = state.correlation;
  deliver(api);
}

template <class Record>
void deliver_timed(CUpti_ActivityKind kind, Record record, std::uint64_t begin_ns) {
  if (!state.enabled.contains(kind)) return;
  record.kind = kind;
  record.start = fault("untimed") ? 0 : begin_ns;
  record.end = fault("untimed") ? 0 : begin_ns + 10'000;
  record.correlationId = state.correlation;
  deliver(record);
}

std::size_t bytes_of(const CUpti_Activity& record) {
  switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: return sizeof(CUpti_ActivityKernel10);
    case CUPTI_ACTIVITY_KIND_MEMCPY: return sizeof(CUpti_ActivityMemcpy6);
    case CUPTI_ACTIVITY_KIND_MEMSET: return sizeof(CUpti_ActivityMemset4);
    case CUPTI_ACTIVITY_KIND_RUNTIME: return sizeof(CUpti_ActivityAPI);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: return sizeof(CUpti_ActivityExternalCorrelation);
    default: return 0;
  }
}

}  // namespace

void fake_cupti_reset() { state = {}; }
void fake_cupti_fault(const char* name) { state.fault = name; }
void fake_cupti_launch(const char* mangled_name, std::uint64_t begin_ns, int kernels) {
  begin_api_call();
  for (int i = 0; i < kernels; ++i) {
    CUpti_ActivityKernel10 kernel{};
    kernel.name = mangled_name;
    kernel.gridX = 132;
    kernel.gridY = 2;
    kernel.gridZ = 1;
    kernel.blockX = 256;
    kernel.blockY = 1;
    kernel.blockZ = 3;
    deliver_timed(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, kernel, begin_ns + static_cast<std::uint64_t>(i) * 20'000);
  }
}
void fake_cupti_copy(std::uint64_t begin_ns) {
  begin_api_call();
  CUpti_ActivityMemcpy6 copy{};
  copy.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_DTOD;
  deliver_timed(CUPTI_ACTIVITY_KIND_MEMCPY, copy, begin_ns);
}
void fake_cupti_fill(std::uint64_t begin_ns) {
  begin_api_call();
  deliver_timed(CUPTI_ACTIVITY_KIND_MEMSET, CUpti_ActivityMemset4{}, begin_ns);
}
const char* fake_cupti_calls() { return state.calls.c_str(); }
int fake_cupti_buffers_held() { return state.buffers_held; }

extern "C" {

CUptiResult cuptiGetVersion(std::uint32_t* version) {
  *version = fault("old") ? 26 : CUPTI_API_VERSION;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetErrorMessage(CUptiResult, const char** text) {
  *text = "the text of CUPTI";
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                           CUpti_BuffersCallbackCompleteFunc complete) {
  state.request = request;
  state.complete = complete;
  return called("register");
}
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  if (fault("busy")) return called("enable", CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
  if (fault("privileges")) return called("enable", CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
  if (state.enabled.empty()) called("enable");
  state.enabled.insert(kind);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  if (state.enabled.erase(kind) == 1 && state.enabled.empty()) called("disable");
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnableRuntimeApi(CUpti_CallbackId, std::uint8_t) { return CUPTI_SUCCESS; }
CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId, std::uint8_t) { return CUPTI_SUCCESS; }
CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind, std::uint64_t id) {
  state.marks.push_back(id);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind, std::uint64_t*) {
  if (state.marks.empty()) return CUPTI_ERROR_QUEUE_EMPTY;
  state.marks.pop_back();
  return CUPTI_SUCCESS;
}
// Kernels first: CUPTI promises no order between a launch and what ties it to a mark.
CUptiResult cuptiActivityFlushAll(std::uint32_t) {
  if (fault("flush")) return called("flush", CUPTI_ERROR_UNKNOWN);
  std::vector<std::string> records{state.records.rbegin(), state.records.rend()};
  state.records.clear();
  std::size_t next = 0;
  while (next < records.size()) {
    std::uint8_t* buffer = nullptr;
    std::size_t bytes = 0;
    std::size_t max_records = 0;
    state.request(&buffer, &bytes, &max_records);
    if (buffer == nullptr) {
      state.dropped += records.size() - next;
      break;
    }
    state.buffers_held += 1;
    std::size_t used = 0;
    for (; next < records.size() && used + records[next].size() <= bytes; used += records[next++].size())
      std::memcpy(buffer + used, records[next].data(), records[next].size());
    state.complete(nullptr, 0, buffer, bytes, used);
    state.buffers_held -= 1;
  }
  return called("flush");
}
CUptiResult cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t valid_bytes, CUpti_Activity** record) {
  auto* next = *record == nullptr ? buffer : reinterpret_cast<std::uint8_t*>(*record) + bytes_of(**record);
  if (next >= buffer + valid_bytes) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  if (fault("incomplete") && *record != nullptr) return CUPTI_ERROR_INVALID_KIND;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, std::uint32_t, std::size_t* dropped) {
  *dropped = state.dropped + (fault("dropped") ? 1 : 0);
  state.dropped = 0;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiFinalize() {
  state.request = nullptr;
  state.complete = nullptr;
  state.enabled.clear();
  return called("finalize");
}

}  // extern "C"
