// SPDX-License-Identifier: Apache-2.0
#include "bench/plan_order.hpp"

#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "mage_bench/random.hpp"

namespace mage {
namespace {

void require_treatments(const char* function, int treatments) {
  if (treatments < 1)
    throw std::invalid_argument{std::string{function} + ": " + std::to_string(treatments) +
                                " treatments; there must be at least one to order"};
}

/// Draws in [0, below) from Philox. std::shuffle and std::uniform_int_distribution differ between libraries.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)} {}

  [[nodiscard]] std::size_t next(std::size_t below) {
    const std::uint64_t word = philox({count_++, 0, 0, 0}, key_)[0];
    return static_cast<std::size_t>((word * below) >> 32);  // the bias is below `below` / 2^32
  }

  template <class T>
  void shuffle(std::span<T> values) {
    for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[next(i)]);
  }

 private:
  std::array<std::uint32_t, 2> key_;
  std::uint32_t count_ = 0;
};

}  // namespace

std::vector<std::vector<int>> williams(int treatments) {
  require_treatments("williams", treatments);
  if (treatments == 1) return {{0}};
  const auto m = static_cast<std::size_t>(treatments);
  // 0, 1, m-1, 2, m-2, ...: its neighbours' differences modulo m are all different where m is even.
  std::vector<int> zigzag(m);
  for (std::size_t i = 1; i < m; ++i) {
    const int step = static_cast<int>((i + 1) / 2);
    zigzag[i] = i % 2 == 1 ? step : treatments - step;
  }
  std::vector<std::vector<int>> rows;
  for (int shift = 0; shift < treatments; ++shift) {
    auto& row = rows.emplace_back(zigzag);
    for (auto& treatment : row) treatment = (treatment + shift) % treatments;
  }
  // Where m is odd each difference comes twice or never; the mirrored rows bring the others.
  if (treatments % 2 == 1)
    for (std::size_t i = 0; i < m; ++i) rows.emplace_back(rows[i].rbegin(), rows[i].rend());
  return rows;
}

int default_rounds(int treatments, int at_least) {
  const auto rows = static_cast<int>(williams(treatments).size());
  return at_least <= rows ? rows : (at_least - 1) / rows * rows + rows;
}

std::vector<std::vector<int>> balanced_order(int treatments, int rounds, std::uint64_t seed) {
  require_treatments("balanced_order", treatments);
  if (rounds < 0) throw std::invalid_argument{"balanced_order: " + std::to_string(rounds) + " rounds"};
  const auto count = static_cast<std::size_t>(rounds);
  Draws draws{seed};
  std::vector<std::vector<int>> order;
  while (order.size() < count) {
    auto design = williams(treatments);
    std::vector<int> label(static_cast<std::size_t>(treatments));
    std::iota(label.begin(), label.end(), 0);
    draws.shuffle(std::span{label});
    draws.shuffle(std::span{design});
    for (auto& row : design) {
      if (order.size() == count) break;
      for (auto& treatment : row) treatment = label[static_cast<std::size_t>(treatment)];
      order.push_back(std::move(row));
    }
  }
  return order;
}

}  // namespace mage
