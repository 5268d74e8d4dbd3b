// SPDX-License-Identifier: Apache-2.0
// Does compute-sanitizer's racecheck see a barrier of the whole block behind barriers of groups of its warps? Groups of
// 4 warps write shared memory; behind __syncthreads() all threads read what all groups wrote. N picks a case, whose
// sums are compared with what they must be (a race need not show in them):
//   nvcc -std=c++20 -arch=sm_90a racecheck_probe.cu -o probe && compute-sanitizer --tool racecheck ./probe N
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int groups = 4, group_threads = 128, threads = groups * group_threads;

enum Kind {
  none,                      // no barriers of groups
  named,                     // barrier.sync 1 to 4
  named_from_2,              // barrier.sync 2 to 5
  named_aligned,             // bar.sync
  block_by_number,           // the block's last barrier is barrier.sync 15
  without_the_last_barrier,  // a race, which must be reported
  named_uneven,              // group 0 is at its barriers while the others wait at the block's, as where rows run out
};

template <int kind>
__global__ void __launch_bounds__(threads) probe(float* out, int rounds) {
  __shared__ float values[groups][group_threads];
  const int group = static_cast<int>(threadIdx.x) / group_threads,
            thread = static_cast<int>(threadIdx.x) % group_threads;
  const int own_rounds = kind == named_uneven && group > 0 ? 0 : rounds;
  for (int i = 0; i < own_rounds; ++i) {
    const int id = group + (kind == named_from_2 ? 2 : 1);
    if constexpr (kind == named_aligned) {
      asm volatile("bar.sync %0, %1;" ::"r"(id), "n"(group_threads) : "memory");
    } else if constexpr (kind != none) {
      asm volatile("barrier.sync %0, %1;" ::"r"(id), "n"(group_threads) : "memory");
    }
  }
  __syncthreads();
  values[group][thread] = static_cast<float>(threadIdx.x);
  if constexpr (kind == block_by_number) {
    asm volatile("barrier.sync 15, %0;" ::"n"(threads) : "memory");
  } else if constexpr (kind != without_the_last_barrier) {
    __syncthreads();
  }
  float sum = 0;
#pragma unroll
  for (int g = 0; g < groups; ++g) sum += values[g][(threadIdx.x + 32) % group_threads];
  out[blockIdx.x * threads + threadIdx.x] = sum;
}

int main(int count, char** arguments) {
  const int kind = count == 2 ? std::atoi(arguments[1]) : -1;
  float* out = nullptr;
  if (cudaMalloc(&out, sizeof(float) * 2 * threads) != cudaSuccess) return 1;
  int wrong = 0;
  for (const int rounds : {1, 7}) {
    switch (kind) {
      case none: probe<none><<<2, threads>>>(out, rounds); break;
      case named: probe<named><<<2, threads>>>(out, rounds); break;
      case named_from_2: probe<named_from_2><<<2, threads>>>(out, rounds); break;
      case named_aligned: probe<named_aligned><<<2, threads>>>(out, rounds); break;
      case block_by_number: probe<block_by_number><<<2, threads>>>(out, rounds); break;
      case without_the_last_barrier: probe<without_the_last_barrier><<<2, threads>>>(out, rounds); break;
      case named_uneven: probe<named_uneven><<<2, threads>>>(out, rounds); break;
      default: std::fprintf(stderr, "usage: probe N, N from 0 to 6\n"); return 2;
    }
    std::vector<float> sums(2 * threads);
    if (cudaMemcpy(sums.data(), out, sizeof(float) * sums.size(), cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
    for (int i = 0; i < 2 * threads; ++i) {
      // Four groups' values, all small whole numbers: exact in float.
      const int expected = (0 + 1 + 2 + 3) * group_threads + groups * ((i + 32) % group_threads);
      wrong += sums[i] != static_cast<float>(expected);
    }
  }
  std::printf("case %d: %d sums wrong\n", kind, wrong);
  return 0;
}
