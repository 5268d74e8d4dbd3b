// SPDX-License-Identifier: Apache-2.0
#include "mage_bench/operand.hpp"

#include <string_view>

namespace mage {
std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::i32: return 4;
    case DType::f64:
    case DType::i64: return 8;
  }
  return 0;
}

std::string_view to_string(DType dtype) {
  switch (dtype) {
    case DType::f32: return "f32";
    case DType::f64: return "f64";
    case DType::i32: return "i32";
    case DType::i64: return "i64";
  }
  return "?";
}

std::string_view to_string(Distribution distribution) {
  switch (distribution) {
    case Distribution::normal: return "normal";
    case Distribution::shifted: return "shifted";
    case Distribution::large: return "large";
    case Distribution::constant: return "constant";
    case Distribution::spike: return "spike";
    case Distribution::subnormal: return "subnormal";
    case Distribution::zeros: return "zeros";
    case Distribution::special: return "special";
    case Distribution::tail: return "tail";
  }
  return "?";
}

std::string_view to_string(Limit limit) {
  switch (limit) {
    case Limit::dram_copy: return "dram_copy";
    case Limit::dram_read: return "dram_read";
    case Limit::dram_write: return "dram_write";
    case Limit::dram_gather: return "dram_gather";
    case Limit::l2_copy: return "l2_copy";
    case Limit::l2_read: return "l2_read";
    case Limit::l2_write: return "l2_write";
    case Limit::l2_gather: return "l2_gather";
    case Limit::ffma: return "ffma";
    case Limit::empty: return "empty";
  }
  return "?";
}

bool parse_distribution(std::string_view text, Distribution& out) {
  for (const auto distribution : all_distributions) {
    if (to_string(distribution) != text) continue;
    out = distribution;
    return true;
  }
  return false;
}

}  // namespace mage
