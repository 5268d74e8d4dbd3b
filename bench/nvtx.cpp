// SPDX-License-Identifier: Apache-2.0
#include "bench/nvtx.hpp"

#if MAGE_HAVE_NVTX

#include <nvtx3/nvToolsExt.h>

#include <functional>
#include <map>
#include <mutex>
#include <string>

namespace mage {
namespace {

/// Null where no tool listens.
nvtxDomainHandle_t domain() {
  static const auto handle = nvtxDomainCreateA("mage_bench");
  return handle;
}

/// nsys starts a capture at a range only if the range's name is a registered string.
nvtxStringHandle_t registered(std::string_view name) {
  static std::mutex mutex;
  static std::map<std::string, nvtxStringHandle_t, std::less<>> handles;
  const std::lock_guard lock{mutex};
  if (const auto found = handles.find(name); found != handles.end()) return found->second;
  const std::string text{name};
  return handles.emplace(text, nvtxDomainRegisterStringA(domain(), text.c_str())).first->second;
}

}  // namespace

NvtxRange::NvtxRange(std::string_view name) {
  if (domain() == nullptr) return;
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  attributes.message.registered = registered(name);
  static_cast<void>(nvtxDomainRangePushEx(domain(), &attributes));
  pushed_ = true;
}

NvtxRange::~NvtxRange() {
  if (pushed_) static_cast<void>(nvtxDomainRangePop(domain()));
}

}  // namespace mage

#else

namespace mage {

NvtxRange::NvtxRange(std::string_view) {}
NvtxRange::~NvtxRange() = default;

}  // namespace mage

#endif
