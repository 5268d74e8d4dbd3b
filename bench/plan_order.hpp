// SPDX-License-Identifier: Apache-2.0
// The order in which the rounds of a run visit its treatments (the benchmarks that are measured interleaved).
#pragma once

#include <cstdint>
#include <vector>

namespace mage {

/// A Williams design: every row visits each of [0, treatments) once, and over the rows every ordered pair of distinct
/// neighbours is equally often met, so that what a treatment leaves behind (heat, cache, clocks) weighs on all others
/// alike. `treatments` rows where that is even or 1, otherwise twice as many.
[[nodiscard]] std::vector<std::vector<int>> williams(int treatments);

/// The smallest number of rounds, at least `at_least`, that repeats the whole design.
[[nodiscard]] int default_rounds(int treatments, int at_least = 10);

/// The order of each round: the design, relabelled and with its rows shuffled anew for each repetition. Balanced where
/// `rounds` is a multiple of the design's rows; the last repetition is cut off otherwise.
/// The same (treatments, rounds, seed) gives the same order on any platform.
[[nodiscard]] std::vector<std::vector<int>> balanced_order(int treatments, int rounds, std::uint64_t seed);

}  // namespace mage
