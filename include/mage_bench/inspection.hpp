// SPDX-License-Identifier: Apache-2.0
// What a device needs to change a few elements of the inputs before an operation and to look at a few elements of the
// outputs behind it, without waiting and without a cost to the caches. Plain arrays: kernels see them.
#pragma once

#include <cstdint>

#include "mage_bench/dtype.hpp"

namespace mage {

/// An element of an input that two sets of inputs have different values for.
struct InputChange {
  std::uint64_t element = 0;
  std::uint64_t bits[2] = {};  ///< by set; the low bytes, as many as an element has
};

/// An element of an output, and between which values it must lie, by set of inputs. A NaN in `low`: it must be a NaN.
struct OutputPlace {
  std::uint64_t element = 0;
  double low[2] = {}, high[2] = {};
};

/// The tables of a problem's operands, and where these lie at present. All pointers are the device's.
struct Inspection {
  static constexpr int most_operands = 8;  ///< inputs, and likewise outputs: kernels take it by value

  struct Input {
    void* payload = nullptr;
    const InputChange* changes = nullptr;
    int count = 0;
    int element_bytes = 0;
  };
  struct Output {
    void* payload = nullptr;
    const OutputPlace* places = nullptr;
    int count = 0;
    DType dtype = DType::f32;
  };
  Input inputs[most_operands];
  Output outputs[most_operands];
  int input_count = 0, output_count = 0;
};

/// Which of the tables an operation is asked about.
struct Question {
  int set = 0;               ///< of inputs: 0 or 1
  std::uint64_t secret = 0;  ///< picks the places of the outputs
  std::uint32_t tag = 0;     ///< comes back in Findings
};

/// Another right value of an output's element.
struct Amendment {
  std::uint64_t element = 0;
  double value = 0;
  float bound = 0;
};

/// All elements of an output, and what they must be, in the device's memory.
struct Judged {
  const void* payload = nullptr;
  DType dtype = DType::f32;
  std::uint64_t elements = 0;
  const double* value = nullptr;
  const float* bound = nullptr;
  std::uint32_t poison = 0;  ///< words that hold it were never written; 0: none is looked for
};

/// What was wrong since it was last asked; `output` to `high` are those of one of the elements.
struct Findings {
  static constexpr std::int32_t outside = -1;
  static constexpr std::int32_t whole = -2;

  std::uint64_t wrong = 0;    ///< elements
  std::int32_t output = 0;    ///< `outside`: memory that nobody may write to has changed. `whole`: found by judge()
  std::uint32_t tag = 0;      ///< of the question; of memory outside: which operand it is around
  std::uint64_t element = 0;  ///< of memory outside: bytes from the beginning of what was looked at
  double got = 0, low = 0, high = 0;
  double worst = 0;    ///< by judge(): largest error / bound of the elements inside their bounds
  double squares = 0;  ///< by judge(): of all errors; NaN or infinite where a value is
};

}  // namespace mage
