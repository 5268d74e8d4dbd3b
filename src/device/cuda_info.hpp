// SPDX-License-Identifier: Apache-2.0
// What the driver says of a device, and what of it a program may change.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "mage_bench/device.hpp"

namespace mage {

/// Throws as make_cuda_device().
void check_cuda_index(int index);
[[nodiscard]] int cuda_attribute(cudaDeviceAttr which, int device);
/// All but free_bytes, which whoever opens the device fills in.
[[nodiscard]] DeviceInfo describe_cuda_device(int device);

/// The limits of the current device, those that it has, and which device is current.
[[nodiscard]] std::vector<DeviceSetting> cuda_settings();
/// Makes `device` the current one, and sets those of its limits that differ.
void set_cuda_settings(int device, const std::vector<DeviceSetting>& settings);

}  // namespace mage
