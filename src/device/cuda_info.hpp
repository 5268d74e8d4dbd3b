// SPDX-License-Identifier: Apache-2.0
// What the driver says of a device.
#pragma once

#include <cuda_runtime_api.h>

#include "mage_bench/device.hpp"

namespace mage {

[[nodiscard]] int cuda_attribute(cudaDeviceAttr which, int device);
/// All but free_bytes, which whoever opens the device fills in.
[[nodiscard]] DeviceInfo describe_cuda_device(int device);

}  // namespace mage
