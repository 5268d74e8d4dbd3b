// SPDX-License-Identifier: Apache-2.0
// cpu_v00_memcpy: std::memcpy of 1 MiB pieces, spread over the cores. The first host version: frozen.
#include <algorithm>
#include <cstring>

#include "kernels/copy/copy.hpp"

namespace mage::copy {
namespace {

constexpr int64 piece = 1 << 18;  // elements

Launch prepare(const Problem& p, const Args& a) {
  const int64 elements = p.rows * p.cols;
  return [=](StreamHandle) {
#pragma omp parallel for schedule(static)
    for (int64 begin = 0; begin < elements; begin += piece) {
      const int64 count = std::min(piece, elements - begin);
      std::memcpy(a.y + begin, a.x + begin, static_cast<std::size_t>(count) * sizeof(float));
    }
  };
}

[[maybe_unused]] const Register<Copy> registered{{
    .parent = "",
    .note = "OpenMP over 1 MiB pieces of std::memcpy",
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::copy
