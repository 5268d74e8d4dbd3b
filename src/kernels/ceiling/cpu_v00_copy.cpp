// SPDX-License-Identifier: Apache-2.0
// cpu_v00_copy: std::memcpy of 1 MiB pieces, spread over the cores. The first host version: frozen.
#include <algorithm>
#include <cstring>

#include "kernels/ceiling/ceiling.hpp"

namespace mage::ceiling {
namespace {

constexpr int64 piece = 1 << 20;  // bytes

Launch prepare(const Problem& p, const Args& a) {
  const int64 bytes = p.size;
  const auto* from = reinterpret_cast<const char*>(a.x);
  auto* to = reinterpret_cast<char*>(a.y);
  return [=](StreamHandle) {
#pragma omp parallel for schedule(static)
    for (int64 begin = 0; begin < bytes; begin += piece)
      std::memcpy(to + begin, from + begin, static_cast<std::size_t>(std::min(piece, bytes - begin)));
  };
}

[[maybe_unused]] const Register<Ceiling> registered{{
    .parent = "",
    .note = "copy: OpenMP over 1 MiB pieces of std::memcpy",
    .accepts = [](const Problem& p) { return p.kind == Kind::copy; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::ceiling
