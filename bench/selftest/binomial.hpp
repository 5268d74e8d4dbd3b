// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

namespace mage::selftest {

/// The smallest k with P(X <= k) >= q, X binomial of n tries at p each; 0 < p < 1.
[[nodiscard]] inline int binomial_quantile(int n, double p, double q) {
  double total = 0;
  for (int k = 0; k < n; ++k) {
    // By logarithms: (1 - p)^n alone underflows from some ten thousand tries on.
    total += std::exp(std::lgamma(n + 1.0) - std::lgamma(k + 1.0) - std::lgamma(n - k + 1.0) + k * std::log(p) +
                      (n - k) * std::log1p(-p));
    if (total >= q) return k;
  }
  return n;
}

}  // namespace mage::selftest
