// SPDX-License-Identifier: Apache-2.0
#include "device/harness_kernels.hpp"
#include "device/inspection.hpp"
#include "mage_bench/cuda.hpp"

namespace mage::harness {
namespace {

constexpr int threads = 256;

__device__ uint64 globaltimer_ns() {
  uint64 now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
  return now;
}

__device__ std::size_t first_index() { return static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ std::size_t index_stride() { return static_cast<std::size_t>(gridDim.x) * blockDim.x; }

__device__ uint64 cycles() {
  uint64 now;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(now)::"memory");
  return now;
}

}  // namespace

__global__ void mage_harness_empty() {}

__global__ void mage_harness_delay(uint64 nanoseconds) {
  const uint64 begin = globaltimer_ns();
  while (globaltimer_ns() - begin < nanoseconds) {
  }
}

__global__ void mage_harness_write_sweep(uint4* buffer, std::size_t vectors, uint32 value) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < vectors; i += stride)
    buffer[i] = make_uint4(value, value + 1, value + 2, value + 3);
}

// The read pushes the written lines out of L2, so that no write-back is left to overlap what is timed next.
__global__ void mage_harness_read_sweep(const uint4* buffer, std::size_t vectors, uint32* sink) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  uint32 folded = 0;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < vectors; i += stride) {
    const uint4 v = buffer[i];
    folded |= v.x ^ v.y ^ v.z ^ v.w;
  }
  if (folded == 0xFFFFFFFFU) *sink = folded;
}

// Whole words between the first and the last address that is a multiple of 4; the bytes around them by one thread.
__global__ void mage_harness_fill(unsigned char* to, uint32 pattern, std::size_t bytes) {
  const auto address = reinterpret_cast<uint64>(to);
  const std::size_t head = min(static_cast<std::size_t>((4 - address % 4) % 4), bytes);
  const std::size_t words = (bytes - head) / 4;
  auto* first = reinterpret_cast<uint32*>(to + head);
  for (std::size_t i = first_index(); i < words; i += index_stride()) first[i] = pattern;
  if (first_index() != 0) return;
  for (std::size_t i = 0; i < head; ++i) to[i] = pattern_byte(pattern, address + i);
  for (std::size_t i = head + words * 4; i < bytes; ++i) to[i] = pattern_byte(pattern, address + i);
}

__global__ void mage_harness_checksum(const uint32* from, std::size_t bytes, uint64* total) {
  const std::size_t words = bytes / 4;
  uint64 sum = 0;
  for (std::size_t i = first_index(); i < words; i += index_stride()) sum += checksum_term(i, from[i]);
  if (first_index() == 0 && bytes % 4 != 0) {
    uint32 last = 0;
    for (std::size_t i = 0; i < bytes % 4; ++i)
      last |= static_cast<uint32>(reinterpret_cast<const unsigned char*>(from + words)[i]) << 8 * i;
    sum += checksum_term(words, last);
  }
  for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_down_sync(0xFFFFFFFFU, sum, lane);
  if (threadIdx.x % 32 == 0) atomicAdd(reinterpret_cast<unsigned long long*>(total), sum);
}

__global__ void mage_harness_spoil(void* to, DType dtype, std::size_t elements, uint64 secret) {
  for (std::size_t i = first_index(); i < elements; i += index_stride()) spoil_element(to, dtype, secret, i);
}

namespace {

/// A block an operand: inputs first.
__device__ void disturb_block(const Inspection& inspection, const Question& question) {
  const int operand = static_cast<int>(blockIdx.x);
  if (operand < inspection.input_count) {
    const auto& input = inspection.inputs[operand];
    for (int i = static_cast<int>(threadIdx.x); i < input.count; i += static_cast<int>(blockDim.x))
      change_element(input.payload, input.element_bytes, input.changes[i].element, input.changes[i].bits[question.set]);
    return;
  }
  const auto& output = inspection.outputs[operand - inspection.input_count];
  if (output.count == 0) return;
  // Threads that pick one place must write the same to it: all read before any writes.
  const uint64 element = output.places[place_of(question.secret, static_cast<int>(threadIdx.x), output.count)].element;
  const uint64 bits = spoilt_bits(output.payload, output.dtype, question.secret, element);
  __syncthreads();
  put_bits(output.payload, output.dtype, element, bits);
}

__device__ void report(Findings* findings, std::int32_t output, uint32 tag, uint64 element, double got, double low,
                       double high) {
  if (atomicAdd(reinterpret_cast<unsigned long long*>(&findings->wrong), 1ULL) != 0) return;
  findings->output = output;
  findings->tag = tag;
  findings->element = element;
  findings->got = got;
  findings->low = low;
  findings->high = high;
}

}  // namespace

__global__ void mage_harness_disturb(const __grid_constant__ Inspection inspection,
                                     const __grid_constant__ Question question) {
  disturb_block(inspection, question);
}

// An operation by programmatic dependent launch that does not wait reads the inputs before this one changes them.
__global__ void mage_harness_disturb_late(const __grid_constant__ Inspection inspection,
                                          const __grid_constant__ Question question, uint64 late_ns) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
  const uint64 begin = globaltimer_ns();
  while (globaltimer_ns() - begin < late_ns) {
  }
  disturb_block(inspection, question);
}

__global__ void mage_harness_inspect(const __grid_constant__ Inspection inspection,
                                     const __grid_constant__ Question question, Findings* findings) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");  // no wait where it was launched as an ordinary kernel
#endif
  const auto& output = inspection.outputs[blockIdx.x];
  if (output.count == 0) return;
  const auto& place = output.places[place_of(question.secret, static_cast<int>(threadIdx.x), output.count)];
  const double got = element_value(output.payload, output.dtype, place.element);
  const double low = place.low[question.set], high = place.high[question.set];
  if (!is_within(got, low, high))
    report(findings, static_cast<std::int32_t>(blockIdx.x), question.tag, place.element, got, low, high);
}

__global__ void mage_harness_inspect_fill(const unsigned char* from, uint32 pattern, std::size_t bytes, uint32 tag,
                                          Findings* findings) {
  const auto address = reinterpret_cast<uint64>(from);
  const std::size_t head = min(static_cast<std::size_t>((4 - address % 4) % 4), bytes);
  const std::size_t words = (bytes - head) / 4;
  const auto* first = reinterpret_cast<const uint32*>(from + head);
  const auto found = [&](std::size_t at) { report(findings, Findings::outside, tag, at, 0, 0, 0); };
  for (std::size_t i = first_index(); i < words; i += index_stride())
    if (first[i] != pattern) found(head + 4 * i);
  if (first_index() != 0) return;
  for (std::size_t i = 0; i < head; ++i)
    if (from[i] != pattern_byte(pattern, address + i)) found(i);
  for (std::size_t i = head + words * 4; i < bytes; ++i)
    if (from[i] != pattern_byte(pattern, address + i)) found(i);
}

__global__ void mage_harness_judge(const __grid_constant__ Judged output, uint32 tag, Findings* findings) {
  double worst = 0, squares = 0;
  for (std::size_t i = first_index(); i < output.elements; i += index_stride()) {
    const double got = element_value(output.payload, output.dtype, i), value = output.value[i];
    const float bound = output.bound[i];
    const auto verdict = judge_element(got, value, bound);
    squares += verdict.error * verdict.error;
    if (!verdict.inside || is_poisoned(output.payload, output.dtype, i, output.poison))
      report(findings, Findings::whole, tag, i, got, value, bound);
    else if (!verdict.same && verdict.error > 0)
      worst = fmax(worst, verdict.error / static_cast<double>(bound));
  }
  for (int lane = 16; lane > 0; lane /= 2) {
    worst = fmax(worst, __shfl_down_sync(0xFFFFFFFFU, worst, lane));
    squares += __shfl_down_sync(0xFFFFFFFFU, squares, lane);
  }
  if (threadIdx.x % 32 != 0) return;
  // Doubles that are not negative are ordered as their bits are.
  atomicMax(reinterpret_cast<unsigned long long*>(&findings->worst),
            static_cast<unsigned long long>(__double_as_longlong(worst)));
  atomicAdd(&findings->squares, squares);
}

__global__ void mage_harness_amend(double* value, float* bound, const Amendment* amendments, std::size_t count) {
  for (std::size_t i = first_index(); i < count; i += index_stride()) {
    value[amendments[i].element] = amendments[i].value;
    bound[amendments[i].element] = amendments[i].bound;
  }
}

__global__ void mage_harness_clock_probe(uint64 nanoseconds, uint64* out) {
  const uint64 begin_ns = globaltimer_ns();
  const uint64 begin_cycles = cycles();
  uint64 now_ns = begin_ns;
  while (now_ns - begin_ns < nanoseconds) now_ns = globaltimer_ns();
  out[0] = cycles() - begin_cycles;
  out[1] = now_ns - begin_ns;
}

void launch_empty(cudaStream_t stream) { mage_harness_empty<<<1, 32, 0, stream>>>(); }

void launch_delay(uint64 nanoseconds, cudaStream_t stream) { mage_harness_delay<<<1, 1, 0, stream>>>(nanoseconds); }

void launch_write_sweep(uint32* buffer, std::size_t words, uint32 value, int blocks, cudaStream_t stream) {
  mage_harness_write_sweep<<<blocks, threads, 0, stream>>>(reinterpret_cast<uint4*>(buffer), words / 4, value);
}

void launch_read_sweep(const uint32* buffer, std::size_t words, uint32* sink, int blocks, cudaStream_t stream) {
  mage_harness_read_sweep<<<blocks, threads, 0, stream>>>(reinterpret_cast<const uint4*>(buffer), words / 4, sink);
}

void launch_fill(void* to, uint32 pattern, std::size_t bytes, int blocks, cudaStream_t stream) {
  mage_harness_fill<<<blocks, threads, 0, stream>>>(static_cast<unsigned char*>(to), pattern, bytes);
}

void launch_checksum(const void* from, std::size_t bytes, uint64* total, int blocks, cudaStream_t stream) {
  mage_harness_checksum<<<blocks, threads, 0, stream>>>(static_cast<const uint32*>(from), bytes, total);
}

void launch_spoil(void* to, DType dtype, std::size_t elements, uint64 secret, int blocks, cudaStream_t stream) {
  mage_harness_spoil<<<blocks, threads, 0, stream>>>(to, dtype, elements, secret);
}

void launch_disturb(const Inspection& inspection, const Question& question, cudaStream_t stream) {
  mage_harness_disturb<<<inspection.input_count + inspection.output_count, inspected_places, 0, stream>>>(inspection,
                                                                                                          question);
}

void launch_disturb_late(const Inspection& inspection, const Question& question, uint64 late_ns, cudaStream_t stream) {
  mage_harness_disturb_late<<<inspection.input_count + inspection.output_count, inspected_places, 0, stream>>>(
      inspection, question, late_ns);
}

void launch_inspect(const Inspection& inspection, const Question& question, Findings* findings, cudaStream_t stream) {
  mage_harness_inspect<<<inspection.output_count, inspected_places, 0, stream>>>(inspection, question, findings);
}

void launch_inspect_as_dependent(const Inspection& inspection, const Question& question, Findings* findings,
                                 cudaStream_t stream) {
  launch_kernel(mage_harness_inspect,
                {.grid = static_cast<unsigned>(inspection.output_count), .block = inspected_places, .dependent = true},
                StreamHandle{stream}, inspection, question, findings);
}

void launch_inspect_fill(const void* from, uint32 pattern, std::size_t bytes, uint32 tag, Findings* findings,
                         int blocks, cudaStream_t stream) {
  mage_harness_inspect_fill<<<blocks, threads, 0, stream>>>(static_cast<const unsigned char*>(from), pattern, bytes,
                                                            tag, findings);
}

void launch_judge(const Judged& output, uint32 tag, Findings* findings, int blocks, cudaStream_t stream) {
  mage_harness_judge<<<blocks, threads, 0, stream>>>(output, tag, findings);
}

void launch_amend(double* value, float* bound, const Amendment* amendments, std::size_t count, int blocks,
                  cudaStream_t stream) {
  mage_harness_amend<<<blocks, threads, 0, stream>>>(value, bound, amendments, count);
}

void launch_clock_probe(uint64 nanoseconds, uint64* out, cudaStream_t stream) {
  mage_harness_clock_probe<<<1, 1, 0, stream>>>(nanoseconds, out);
}

}  // namespace mage::harness
