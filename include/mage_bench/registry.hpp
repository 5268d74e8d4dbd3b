// SPDX-License-Identifier: Apache-2.0
// The heavy half of the registry, for .cpp files: bench, tests and tools read families through it and name none.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mage_bench/contract.hpp"
#include "mage_bench/operand.hpp"
#include "mage_bench/types.hpp"

namespace mage {

template <class Problem>
class ProblemList : public std::vector<Problem> {
  using std::vector<Problem>::vector;
};

/// The type-erased record of a registered variant, or of a variant file that this build had to leave out.
struct VariantInfo {
  std::string family, name;
  std::string source;  ///< path from the repository's root
  std::string parent, note, provider, counter_example;
  int min_cc = 0;
  bool deterministic = true;
  std::optional<Unavailable> skipped;  ///< set: not in this build; the fields above beyond `source` are unknown
  detail::ErasedVariant erased{};

  [[nodiscard]] bool on_host() const { return min_cc == 0 && !skipped; }
};

/// A problem of some family: its printed name and the family's own aggregate, kept opaque.
struct AnyProblem {
  std::string name;
  std::shared_ptr<const void> value;
};

/// Arguments of some family, kept opaque; they hold pointers and sizes only.
using AnyArgs = std::shared_ptr<const void>;

/// Type-erased view of a family. `families()` returns them sorted by name.
class Family {
 public:
  virtual ~Family() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual std::vector<AnyProblem> bench_problems() const = 0;
  [[nodiscard]] virtual std::vector<AnyProblem> test_problems() const = 0;
  [[nodiscard]] virtual std::optional<AnyProblem> parse(const std::string& text) const = 0;
  [[nodiscard]] virtual Operands operands(const AnyProblem& problem) const = 0;
  [[nodiscard]] virtual AnyArgs bind(const AnyProblem& problem, const Pointers& pointers) const = 0;
  /// Writes the inputs that follow from other inputs; most families have none.
  virtual void derive(const AnyProblem& /*problem*/, const Pointers& /*host_pointers*/) const {}
  virtual void reference(const AnyProblem& problem, const Pointers& host_pointers, Expected& expected) const = 0;
  [[nodiscard]] virtual std::string tolerance(const AnyProblem& problem) const = 0;
  [[nodiscard]] virtual Work work(const AnyProblem& problem) const = 0;
  /// Sorted by name; includes the files that this build left out.
  [[nodiscard]] std::span<const VariantInfo> variants() const;
  [[nodiscard]] const VariantInfo* find_variant(std::string_view variant) const;
};

[[nodiscard]] std::vector<const Family*> families();
[[nodiscard]] const Family* find_family(std::string_view name);

/// The variant that runs where this one is asked for: itself, or the one that it picks for the problem.
/// Throws std::logic_error where it picks one that is not there, or one that picks again.
[[nodiscard]] const VariantInfo& picked(const VariantInfo& variant, const AnyProblem& problem);
[[nodiscard]] bool accepts(const VariantInfo& variant, const AnyProblem& problem);
[[nodiscard]] Launch prepare(const VariantInfo& variant, const AnyProblem& problem, const AnyArgs& args);

namespace detail {
void register_family(std::unique_ptr<Family> family);
}

/// The only template over contracts besides Register: typed calls behind the type-erased view.
template <Contract C>
class FamilyOf final : public Family {
  using Problem = typename C::Problem;
  using Args = typename C::Args;
  static const Problem& typed(const AnyProblem& problem) { return *static_cast<const Problem*>(problem.value.get()); }
  static std::vector<AnyProblem> erase(const ProblemList<Problem>& problems) {
    std::vector<AnyProblem> result;
    for (const auto& problem : problems)
      result.push_back({C::print(problem), std::make_shared<const Problem>(problem)});
    return result;
  }

 public:
  [[nodiscard]] std::string_view name() const override { return C::name; }
  [[nodiscard]] std::vector<AnyProblem> bench_problems() const override { return erase(C::bench_problems()); }
  [[nodiscard]] std::vector<AnyProblem> test_problems() const override { return erase(C::test_problems()); }
  [[nodiscard]] std::optional<AnyProblem> parse(const std::string& text) const override {
    Problem problem{};
    if (!C::parse(text.c_str(), problem)) return std::nullopt;
    return AnyProblem{C::print(problem), std::make_shared<const Problem>(problem)};
  }
  [[nodiscard]] Operands operands(const AnyProblem& problem) const override { return C::operands(typed(problem)); }
  [[nodiscard]] AnyArgs bind(const AnyProblem& problem, const Pointers& pointers) const override {
    return std::make_shared<const Args>(C::bind(typed(problem), pointers));
  }
  void derive(const AnyProblem& problem, const Pointers& host_pointers) const override {
    if constexpr (requires { C::derive(typed(problem), host_pointers); }) C::derive(typed(problem), host_pointers);
  }
  void reference(const AnyProblem& problem, const Pointers& host_pointers, Expected& expected) const override {
    C::reference(typed(problem), host_pointers, expected);
  }
  [[nodiscard]] std::string tolerance(const AnyProblem& problem) const override { return C::tolerance(typed(problem)); }
  [[nodiscard]] Work work(const AnyProblem& problem) const override { return C::work(typed(problem)); }
};

/// The one registration statement of a family, in src/reference/<family>.cpp.
template <Contract C>
struct RegisterFamily {
  RegisterFamily() { detail::register_family(std::make_unique<FamilyOf<C>>()); }
};

/// One entry for each file under src/kernels/*/ and src/reference/, written by the build (cmake/manifest.cmake).
struct SourceFile {
  const char* path;     ///< from the repository's root
  const char* sha256;   ///< of its bytes when the program was built
  const char* skipped;  ///< empty, or the Unavailable reason for which this build left it out
};
[[nodiscard]] std::span<const SourceFile> kernel_sources();

/// Of the object that a source was compiled to, written by the build (cmake/code_hashes.cmake). "harness": of all
/// objects together that measure and judge.
struct CodeHash {
  const char* source;
  const char* sha256;
};
struct RegisterCodeHashes {
  explicit RegisterCodeHashes(std::span<const CodeHash> hashes);
};
/// Empty where the program was built without hashes, or where it has no such object.
[[nodiscard]] std::string code_sha256(std::string_view source);

}  // namespace mage
