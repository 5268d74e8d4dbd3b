// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "test/mutants/gelu_mutants.hpp"

namespace mage::test {
namespace {

constexpr long long tile = 256;

float gelu(float t) { return 0.5f * t * (1.0f + std::erf(t * 0.70710678f)); }

template <Mutation mutation>
void run(const MutantArgs& a, bool first_call) {
  if (mutation == Mutation::output_untouched) return;
  const long long elements = a.rows * a.cols;
  const bool copies = mutation == Mutation::copies_input || (mutation == Mutation::first_call_only && !first_call);
  const long long end = mutation == Mutation::last_tile_unwritten ? std::max(elements - tile, 0LL) : elements;
  for (long long i = 0; i < end; ++i) {
    const float bias = mutation == Mutation::bias_skipped ? 0.0f : a.bias[i % a.cols];
    a.y[i] = mutation == Mutation::all_zeros ? 0.0f : copies ? a.x[i] : gelu(a.x[i] + bias);
  }
  if (mutation == Mutation::one_past_the_end) a.y[elements] = 0.0f;
  if (mutation == Mutation::one_nan) a.y[elements / 2] = std::numeric_limits<float>::quiet_NaN();
  if (mutation == Mutation::input_zeroed) std::fill_n(const_cast<float*>(a.x), elements, 0.0f);
}

template <Mutation mutation>
struct Make {
  static Launch make(const MutantArgs& a) {
    return [a, first_call = true](StreamHandle) mutable {
      run<mutation>(a, first_call);
      first_call = false;
    };
  }
};

}  // namespace

std::span<const Mutant> host_gelu_mutants() { return mutants<Make>; }

}  // namespace mage::test
