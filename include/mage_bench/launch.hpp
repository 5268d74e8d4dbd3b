// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

namespace mage {

/// A stream without its CUDA type, so that core headers need no toolkit. Null on the host.
/// Explicit: a literal 0 must not silently become the default stream.
class StreamHandle {
 public:
  StreamHandle() = default;
  explicit StreamHandle(void* raw) : raw_{raw} {}
  StreamHandle(int) = delete;
  [[nodiscard]] void* raw() const { return raw_; }

 private:
  void* raw_ = nullptr;
};

/// Move-only `void(StreamHandle)`: one call enqueues one complete operation.
/// A launch allocates nothing, synchronises nothing, logs nothing and can be captured.
/// The callable lives inside (no heap), so moving a Launch is as cheap as moving its captures.
class Launch {
 public:
  static constexpr std::size_t capacity = 192;  // bytes of captured state

  Launch() = default;

  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, Launch> && std::is_invocable_r_v<void, F&, StreamHandle>)
  Launch(F&& function)  // NOLINT(google-explicit-constructor): a lambda is a Launch
  {
    using Callable = std::remove_cvref_t<F>;
    static_assert(sizeof(Callable) <= capacity, "a Launch captures at most 192 bytes: pass pointers, not tables");
    static_assert(std::is_nothrow_move_constructible_v<Callable>);
    ::new (static_cast<void*>(storage_)) Callable(std::forward<F>(function));
    invoke_ = [](void* self, StreamHandle stream) { (*static_cast<Callable*>(self))(stream); };
    relocate_ = [](void* from, void* to) noexcept {
      auto* source = static_cast<Callable*>(from);
      if (to != nullptr) ::new (to) Callable(std::move(*source));
      source->~Callable();
    };
  }

  Launch(Launch&& other) noexcept { take(other); }
  Launch& operator=(Launch&& other) noexcept {
    if (this != &other) {
      reset();
      take(other);
    }
    return *this;
  }
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;
  ~Launch() { reset(); }

  void operator()(StreamHandle stream) { invoke_(storage_, stream); }
  explicit operator bool() const { return invoke_ != nullptr; }

 private:
  void reset() noexcept {
    if (relocate_ != nullptr) relocate_(storage_, nullptr);
    invoke_ = nullptr;
    relocate_ = nullptr;
  }
  void take(Launch& other) noexcept {
    if (other.relocate_ == nullptr) return;
    other.relocate_(other.storage_, storage_);
    invoke_ = std::exchange(other.invoke_, nullptr);
    relocate_ = std::exchange(other.relocate_, nullptr);
  }

  alignas(std::max_align_t) std::byte storage_[capacity];
  void (*invoke_)(void*, StreamHandle) = nullptr;
  void (*relocate_)(void* from, void* to) noexcept = nullptr;  // destroys only, where `to` is null
};

}  // namespace mage
