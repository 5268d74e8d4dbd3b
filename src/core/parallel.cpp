// SPDX-License-Identifier: Apache-2.0
#include "mage_bench/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

namespace mage {
namespace {

// Like OpenMP: the first number of a list counts, and a text that is no positive number is no cap.
int64 thread_limit() {
  const auto hardware = std::max<int64>(1, std::thread::hardware_concurrency());
  const char* text = std::getenv("OMP_NUM_THREADS");
  if (text == nullptr) return hardware;
  const std::string_view view{text};
  int64 cap = 0;
  const auto [rest, error] = std::from_chars(view.data(), view.data() + view.size(), cap);
  const bool complete = error == std::errc{} && (rest == view.data() + view.size() || *rest == ',');
  return complete && cap > 0 ? std::min(cap, hardware) : hardware;
}

}  // namespace

void parallel_blocks(int64 count, int64 grain, const std::function<void(int64 begin, int64 end)>& body) {
  if (count < 0 || grain < 1)
    throw std::invalid_argument{"parallel_blocks: count " + std::to_string(count) + " and grain " +
                                std::to_string(grain) + " must be at least 0 and 1"};
  if (count == 0) return;
  const int64 grains = (count - 1) / grain + 1;
  const int64 threads = std::min(thread_limit(), grains);
  if (threads == 1) return body(0, count);

  // Some blocks a thread, taken as they come: a thread that the system delays holds up a small part only.
  constexpr int64 blocks_per_thread = 8;
  const int64 block = ((grains - 1) / (threads * blocks_per_thread) + 1) * grain;
  std::atomic<int64> next{0};
  std::mutex guard;
  std::exception_ptr first_error;
  const auto work = [&] {
    for (;;) {
      const int64 begin = next.fetch_add(block);
      if (begin >= count) return;
      try {
        body(begin, std::min(count, begin + block));
      } catch (...) {
        const std::scoped_lock lock{guard};
        if (!first_error) first_error = std::current_exception();
        next.store(count);
        return;
      }
    }
  };
  {
    std::vector<std::jthread> helpers;
    helpers.reserve(static_cast<std::size_t>(threads - 1));
    try {
      for (int64 i = 1; i < threads; ++i) helpers.emplace_back(work);
    } catch (const std::system_error&) {
      // The system gives no more threads: those that run take all blocks, with the same result.
    }
    work();
  }
  if (first_error) std::rethrow_exception(first_error);
}

}  // namespace mage
