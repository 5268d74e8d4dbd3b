// SPDX-License-Identifier: Apache-2.0
// The registry's launches behind a C interface, so that other timers can call the very operation that mage_bench times,
// on pointers of their own; and the device's side of mage_bench's protocol, so that other operations can be timed by
// it. Built as libmage_launch.so on demand: cmake --build build/gpu --target mage_launch.
#include <cuda_runtime_api.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mage_bench/cuda.hpp"
#include "mage_bench/device.hpp"
#include "mage_bench/problem_text.hpp"
#include "mage_bench/registry.hpp"

namespace {

thread_local std::string error_text;

/// 0, or 1 where the body threw.
template <class Body>
int guarded(const char* function, Body&& body) {
  try {
    body();
    return 0;
  } catch (const std::exception& error) {
    error_text = std::string{function} + ": " + error.what();
    return 1;
  }
}

/// What the caller has to give.
template <class T>
T* given(T* pointer, const char* name) {
  if (pointer == nullptr) throw std::invalid_argument{std::string{name} + " is null"};
  return pointer;
}

struct Opened {
  mage::AnyArgs args;  // lives as long as the launch that may point into it
  mage::Launch launch;
};

struct Named {
  const mage::Family* family;
  const mage::VariantInfo* variant;
  mage::AnyProblem problem;
};

/// The names of all that have one.
template <class All, class Name>
std::string names_of(const All& all, const Name& name) {
  std::string text;
  for (const auto& one : all)
    if (const std::string_view next = name(one); !next.empty()) text.append(text.empty() ? "" : ", ").append(next);
  return text;
}

Named find(const std::string& benchmark) {
  const auto first = benchmark.find('/');
  const auto second = benchmark.find('/', first == std::string::npos ? first : first + 1);
  if (second == std::string::npos)
    throw std::invalid_argument{"'" + mage::shortened(benchmark) +
                                "' is not family/variant/problem, as in gelu/best/64x1024"};
  const auto* family = mage::find_family(benchmark.substr(0, first));
  if (family == nullptr)
    throw std::invalid_argument{"there is no family '" + mage::shortened(benchmark.substr(0, first)) + "'; there are " +
                                names_of(mage::families(), [](const auto* there) { return there->name(); })};
  const auto name = benchmark.substr(first + 1, second - first - 1);
  const auto* variant = family->find_variant(name);
  const auto named = std::string{family->name()} + "/" + mage::shortened(name);
  if (variant == nullptr || variant->skipped)
    throw std::invalid_argument{"this build has no variant " + named + "; it has " +
                                names_of(family->variants(), [](const mage::VariantInfo& there) {
                                  return there.skipped ? std::string_view{} : std::string_view{there.name};
                                })};
  auto problem = mage::read_problem(*family, benchmark.substr(second + 1));
  if (!mage::accepts(*variant, problem))
    throw std::invalid_argument{named + " does not accept the problem " + problem.name};
  return {family, variant, std::move(problem)};
}

/// Kernels take for granted where an operand lies: `offset` elements behind a boundary, here of the widest vector.
void check_place(const mage::Operand& operand, const void* pointer, const std::string& problem) {
  constexpr std::uintptr_t vector_bytes = 16;
  const auto where = [&] { return "operand " + operand.name + " of " + problem + " is "; };
  if (operand.bytes() == 0) return;
  if (pointer == nullptr) throw std::invalid_argument{where() + "null"};
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  const auto behind = static_cast<std::uintptr_t>(operand.offset) * mage::size_of(operand.dtype) % vector_bytes;
  if (address % vector_bytes == behind) return;
  std::ostringstream text;
  text << where() << "at 0x" << std::hex << address << std::dec << ", which is not ";
  if (behind == 0)
    text << "16-byte aligned";
  else
    text << behind << " bytes behind a 16-byte boundary";
  throw std::invalid_argument{text.str()};
}

std::unique_ptr<Opened> open(const std::string& benchmark, void* const* pointers, int count) {
  const auto [family, variant, problem] = find(benchmark);
  const auto operands = family->operands(problem);
  if (std::cmp_not_equal(operands.size(), count))  // before any pointer is read
    throw std::invalid_argument{"the problem has " + std::to_string(operands.size()) + " operands, " +
                                std::to_string(count) + " pointers were given"};
  for (std::size_t i = 0; i < operands.size(); ++i)
    check_place(operands[i], pointers[i], std::string{family->name()} + "/" + problem.name);
  auto args = family->bind(problem, mage::Pointers{std::vector<void*>(pointers, pointers + count)});
  auto launch = mage::prepare(*variant, problem, args);
  return std::make_unique<Opened>(Opened{std::move(args), std::move(launch)});
}

std::string operands_of(const std::string& benchmark) {
  const auto [family, variant, problem] = find(benchmark);
  std::string text;
  for (const auto& operand : family->operands(problem))
    text += (text.empty() ? "" : " ") + std::string{operand.name} +
            (operand.role == mage::Role::in ? ":in:" : ":out:") + std::to_string(operand.rows * operand.cols);
  return text;
}

/// The device that spans are taken on; one a process.
std::unique_ptr<mage::Device> timing_device;
int timing_index = 0;

mage::Device& timer() {
  if (!timing_device) throw std::logic_error{"call mage_timer_open first"};
  return *timing_device;
}

cudaStream_t timer_stream() {
  cudaStream_t stream{};
  mage::Launch look = [&stream](mage::StreamHandle handle) { stream = mage::cuda_stream(handle); };
  timer().submit(look);
  return stream;
}

/// An instance of a graph that somebody else captured.
class TimedGraph {
 public:
  explicit TimedGraph(cudaGraph_t graph) {
    std::size_t count = 0;
    mage::check(cudaGraphGetNodes(graph, nullptr, &count), "cudaGraphGetNodes");
    std::vector<cudaGraphNode_t> nodes(count);
    mage::check(cudaGraphGetNodes(graph, nodes.data(), &count), "cudaGraphGetNodes");
    for (auto* node : nodes) {
      cudaGraphNodeType type{};
      mage::check(cudaGraphNodeGetType(node, &type), "cudaGraphNodeGetType");
      (type == cudaGraphNodeTypeKernel ? kernel_nodes : other_nodes) += 1;
    }
    mage::check(cudaGraphInstantiate(instance_.put(), graph, 0), "cudaGraphInstantiate");
    mage::check(cudaGraphUpload(instance_.get(), timer_stream()), "cudaGraphUpload");
  }
  void replay() { mage::check(cudaGraphLaunch(instance_.get(), timer_stream()), "cudaGraphLaunch"); }

  int kernel_nodes = 0, other_nodes = 0;

 private:
  mage::CudaGraphExec instance_;
};

std::string scratch_places() {
  std::string text;
  for (const auto offset : timer().scratch_offsets()) text += (text.empty() ? "" : " ") + std::to_string(offset);
  return text;
}

}  // namespace

extern "C" {

/// What the newest call of this thread that failed has to say.
const char* mage_launch_error() { return error_text.c_str(); }

/// An operation "family/variant/problem" on `count` pointers, of the host for a host variant, one an operand in the
/// contract's order (inputs, outputs; contiguous, 16-byte aligned, or as many elements behind that as the problem's
/// offset says). Null on failure. The handle is released by mage_launch_close.
void* mage_launch_open(const char* benchmark, void* const* pointers, int count) {
  Opened* opened = nullptr;
  guarded("mage_launch_open",
          [&] { opened = open(given(benchmark, "benchmark"), given(pointers, "pointers"), count).release(); });
  return opened;
}

/// Enqueues the operation on `stream`, a cudaStream_t. 0, or 1 where it threw.
int mage_launch_run(void* handle, void* stream) {
  return guarded("mage_launch_run",
                 [&] { static_cast<Opened*>(given(handle, "handle"))->launch(mage::StreamHandle{stream}); });
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

/// The operands of "family/variant/problem" in the order of mage_launch_open's pointers, as NAME:in:ELEMENTS or
/// NAME:out:ELEMENTS with spaces between. Null on failure; good until this thread's next call.
const char* mage_launch_operands(const char* benchmark) {
  thread_local std::string text;
  const auto list = [&] { text = operands_of(given(benchmark, "benchmark")); };
  return guarded("mage_launch_operands", list) == 0 ? text.c_str() : nullptr;
}

// The timer: what mage_bench's samplers ask of their device. Each returns 0, or 1 where it failed.

/// Once, before all others of mage_timer_*. `peak_gbytes_per_s` is the memory's, 0 where unknown.
int mage_timer_open(int device, double* peak_gbytes_per_s) {
  return guarded("mage_timer_open", [&] {
    given(peak_gbytes_per_s, "peak_gbytes_per_s");
    if (!timing_device) {
      timing_device = mage::make_cuda_device(device);
      timing_index = device;
    }
    if (device != timing_index) throw std::logic_error{"the timer is open on device " + std::to_string(timing_index)};
    *peak_gbytes_per_s = timing_device->info().peak_gbytes_per_s;
  });
}

/// Goes on on the stream of this round, without any persisting carve-out of L2. `stream` is a cudaStream_t.
int mage_timer_round(int round, int* index, void** stream) {
  return guarded("mage_timer_round", [&] {
    given(index, "index");
    given(stream, "stream");
    *index = timer().change_stream(round);
    timer().reset_persisting_l2();
    *stream = timer_stream();
  });
}

/// Begins a span behind a delay, and where `cold` is set behind the sweep that leaves L2 cold and clean.
int mage_timer_begin(double delay_us, int cold) {
  return guarded("mage_timer_begin", [&] {
    timer().delay(delay_us);
    if (cold != 0) timer().flush_l2();
    timer().record(mage::Stamp::begin);
  });
}

/// Ends the span and waits. `held` is 0 where the device did not wait for all of it to be enqueued.
int mage_timer_end(double* span_us, int* held) {
  return guarded("mage_timer_end", [&] {
    given(span_us, "span_us");
    given(held, "held");
    timer().record(mage::Stamp::end);
    *held = timer().reached(mage::Stamp::begin) ? 0 : 1;
    timer().synchronize();
    *span_us = timer().elapsed_us();
  });
}

/// Enqueues the sweep that leaves L2 cold and clean.
int mage_timer_sweep() {
  return guarded("mage_timer_sweep", [] { timer().flush_l2(); });
}

/// The places of scratch that launches allocate from now on follow from `seed`. What a launch allocated before
/// mage_timer_open lies outside of the arena, where cudaMalloc put it.
int mage_timer_place_scratch(std::uint64_t seed) {
  return guarded("mage_timer_place_scratch", [seed] { timer().place_scratch(seed); });
}

/// Bytes from the arena's beginning of each piece of scratch since mage_timer_place_scratch, with spaces between. Null
/// on failure; good until this thread's next call.
const char* mage_timer_scratch_offsets() {
  thread_local std::string text;
  return guarded("mage_timer_scratch_offsets", [] { text = scratch_places(); }) == 0 ? text.c_str() : nullptr;
}

/// Enqueues an empty kernel: what stands for nothing in a floor.
int mage_timer_empty() {
  return guarded("mage_timer_empty", [] {
    auto empty = timer().empty_launch();
    timer().submit(empty);
  });
}

/// The SM clock by a short spin; 0 where it is not known.
int mage_timer_clock(double* sm_mhz) {
  return guarded("mage_timer_clock", [&] {
    given(sm_mhz, "sm_mhz");
    const auto probe = timer().probe_clock();
    *sm_mhz = probe ? probe->sm_mhz : 0;
  });
}

/// Instantiates a cudaGraph_t, which stays the caller's; memory that its nodes use must outlive the handle. Null on
/// failure.
void* mage_timer_graph(void* graph, int* kernel_nodes, int* other_nodes) {
  TimedGraph* opened = nullptr;
  guarded("mage_timer_graph", [&] {
    given(kernel_nodes, "kernel_nodes");
    given(other_nodes, "other_nodes");
    opened = new TimedGraph{static_cast<cudaGraph_t>(given(graph, "graph"))};
    *kernel_nodes = opened->kernel_nodes;
    *other_nodes = opened->other_nodes;
  });
  return opened;
}

int mage_timer_graph_replay(void* graph) {
  return guarded("mage_timer_graph_replay", [&] { static_cast<TimedGraph*>(given(graph, "graph"))->replay(); });
}

void mage_timer_graph_close(void* graph) { delete static_cast<TimedGraph*>(graph); }
}
