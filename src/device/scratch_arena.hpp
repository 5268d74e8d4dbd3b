// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/bordered_memory.hpp"
#include "mage_bench/cuda.hpp"

namespace mage {

/// Where allocate_scratch() takes memory from while a CudaDevice is open: one allocation, in which each piece lies at a
/// random multiple of 256 bytes between two fences. A time depends on which L2 slices a buffer falls on, so a place
/// that lasts a whole run would be a constant that no interval knows of.
class ScratchArena {
 public:
  ScratchArena();
  ~ScratchArena();
  ScratchArena(const ScratchArena&) = delete;
  ScratchArena& operator=(const ScratchArena&) = delete;

  /// The places of the next pieces follow from `seed`.
  void place(std::uint64_t seed);
  /// From now on each piece has memory of its own, which begins, or ends within 256 bytes, where nobody may touch
  /// anything.
  void place_at_border(BorderedMemory& borders, Trials::Border border);
  /// Of the pieces since place(), in bytes from the arena's beginning.
  [[nodiscard]] const std::vector<std::size_t>& offsets() const { return offsets_; }

  [[nodiscard]] void* take(std::size_t bytes);
  /// False where `piece` is not of this arena.
  [[nodiscard]] bool give_back(void* piece);

  /// Bytes beside a piece that is in use, and that nobody may write to: filled with fence_byte by take().
  struct Fence {
    std::byte* begin = nullptr;
    std::size_t bytes = 0;
  };
  [[nodiscard]] std::vector<Fence> fences() const;
  static constexpr unsigned char fence_byte = 0xFE;

 private:
  struct Piece {
    std::byte* begin = nullptr;
    std::size_t bytes = 0, front = 0, rear = 0;  ///< of its own, and of its fences
    BorderedMemory* lender = nullptr;            ///< null: the arena
    [[nodiscard]] std::array<Fence, 2> fences() const;
  };
  [[nodiscard]] Piece take_at_border(std::size_t bytes);
  [[nodiscard]] Piece take_from_arena(std::size_t bytes);
  [[nodiscard]] std::size_t draw();
  void grow(std::size_t bytes);

  CudaMemory memory_;
  std::size_t bytes_ = 0, end_ = 0;  ///< of the arena, and of what is taken
  std::vector<Piece> taken_;
  std::vector<CudaMemory> older_;  ///< outgrown while pieces of it were in use
  std::vector<std::size_t> offsets_;
  BorderedMemory* borders_ = nullptr;  ///< set: pieces come from there
  Trials::Border border_ = Trials::Border::rear;
  std::uint64_t seed_ = 0;
  std::uint32_t draws_ = 0;
};

}  // namespace mage
