// SPDX-License-Identifier: Apache-2.0
#include "device/scratch_arena.hpp"

#include <algorithm>

#include "mage_bench/device.hpp"
#include "mage_bench/random.hpp"

namespace mage {
namespace {

constexpr std::size_t alignment = 256;
constexpr std::size_t fence_bytes = 4096;
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
  return random_bits({draws_++, 0, 0, 0x5C2AU}, seed_) % (slack_bytes / alignment) * alignment;
}

void ScratchArena::grow(std::size_t bytes) {
  constexpr std::size_t least = std::size_t{64} << 20U;
  if (!taken_.empty())
    older_.push_back(std::move(memory_));  // its pieces are still in use
  else
    memory_ = {};
  bytes_ = end_ = 0;  // of an arena that found no memory
  const auto needed = bytes + slack_bytes;
  auto wanted = std::max(least, 2 * needed);
  try {
    memory_ = CudaMemory{allocate_plain(wanted)};
  } catch (const UnavailableError&) {
    wanted = needed;
    memory_ = CudaMemory{allocate_plain(wanted)};
  }
  bytes_ = wanted;
}

ScratchArena::Piece ScratchArena::take_at_border(std::size_t bytes) {
  const auto whole = rounded_up(std::max<std::size_t>(bytes, 1), alignment);
  auto* begin = static_cast<std::byte*>(borders_->allocate(whole, border_));
  return {.begin = begin, .bytes = bytes, .front = 0, .rear = whole - bytes, .lender = borders_};
}

ScratchArena::Piece ScratchArena::take_from_arena(std::size_t bytes) {
  const auto rear = rounded_up(bytes, alignment) - bytes + fence_bytes;
  const auto whole = fence_bytes + bytes + rear;
  auto offset = end_ + draw();
  if (offset + whole > bytes_) {
    grow(whole);
    offset = draw();
  }
  end_ = offset + whole;
  offsets_.push_back(offset + fence_bytes);
  return {.begin = static_cast<std::byte*>(memory_.get()) + offset + fence_bytes,
          .bytes = bytes,
          .front = fence_bytes,
          .rear = rear,
          .lender = nullptr};
}

void* ScratchArena::take(std::size_t bytes) {
  taken_.push_back(borders_ != nullptr ? take_at_border(bytes) : take_from_arena(bytes));
  for (const auto& fence : taken_.back().fences())
    check(cudaMemset(fence.begin, fence_byte, fence.bytes), "cudaMemset beside scratch");
  return taken_.back().begin;
}

std::array<ScratchArena::Fence, 2> ScratchArena::Piece::fences() const {
  return {Fence{begin - front, front}, Fence{begin + bytes, rear}};
}

std::vector<ScratchArena::Fence> ScratchArena::fences() const {
  std::vector<Fence> all;
  for (const auto& piece : taken_)
    for (const auto& fence : piece.fences()) all.push_back(fence);
  return all;
}

bool ScratchArena::give_back(void* begin) {
  const auto found =
      std::find_if(taken_.begin(), taken_.end(), [&](const Piece& piece) { return piece.begin == begin; });
  if (found == taken_.end()) return false;
  if (found->lender != nullptr) static_cast<void>(found->lender->deallocate(begin));
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
