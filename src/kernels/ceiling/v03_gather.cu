// SPDX-License-Identifier: Apache-2.0
// v03_gather: reads rows of 512 bytes in a random order, 16 bytes a lane, 32 picks a warp with four rows in flight.
// Parent v01_read: the same loads, but each row where its pick says.
#include "mage_bench/device_code.cuh"

namespace mage::ceiling {

constexpr int v03_threads = 256;
constexpr int v03_unroll = 4;
constexpr int v03_slot_picks = 32;  // one a lane

__device__ inline uint4 v03_load(const uint4* address) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(address));
  return v;
}

// Exact: a pick is a multiple of 2^-20 in [-8, 8).
__device__ inline uint32 v03_row(float pick, uint32 rows) {
  const auto fraction = static_cast<uint32>(pick * 1048576.0f + 8388608.0f);
  return static_cast<uint32>(static_cast<uint64>(fraction) * rows >> 24);
}

__global__ void __launch_bounds__(v03_threads, 8)
    ceiling_v03_gather(const uint4* __restrict__ table, const float* __restrict__ picks, uint32* __restrict__ y,
                       uint32 rows, int64 count, int64 slots) {
  const int64 slot = static_cast<int64>(blockIdx.x) * (v03_threads / 32) + threadIdx.x / 32;
  if (slot >= slots) return;
  const uint32 lane = threadIdx.x % 32;
  const int64 first = slot * v03_slot_picks;
  const int64 left = count - first;
  const uint32 row = lane < left ? v03_row(picks[first + lane], rows) : 0;
  uint32 sum = 0;
  if (left >= v03_slot_picks) {
#pragma unroll 1
    for (int j = 0; j < v03_slot_picks; j += v03_unroll) {
      uint4 v[v03_unroll];
#pragma unroll
      for (int k = 0; k < v03_unroll; ++k)
        v[k] = v03_load(table + static_cast<uint64>(__shfl_sync(0xFFFFFFFFU, row, j + k)) * 32 + lane);
#pragma unroll
      for (int k = 0; k < v03_unroll; ++k) sum ^= v[k].x ^ v[k].y ^ v[k].z ^ v[k].w;
    }
  } else {
#pragma unroll 1
    for (int j = 0; j < left; ++j) {
      const uint4 v = v03_load(table + static_cast<uint64>(__shfl_sync(0xFFFFFFFFU, row, j)) * 32 + lane);
      sum ^= v.x ^ v.y ^ v.z ^ v.w;
    }
  }
  sum = __reduce_xor_sync(0xFFFFFFFFU, sum);
  if (lane == 0) y[slot] = (sum ^ sum >> 30) & 0x3FFFFFFFU;
}

}  // namespace mage::ceiling

#if MAGE_HOST
#include "kernels/ceiling/ceiling.hpp"

namespace mage::ceiling {
namespace {

static_assert(v03_slot_picks == slot_picks);

int64 slots(const Problem& p) { return ceil_div(p.size / (4 * row_words) * p.times, slot_picks); }
int64 blocks(const Problem& p) { return ceil_div(slots(p) * 32, v03_threads); }

Launch prepare(const Problem& p, const Args& a) {
  const int64 rows = p.size / (4 * row_words), count = rows * p.times, outputs = slots(p);
  const auto grid = static_cast<unsigned>(blocks(p));
  const auto* table = reinterpret_cast<const uint4*>(a.x);
  const auto* picks = a.picks;
  auto* y = reinterpret_cast<uint32*>(a.y);
  return [=](StreamHandle stream) {
    ceiling_v03_gather<<<grid, v03_threads, 0, cuda_stream(stream)>>>(table, picks, y, static_cast<uint32>(rows), count,
                                                                      outputs);
  };
}

[[maybe_unused]] const Register<Ceiling> registered{{
    .parent = "v01_read",
    .note = "gather: rows of 512 bytes in a random order, a warp a row, four in flight",
    .min_cc = 80,
    .accepts = [](const Problem& p) { return p.kind == Kind::gather && blocks(p) <= 0x7fffffff; },
    .prepare = prepare,
}};

}  // namespace
}  // namespace mage::ceiling
#endif
