// SPDX-License-Identifier: Apache-2.0
// A tool in the place of nsys: NVTX loads it from NVTX_INJECTION64_PATH, and it appends to the file MAGE_NVTX_LOG one
// line for each range of a domain, "push <domain> <text>" and "pop <domain>".
#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>

namespace {

const std::string& keep(const char* text) {
  static std::mutex mutex;
  static std::set<std::string> strings;
  const std::lock_guard lock{mutex};
  return *strings.emplace(text).first;
}

// One open and one write a line, so that lines of several threads don't mix and a crash loses none.
void log(const std::string& line) {
  const char* path = std::getenv("MAGE_NVTX_LOG");
  std::FILE* file = path == nullptr ? nullptr : std::fopen(path, "a");
  if (file == nullptr) return;
  std::fputs((line + '\n').c_str(), file);
  std::fclose(file);
}

const std::string& text_of(const void* handle) { return *static_cast<const std::string*>(handle); }

nvtxDomainHandle_t NVTX_API domain_create(const char* name) {
  return reinterpret_cast<nvtxDomainHandle_t>(const_cast<std::string*>(&keep(name)));
}

nvtxStringHandle_t NVTX_API register_string(nvtxDomainHandle_t, const char* text) {
  return reinterpret_cast<nvtxStringHandle_t>(const_cast<std::string*>(&keep(text)));
}

int NVTX_API range_push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* attributes) {
  std::string text = "?";
  if (attributes->messageType == NVTX_MESSAGE_TYPE_REGISTERED) text = text_of(attributes->message.registered);
  if (attributes->messageType == NVTX_MESSAGE_TYPE_ASCII) text = attributes->message.ascii;
  log("push " + text_of(domain) + ' ' + text);
  return 0;
}

int NVTX_API range_pop(nvtxDomainHandle_t domain) {
  log("pop " + text_of(domain));
  return 0;
}

template <class Function>
bool replace(NvtxFunctionTable table, unsigned size, NvtxCallbackIdCore2 id, Function function) {
  if (static_cast<unsigned>(id) >= size) return false;
  *table[id] = reinterpret_cast<NvtxFunctionPointer>(function);
  return true;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr || callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0) return 0;
  return replace(table, size, NVTX_CBID_CORE2_DomainCreateA, &domain_create) &&
                 replace(table, size, NVTX_CBID_CORE2_DomainRegisterStringA, &register_string) &&
                 replace(table, size, NVTX_CBID_CORE2_DomainRangePushEx, &range_push) &&
                 replace(table, size, NVTX_CBID_CORE2_DomainRangePop, &range_pop)
             ? 1
             : 0;
}
