// SPDX-License-Identifier: Apache-2.0
// libFuzzer's entry: whatever the text, the store reader gives contents or a StoreError in our own words.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "bench/store_reader.hpp"

// The name is libFuzzer's.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text{reinterpret_cast<const char*>(data), size};
  try {
    for (const auto& benchmark : mage::parse_store(text, "store.json").benchmarks)
      if (benchmark.rounds.empty() || benchmark.rounds_planned < 1) std::abort();
  } catch (const mage::StoreError& error) {
    const std::string_view message = error.what();
    if (message.starts_with("store.json: cannot be read")) std::abort();  // an exception of the JSON library
    if (message.find('\n') != std::string_view::npos || message.size() > 1000) std::abort();
  }
  return 0;
}
