// SPDX-License-Identifier: Apache-2.0
// Does compute-sanitizer's racecheck see a barrier of the whole block where groups of its warps had barriers of their
// own before? Groups of 4 warps write 2 KB of shared memory each; behind __syncthreads() all threads read what all
// groups wrote. nvcc -std=c++20 -arch=sm_90a racecheck_probe.cu -o probe; compute-sanitizer --tool racecheck ./probe N
#include <cstdio>
#include <cstdlib>

constexpr int groups = 4, group_threads = 128, threads = groups * group_threads;

enum Kind { none, named, named_from_2, named_aligned, named_and_barrier_of_block_by_number, without_the_last_barrier };

template <int kind>
__global__ void __launch_bounds__(threads) probe(float* out, int rounds) {
  __shared__ float values[groups][group_threads];
  const int group = static_cast<int>(threadIdx.x) / group_threads,
            thread = static_cast<int>(threadIdx.x) % group_threads;
  for (int i = 0; i < rounds; ++i) {
    const int id = group + (kind == named_from_2 ? 2 : 1);
    if constexpr (kind == named_aligned) {
      asm volatile("bar.sync %0, %1;" ::"r"(id), "n"(group_threads) : "memory");
    } else if constexpr (kind != none) {
      asm volatile("barrier.sync %0, %1;" ::"r"(id), "n"(group_threads) : "memory");
    }
  }
  __syncthreads();
  values[group][thread] = static_cast<float>(threadIdx.x);
  if constexpr (kind == named_and_barrier_of_block_by_number) {
    asm volatile("barrier.sync 15, %0;" ::"n"(threads) : "memory");
  } else if constexpr (kind != without_the_last_barrier) {
    __syncthreads();
  }
  float sum = 0;
#pragma unroll
  for (int g = 0; g < groups; ++g) sum += values[g][(threadIdx.x + 32) % group_threads];
  out[blockIdx.x * threads + threadIdx.x] = sum;
}

int main(int, char** argv) {
  float* out = nullptr;
  if (cudaMalloc(&out, sizeof(float) * 2 * threads) != cudaSuccess) return 1;
  for (const int rounds : {1, 7}) {
    switch (std::atoi(argv[1])) {
      case none: probe<none><<<2, threads>>>(out, rounds); break;
      case named: probe<named><<<2, threads>>>(out, rounds); break;
      case named_from_2: probe<named_from_2><<<2, threads>>>(out, rounds); break;
      case named_aligned: probe<named_aligned><<<2, threads>>>(out, rounds); break;
      case named_and_barrier_of_block_by_number:
        probe<named_and_barrier_of_block_by_number><<<2, threads>>>(out, rounds);
        break;
      default: probe<without_the_last_barrier><<<2, threads>>>(out, rounds);
    }
  }
  return cudaDeviceSynchronize() == cudaSuccess ? 0 : 1;
}
