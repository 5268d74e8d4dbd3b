// SPDX-License-Identifier: Apache-2.0
#include "device/scratch_arena.hpp"

#include <algorithm>

#include "mage_bench/device.hpp"
#include "mage_bench/random.hpp"

namespace mage {
namespace {

constexpr std::size_t alignment = 256;
constexpr std::size_t slack_bytes = std::size_t{8} << 20U;  // over which a piece's place is drawn

ScratchArena* current_arena = nullptr;

void* allocate_plain(std::size_t bytes) {
  void* memory = nullptr;
  const auto error = cudaMalloc(&memory, std::max<std::size_t>(bytes, 1));
  if (error == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    throw UnavailableError{Unavailable::memory,
                           "cudaMalloc(" + std::to_string(bytes) + " bytes) of scratch failed: out of device memory"};
  }
  check(error, "cudaMalloc of scratch");
  return memory;
}

}  // namespace

ScratchArena::ScratchArena() { current_arena = this; }

ScratchArena::~ScratchArena() {
  if (current_arena == this) current_arena = nullptr;
}

void ScratchArena::place(std::uint64_t seed) {
  seed_ = seed;
  draws_ = 0;
  borders_ = nullptr;
  offsets_.clear();
}

void ScratchArena::place_at_border(BorderedMemory& borders, Trials::Border border) {
  borders_ = &borders;
  border_ = border;
}

std::size_t ScratchArena::draw() {
  const auto bits =
      philox({draws_++, 0, 0, 0x5C2AU}, {static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32U)});
  return bits[0] % (slack_bytes / alignment) * alignment;
}

void ScratchArena::grow(std::size_t bytes) {
  constexpr std::size_t least = std::size_t{64} << 20U;
  if (!taken_.empty())
    older_.push_back(std::move(memory_));  // its pieces are still in use
  else
    memory_ = {};
  bytes_ = end_ = 0;  // of an arena that found no memory
  const auto wanted = std::max(least, (bytes + slack_bytes) * 2);
  memory_ = CudaMemory{allocate_plain(wanted)};
  bytes_ = wanted;
}

void* ScratchArena::take(std::size_t bytes) {
  if (borders_ != nullptr) {
    constexpr auto step = Trials::vector_bytes;
    return borders_->allocate((std::max<std::size_t>(bytes, 1) + step - 1) / step * step, border_);
  }
  auto offset = end_ + draw();
  if (offset + bytes > bytes_) {
    grow(bytes);
    offset = draw();
  }
  end_ = (offset + bytes + alignment - 1) / alignment * alignment;
  offsets_.push_back(offset);
  taken_.push_back(static_cast<std::byte*>(memory_.get()) + offset);
  return taken_.back();
}

bool ScratchArena::give_back(void* piece) {
  const auto found = std::find(taken_.begin(), taken_.end(), piece);
  if (found == taken_.end()) return borders_ != nullptr && borders_->deallocate(piece);
  taken_.erase(found);
  if (!taken_.empty()) return true;
  end_ = 0;
  older_.clear();
  return true;
}

Scratch::~Scratch() {
  if (raw_ == nullptr) return;
  if (current_arena != nullptr && current_arena->give_back(raw_)) return;
  static_cast<void>(cudaFree(raw_));  // a destructor can report nothing
}

Scratch allocate_scratch(std::size_t bytes) {
  Scratch scratch{current_arena != nullptr ? current_arena->take(bytes) : allocate_plain(bytes)};
  check(cudaMemset(scratch.get(), 0xFF, bytes), "cudaMemset of scratch");
  check(cudaDeviceSynchronize(), "cudaMemset of scratch");  // the variant's kernels run on another stream
  return scratch;
}

}  // namespace mage
