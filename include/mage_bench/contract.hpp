// SPDX-License-Identifier: Apache-2.0
// The light half of the registry: all that a kernel file sees. The heavy half is registry.hpp, for .cpp files only.
#pragma once

#include <concepts>
#include <cstdint>
#include <source_location>

#include "mage_bench/launch.hpp"

namespace mage {

using int64 = std::int64_t;
using uint32 = std::uint32_t;
using uint64 = std::uint64_t;

/// a / b rounded up, where neither is negative.
constexpr int64 ceil_div(int64 a, int64 b) { return (a + b - 1) / b; }
/// To a multiple of `step`.
constexpr uint64 rounded_up(uint64 bytes, uint64 step) { return (bytes + step - 1) / step * step; }

// Defined in registry.hpp and operand.hpp; a contract only names them.
template <class Problem>
class ProblemList;
class Operands;
class Pointers;
class Expected;
struct Work;
class Text;

/// What a family provides: the mathematics, the problems, the bound, and the count of necessary work.
/// Every function is declared in the family's own light header and defined in src/reference/<family>.cpp.
/// A family some of whose inputs follow from others, as a saved mean does, also has
/// `static void derive(const Problem&, const Pointers& host)`, which writes those after all inputs were generated.
template <class C>
concept Contract = requires {
  { C::name } -> std::convertible_to<const char*>;
  typename C::Problem;
  typename C::Args;
  requires std::equality_comparable<typename C::Problem>;
  // Exact signatures; taking the address also demands a definition when the program links.
  static_cast<ProblemList<typename C::Problem> (*)()>(&C::bench_problems);
  static_cast<ProblemList<typename C::Problem> (*)()>(&C::test_problems);
  static_cast<Text (*)(const typename C::Problem&)>(&C::print);
  static_cast<bool (*)(const char*, typename C::Problem&)>(&C::parse);
  static_cast<Operands (*)(const typename C::Problem&)>(&C::operands);
  static_cast<typename C::Args (*)(const typename C::Problem&, const Pointers&)>(&C::bind);
  static_cast<void (*)(const typename C::Problem&, const Pointers&, Expected&)>(&C::reference);
  static_cast<Text (*)(const typename C::Problem&)>(&C::tolerance);
  static_cast<Work (*)(const typename C::Problem&)>(&C::work);
};

/// What the author of a variant writes.
template <Contract C>
struct Variant {
  const char* parent = "";  ///< the variant this one was made from; empty for v00_* and for providers' baselines
  const char* note = "";    ///< what changed, and why it should help: one line
  const char* provider = "mage_bench";
  int min_cc = 0;             ///< lowest compute capability as major * 10 + minor; 0 runs on the host
  bool deterministic = true;  ///< the same inputs give the same bits on every call
  /// Set: wrong or not repeatable on purpose, and why. The gate must catch it on a test problem.
  const char* counter_example = "";
  bool (*accepts)(const typename C::Problem&) = [](const typename C::Problem&) { return true; };
  /// Exactly one of these two. `picks` names the variant of the same family that runs in this one's place: its
  /// accepts() counts, its prepare() runs, and the store tells its name.
  Launch (*prepare)(const typename C::Problem&, const typename C::Args&) = nullptr;
  const char* (*picks)(const typename C::Problem&) = nullptr;
};

namespace detail {
using ErasedFunction = void (*)();
struct ErasedVariant {
  const char *family, *source, *parent, *note, *provider, *counter_example;
  int min_cc;
  bool deterministic;
  ErasedFunction accepts, prepare, picks;  // as typed in Variant<C>
  bool (*call_accepts)(ErasedFunction, const void* problem);
  Launch (*call_prepare)(ErasedFunction, const void* problem, const void* args);
  const char* (*call_picks)(ErasedFunction, const void* problem);
};
void register_variant(const ErasedVariant& variant);
}  // namespace detail

/// Registers a variant that is no file of its own: its name is the stem of `source`, which lives as long as the
/// program.
template <Contract C>
void register_variant(const Variant<C>& variant, const char* source) {
  using Accepts = decltype(variant.accepts);
  using Prepare = decltype(variant.prepare);
  using Picks = decltype(variant.picks);
  detail::register_variant(detail::ErasedVariant{
      C::name, source, variant.parent, variant.note, variant.provider, variant.counter_example, variant.min_cc,
      variant.deterministic, reinterpret_cast<detail::ErasedFunction>(variant.accepts),
      reinterpret_cast<detail::ErasedFunction>(variant.prepare),
      reinterpret_cast<detail::ErasedFunction>(variant.picks),
      [](detail::ErasedFunction function, const void* problem) {
        return reinterpret_cast<Accepts>(function)(*static_cast<const typename C::Problem*>(problem));
      },
      [](detail::ErasedFunction function, const void* problem, const void* args) {
        return reinterpret_cast<Prepare>(function)(*static_cast<const typename C::Problem*>(problem),
                                                   *static_cast<const typename C::Args*>(args));
      },
      [](detail::ErasedFunction function, const void* problem) {
        return reinterpret_cast<Picks>(function)(*static_cast<const typename C::Problem*>(problem));
      }});
}

/// The one registration statement of a variant file. The variant's name is the stem of that file.
template <Contract C>
struct Register {
  explicit Register(const Variant<C>& variant, std::source_location where = std::source_location::current()) {
    register_variant(variant, where.file_name());
  }
};

}  // namespace mage
