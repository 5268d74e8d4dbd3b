// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace mage {

enum class DType { f32, f64, i32, i64 };

/// Bytes of one element.
[[nodiscard]] std::size_t size_of(DType dtype);
[[nodiscard]] std::string_view to_string(DType dtype);
[[nodiscard]] constexpr bool is_floating(DType dtype) { return dtype == DType::f32 || dtype == DType::f64; }

}  // namespace mage
