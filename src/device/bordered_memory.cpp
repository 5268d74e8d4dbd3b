// SPDX-License-Identifier: Apache-2.0
#include "device/bordered_memory.hpp"

#include <cuda.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "mage_bench/cuda.hpp"

namespace mage {
namespace {

/// The driver's calls, asked of the runtime: the program links no libcuda, which a machine without a driver lacks.
struct Driver {
  decltype(&cuMemGetAllocationGranularity) granularity = nullptr;
  decltype(&cuMemAddressReserve) reserve = nullptr;
  decltype(&cuMemCreate) create = nullptr;
  decltype(&cuMemMap) map = nullptr;
  decltype(&cuMemSetAccess) set_access = nullptr;
  decltype(&cuMemUnmap) unmap = nullptr;
  decltype(&cuMemRelease) release = nullptr;
  decltype(&cuMemAddressFree) free_address = nullptr;
};

template <class Function>
void resolve(const char* name, Function& function) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
#if CUDART_VERSION >= 12050
  const auto error = cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result);
#else
  const auto error = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result);
#endif
  if (error != cudaSuccess || found == nullptr) {
    static_cast<void>(cudaGetLastError());
    throw UnavailableError{Unavailable::arch, std::string{"the driver has no "} + name};
  }
  function = reinterpret_cast<Function>(found);
}

const Driver& driver() {
  static const Driver loaded = [] {
    Driver all;
    resolve("cuMemGetAllocationGranularity", all.granularity);
    resolve("cuMemAddressReserve", all.reserve);
    resolve("cuMemCreate", all.create);
    resolve("cuMemMap", all.map);
    resolve("cuMemSetAccess", all.set_access);
    resolve("cuMemUnmap", all.unmap);
    resolve("cuMemRelease", all.release);
    resolve("cuMemAddressFree", all.free_address);
    return all;
  }();
  return loaded;
}

void check_driver(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  const auto text = std::string{call} + " failed with CUresult " + std::to_string(static_cast<int>(result));
  if (result == CUDA_ERROR_OUT_OF_MEMORY) throw UnavailableError{Unavailable::memory, text + ": out of device memory"};
  if (result == CUDA_ERROR_NOT_SUPPORTED) throw UnavailableError{Unavailable::arch, text + ": not on this device"};
  throw std::runtime_error{text};
}

CUmemAllocationProp properties_of(int device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  return properties;
}

}  // namespace

/// [nothing | bytes | nothing]
struct BorderedMemory::Mapping {
  Mapping(int device, std::size_t at_least) {
    const auto properties = properties_of(device);
    std::size_t step = 0;
    check_driver(calls.granularity(&step, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
                 "cuMemGetAllocationGranularity");
    bytes = std::max<std::size_t>((at_least + step - 1) / step, 1) * step;
    reserved_bytes = bytes + 2 * step;
    check_driver(calls.reserve(&reserved, reserved_bytes, 0, 0, 0), "cuMemAddressReserve");
    begin = reserved + step;
    try {
      check_driver(calls.create(&memory, bytes, &properties, 0), "cuMemCreate");
      created = true;
      check_driver(calls.map(begin, bytes, 0, memory, 0), "cuMemMap");
      mapped = true;
      CUmemAccessDesc access{};
      access.location = properties.location;
      access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
      check_driver(calls.set_access(begin, bytes, &access, 1), "cuMemSetAccess");
    } catch (...) {
      release();
      throw;
    }
  }
  ~Mapping() { release(); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  void release() noexcept {
    // A destructor can report nothing.
    if (mapped) static_cast<void>(calls.unmap(begin, bytes));
    if (created) static_cast<void>(calls.release(memory));
    static_cast<void>(calls.free_address(reserved, reserved_bytes));
  }

  const Driver& calls = driver();
  std::size_t bytes = 0, reserved_bytes = 0;
  CUdeviceptr reserved = 0, begin = 0;
  CUmemGenericAllocationHandle memory{};
  bool created = false, mapped = false;
};

BorderedMemory::BorderedMemory(int device) : device_{device} {}
BorderedMemory::~BorderedMemory() = default;

void* BorderedMemory::allocate(std::size_t bytes, Trials::Border border) {
  auto found = std::find_if(free_.begin(), free_.end(), [bytes](const auto& mapping) {
    return mapping->bytes >= bytes && mapping->bytes < 2 * bytes + (std::size_t{4} << 20U);
  });
  std::unique_ptr<Mapping> mapping;
  if (found != free_.end()) {
    mapping = std::move(*found);
    free_.erase(found);
  } else {
    mapping = std::make_unique<Mapping>(device_, bytes);
  }
  const auto address = border == Trials::Border::front ? mapping->begin : mapping->begin + mapping->bytes - bytes;
  auto* pointer = reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr): the driver's addresses
  used_[pointer] = std::move(mapping);
  return pointer;
}

bool BorderedMemory::deallocate(void* pointer) {
  const auto found = used_.find(pointer);
  if (found == used_.end()) return false;
  free_.push_back(std::move(found->second));
  used_.erase(found);
  return true;
}

}  // namespace mage
