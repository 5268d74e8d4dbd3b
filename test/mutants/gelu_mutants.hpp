// SPDX-License-Identifier: Apache-2.0
// Wrong implementations of gelu that the gate must catch, and a right one that it must pass.
#pragma once

#include <span>

#include "mage_bench/launch.hpp"

namespace mage::test {

/// x, y: [rows, cols]; bias: [cols].
struct MutantArgs {
  const float* x;
  const float* bias;
  float* y;
  long long rows, cols;
};

enum class Mutation {
  none,
  copies_input,
  all_zeros,
  last_tile_unwritten,
  bias_skipped,
  one_past_the_end,
  input_zeroed,
  first_call_only,  ///< right on the first call after `make`, then the input comes back
  one_nan,
  output_untouched,
};

struct Mutant {
  const char* name;
  const char* must_say;  ///< part of the verdict's reason; empty for the control, which must pass
  Launch (*make)(const MutantArgs&);
};

[[nodiscard]] std::span<const Mutant> host_gelu_mutants();
/// Their first_call_only counts on the device, so that a graph's replays count too: one live Launch of it at a time.
[[nodiscard]] std::span<const Mutant> cuda_gelu_mutants();

/// One entry a mutation, for a back end's `make`.
template <template <Mutation> class Make>
inline constexpr Mutant mutants[]{
    {"correct", "", Make<Mutation::none>::make},
    {"copies_input", "outside its bound", Make<Mutation::copies_input>::make},
    {"all_zeros", "outside its bound", Make<Mutation::all_zeros>::make},
    {"last_tile_unwritten", "never written", Make<Mutation::last_tile_unwritten>::make},
    {"bias_skipped", "outside its bound", Make<Mutation::bias_skipped>::make},
    {"one_past_the_end", "fence", Make<Mutation::one_past_the_end>::make},
    {"input_zeroed", "input changed", Make<Mutation::input_zeroed>::make},
    {"first_call_only", "outside its bound", Make<Mutation::first_call_only>::make},
    {"one_nan", "outside its bound", Make<Mutation::one_nan>::make},
    {"output_untouched", "never written", Make<Mutation::output_untouched>::make},
};

}  // namespace mage::test
