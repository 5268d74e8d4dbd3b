// SPDX-License-Identifier: Apache-2.0
#include "mage_bench/cuda.hpp"
#include "test/mutants/gelu_mutants.hpp"

namespace mage::test {
namespace {

constexpr long long tile = 256;

__device__ int calls;  // of the live first_call_only Launch

__device__ float gelu(float t) { return 0.5f * t * (1.0f + erff(t * 0.70710678f)); }

template <Mutation mutation>
__global__ void gelu_mutant(MutantArgs a) {
  const long long elements = a.rows * a.cols;
  const long long i = static_cast<long long>(blockIdx.x) * tile + threadIdx.x;
  if (mutation == Mutation::one_past_the_end && i == elements) a.y[i] = 0.0f;
  if (i >= (mutation == Mutation::last_tile_unwritten ? elements - tile : elements)) return;

  const float x = a.x[i];
  const float bias = mutation == Mutation::bias_skipped ? 0.0f : a.bias[i % a.cols];
  const bool copies = mutation == Mutation::copies_input || (mutation == Mutation::first_call_only && calls > 0);
  const bool poisons = mutation == Mutation::one_nan && i == elements / 2;
  a.y[i] = mutation == Mutation::all_zeros ? 0.0f : poisons ? __int_as_float(0x7fc00000) : copies ? x : gelu(x + bias);
  if (mutation == Mutation::input_zeroed) const_cast<float*>(a.x)[i] = 0.0f;
}

__global__ void count_call() { ++calls; }

template <Mutation mutation>
struct Make {
  static Launch make(const MutantArgs& a) {
    if constexpr (mutation == Mutation::output_untouched) {
      return [](StreamHandle) {};
    } else {
      const int none = 0;
      if (mutation == Mutation::first_call_only)
        check(cudaMemcpyToSymbol(calls, &none, sizeof none), "first_call_only");
      // One thread more than elements, for the one that writes behind the end.
      const auto grid = static_cast<unsigned>((a.rows * a.cols + tile) / tile);
      return [=](StreamHandle stream) {
        gelu_mutant<mutation><<<grid, tile, 0, cuda_stream(stream)>>>(a);
        if (mutation == Mutation::first_call_only) count_call<<<1, 1, 0, cuda_stream(stream)>>>();
      };
    }
  }
};

}  // namespace

std::span<const Mutant> cuda_gelu_mutants() { return mutants<Make>; }

}  // namespace mage::test
