// SPDX-License-Identifier: Apache-2.0
// Which marked accesses depend on what L2 held before them? A copy whose data fit into L2, many times over, by plain or
// L1::no_allocate loads and by plain or evict-first stores, after a sweep of L2 or after plain fills of what it reads
// or writes, or of both. Prints microseconds a copy, as CSV:
//   nvcc -std=c++20 -arch=sm_90a marks_probe.cu -o probe && ./probe
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

namespace {

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
  std::exit(1);
}

template <bool no_allocate, bool evict_first>
__global__ void copy(const uint4* from, uint4* to, int vectors) {
  for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < vectors; i += gridDim.x * blockDim.x) {
    uint4 v;
    if constexpr (no_allocate) {
      asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                   : "l"(from + i));
    } else {
      asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                   : "l"(from + i));
    }
    if constexpr (evict_first) {
      __stcs(to + i, v);
    } else {
      to[i] = v;
    }
  }
}

__global__ void fill(uint4* to, int vectors) {
  for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < vectors; i += gridDim.x * blockDim.x)
    to[i] = make_uint4(1, 2, 3, 4);
}

__global__ void read(const uint4* from, int vectors, uint4* sink) {
  uint4 all{};
  for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < vectors; i += gridDim.x * blockDim.x) {
    const uint4 v = from[i];
    all = make_uint4(all.x ^ v.x, all.y ^ v.y, all.z ^ v.z, all.w ^ v.w);
  }
  if (all.x == 77) *sink = all;
}

constexpr int blocks = 132 * 8, threads = 256, mebibyte_vectors = (1 << 20) / 16, swept = 160 * mebibyte_vectors;
enum History { after_sweep, after_fill_of_input, after_fill_of_output, after_fills_of_both, histories };

struct Memory {
  uint4 *from, *to, *sweep;
};

template <bool no_allocate, bool evict_first>
float copy_us(const Memory& memory, int vectors, History history) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin));
  check(cudaEventCreate(&end));
  const auto batch_us = [&](int count) {
    check(cudaEventRecord(begin));
    for (int i = 0; i < count; ++i)
      copy<no_allocate, evict_first><<<blocks, threads>>>(memory.from, memory.to, vectors);
    check(cudaEventRecord(end));
    check(cudaEventSynchronize(end));
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin, end));
    return milliseconds * 1e3F;
  };
  constexpr int copies = 100;
  std::array<float, 15> us;
  for (auto& one : us) {
    fill<<<blocks, threads>>>(memory.sweep, swept);
    read<<<blocks, threads>>>(memory.sweep, swept, memory.sweep);
    if (history == after_fill_of_input || history == after_fills_of_both)
      fill<<<blocks, threads>>>(memory.from, vectors);
    if (history == after_fill_of_output || history == after_fills_of_both)
      fill<<<blocks, threads>>>(memory.to, vectors);
    batch_us(10);
    const float once = batch_us(copies);
    one = (batch_us(2 * copies) - once) / copies;
  }
  std::sort(us.begin(), us.end());
  check(cudaEventDestroy(begin));
  check(cudaEventDestroy(end));
  return us[us.size() / 2];
}

template <bool no_allocate, bool evict_first>
void print(const Memory& memory, int mebibytes) {
  std::printf("%d,%s,%s", mebibytes, no_allocate ? "no_allocate" : "plain", evict_first ? "evict_first" : "plain");
  for (int history = 0; history < histories; ++history)
    std::printf(",%.2f", copy_us<no_allocate, evict_first>(memory, mebibytes * mebibyte_vectors, History(history)));
  std::printf("\n");
}

}  // namespace

int main() {
  Memory memory{};
  check(cudaMalloc(&memory.from, 32 << 20));
  check(cudaMalloc(&memory.to, 32 << 20));
  check(cudaMalloc(&memory.sweep, std::size_t{swept} * sizeof(uint4)));
  check(cudaMemset(memory.from, 1, 32 << 20));
  std::printf("MiB,loads,stores,after a sweep,after a fill of the input,after a fill of the output,after both fills\n");
  for (const int mebibytes : {8, 12, 15, 16, 18, 24}) {
    print<false, false>(memory, mebibytes);
    print<false, true>(memory, mebibytes);
    print<true, false>(memory, mebibytes);
    print<true, true>(memory, mebibytes);
  }
  check(cudaDeviceSynchronize());
  return 0;
}
