// SPDX-License-Identifier: Apache-2.0
// cuda_memcpy: the driver's own device-to-device copy.
#include "kernels/copy/copy.hpp"
#include "mage_bench/cuda.hpp"

namespace mage::copy {
namespace {

Launch prepare(const Problem& p, const Args& a) {
  const std::size_t bytes = static_cast<std::size_t>(p.rows * p.cols) * sizeof(float);
  return [=](StreamHandle stream) {
    check(cudaMemcpyAsync(a.y, a.x, bytes, cudaMemcpyDeviceToDevice, cuda_stream(stream)), "cudaMemcpyAsync");
  };
}

[[maybe_unused]] const Register<Copy> registered{{
    .parent = "",
    .note = "cudaMemcpyAsync, device to device",
    .provider = "CUDA runtime",
    .min_cc = 75,
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::copy
