// SPDX-License-Identifier: Apache-2.0
// The registry's launches behind a C interface, so that other timers can call the very operation that mage_bench times,
// on pointers of their own. Built as libmage_launch.so on demand: cmake --build build/gpu --target mage_launch.
#include <cuda_runtime_api.h>

#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "mage_bench/registry.hpp"

namespace {

thread_local std::string error_text;

struct Opened {
  mage::AnyArgs args;  // lives as long as the launch that may point into it
  mage::Launch launch;
};

std::unique_ptr<Opened> open(const std::string& benchmark, const std::vector<void*>& pointers) {
  const auto first = benchmark.find('/');
  const auto second = benchmark.find('/', first == std::string::npos ? first : first + 1);
  if (second == std::string::npos) throw std::invalid_argument{"'" + benchmark + "' is not family/variant/problem"};
  const auto* family = mage::find_family(benchmark.substr(0, first));
  if (family == nullptr) throw std::invalid_argument{"there is no family '" + benchmark.substr(0, first) + "'"};
  const auto name = benchmark.substr(first + 1, second - first - 1);
  const auto* variant = family->find_variant(name);
  if (variant == nullptr || variant->skipped) throw std::invalid_argument{"this build has no variant '" + name + "'"};
  const auto problem = family->parse(benchmark.substr(second + 1));
  if (!problem) throw std::invalid_argument{"'" + benchmark.substr(second + 1) + "' is no problem of the family"};
  if (!mage::accepts(*variant, *problem)) throw std::invalid_argument{"the variant does not accept this problem"};
  const auto operands = family->operands(*problem);
  if (operands.size() != pointers.size())
    throw std::invalid_argument{"the problem has " + std::to_string(operands.size()) + " operands, " +
                                std::to_string(pointers.size()) + " pointers were given"};
  auto args = family->bind(*problem, mage::Pointers{pointers});
  auto launch = mage::prepare(*variant, *problem, args);
  return std::make_unique<Opened>(Opened{std::move(args), std::move(launch)});
}

}  // namespace

extern "C" {

/// What the newest call of this thread that failed has to say.
const char* mage_launch_error() { return error_text.c_str(); }

/// An operation "family/variant/problem" on `count` device pointers, one an operand in the contract's order (inputs,
/// outputs; contiguous, 16-byte aligned). Null on failure. The handle is released by mage_launch_close.
void* mage_launch_open(const char* benchmark, void* const* pointers, int count) {
  try {
    return open(benchmark, std::vector<void*>(pointers, pointers + count)).release();
  } catch (const std::exception& error) {
    error_text = std::string{"mage_launch_open: "} + error.what();
    return nullptr;
  }
}

/// Enqueues the operation on `stream`, a cudaStream_t. 0, or 1 where it threw.
int mage_launch_run(void* handle, void* stream) {
  try {
    static_cast<Opened*>(handle)->launch(mage::StreamHandle{stream});
    return 0;
  } catch (const std::exception& error) {
    error_text = std::string{"mage_launch_run: "} + error.what();
    return 1;
  }
}

/// Waits for `stream`. 0, or 1 where a launch or what it ran failed: a failing launch must not pass for a fast one.
int mage_launch_check(void* stream) {
  auto status = cudaStreamSynchronize(static_cast<cudaStream_t>(stream));
  if (status == cudaSuccess) status = cudaGetLastError();
  if (status == cudaSuccess) return 0;
  error_text = std::string{"mage_launch_check: "} + cudaGetErrorString(status);
  return 1;
}

void mage_launch_close(void* handle) { delete static_cast<Opened*>(handle); }
}
