// SPDX-License-Identifier: Apache-2.0
// Stands in for cuda_device.cpp where the build has no CUDA toolkit.
#include <string>

#include "mage_bench/device.hpp"

namespace mage {

CudaPresence cuda_presence() {
  return {0, Unavailable::cuda_toolkit_missing, std::string{explain(Unavailable::cuda_toolkit_missing)}};
}

namespace {

[[noreturn]] void refuse() {
  throw UnavailableError{Unavailable::cuda_toolkit_missing, std::string{explain(Unavailable::cuda_toolkit_missing)}};
}

}  // namespace

DeviceInfo cuda_device_info(int) { refuse(); }
std::unique_ptr<Device> make_cuda_device(int) { refuse(); }

}  // namespace mage
