// SPDX-License-Identifier: Apache-2.0
// A literal 0 would be the default stream, which no operation here may use by accident.
// expect: use of deleted function 'mage::StreamHandle::StreamHandle\(int\)'
#include "mage_bench/launch.hpp"

#if MAGE_CONTROL
const mage::StreamHandle stream{};
#else
const mage::StreamHandle stream{0};
#endif
