// SPDX-License-Identifier: Apache-2.0
#include "mage_bench/registry.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <stdexcept>

namespace mage {
namespace {

// Function-local statics: registration runs before main, in no particular order between files.
std::vector<detail::ErasedVariant>& registered_variants() {
  static std::vector<detail::ErasedVariant> variants;
  return variants;
}
std::map<std::string, std::string, std::less<>>& code_hashes() {
  static std::map<std::string, std::string, std::less<>> hashes;
  return hashes;
}
std::vector<std::unique_ptr<Family>>& registered_families() {
  static std::vector<std::unique_ptr<Family>> families;
  return families;
}

/// `src/kernels/gelu/v00_naive.cu`, however long the path in front was when the compiler saw it.
std::string from_root(std::string_view path) {
  const auto source = path.rfind("src/");
  return std::string{source == std::string_view::npos ? path : path.substr(source)};
}

std::string stem(std::string_view path) {
  const auto file = path.substr(path.rfind('/') + 1);
  return std::string{file.substr(0, file.rfind('.'))};
}

std::string directory(std::string_view path) {
  const auto slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string{} : stem(path.substr(0, slash));
}

// The oracle's own file registers the host variant of the same arithmetic.
std::string variant_name(const std::string& source) {
  return directory(source) == "reference" ? "reference" : stem(source);
}

Unavailable parse_reason(std::string_view text) {
  const auto reason = parse_unavailable(text);
  if (reason == Unavailable::cuda_toolkit_missing || reason == Unavailable::package_missing) return *reason;
  throw std::logic_error{"kernel_sources: '" + std::string{text} + "' is no reason for leaving a file out"};
}

std::map<std::string, std::vector<VariantInfo>> collect_variants() {
  std::map<std::string, std::vector<VariantInfo>> by_family;
  for (const auto& erased : registered_variants()) {
    const auto source = from_root(erased.source);
    if ((erased.prepare == nullptr) == (erased.picks == nullptr))
      throw std::logic_error{source + " must register either `prepare` or `picks`"};
    by_family[erased.family].push_back({erased.family, variant_name(source), source, erased.parent, erased.note,
                                        erased.provider, erased.counter_example, erased.min_cc, erased.deterministic,
                                        std::nullopt, erased});
  }
  for (const auto& file : kernel_sources()) {
    const std::string_view skipped = file.skipped;
    if (skipped.empty()) continue;
    VariantInfo info;
    info.family = directory(file.path);
    info.name = variant_name(file.path);
    info.source = file.path;
    info.skipped = parse_reason(skipped);
    by_family[info.family].push_back(std::move(info));
  }
  for (auto& [family, variants] : by_family) {
    std::sort(variants.begin(), variants.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    const auto twice = std::adjacent_find(variants.begin(), variants.end(),
                                          [](const auto& a, const auto& b) { return a.name == b.name; });
    if (twice != variants.end())
      throw std::logic_error{"variant " + family + "/" + twice->name + " is registered twice: by " + twice->source +
                             " and by " + std::next(twice)->source + "; one file, one statement"};
  }
  return by_family;
}

const std::map<std::string, std::vector<VariantInfo>>& variants_by_family() {
  static std::map<std::string, std::vector<VariantInfo>> cache;
  static std::size_t seen = 0;
  // A candidate loaded with dlopen registers itself later: read again then.
  if (cache.empty() || seen != registered_variants().size()) {
    cache = collect_variants();
    seen = registered_variants().size();
  }
  return cache;
}

}  // namespace

namespace detail {
void register_variant(const ErasedVariant& variant) { registered_variants().push_back(variant); }
void register_family(std::unique_ptr<Family> family) { registered_families().push_back(std::move(family)); }
}  // namespace detail

RegisterCodeHashes::RegisterCodeHashes(std::span<const CodeHash> hashes) {
  for (const auto& hash : hashes) code_hashes()[hash.source] = hash.sha256;
}

std::string code_sha256(std::string_view source) {
  const auto found = code_hashes().find(source);
  return found == code_hashes().end() ? std::string{} : found->second;
}

std::span<const VariantInfo> Family::variants() const {
  const auto& all = variants_by_family();
  const auto found = all.find(std::string{name()});
  if (found == all.end()) return {};
  return found->second;
}

const VariantInfo* Family::find_variant(std::string_view variant) const {
  for (const auto& info : variants())
    if (info.name == variant) return &info;
  return nullptr;
}

std::vector<const Family*> families() {
  std::vector<const Family*> sorted;
  for (const auto& family : registered_families()) sorted.push_back(family.get());
  std::sort(sorted.begin(), sorted.end(), [](const Family* a, const Family* b) { return a->name() < b->name(); });
  return sorted;
}

const Family* find_family(std::string_view name) {
  for (const auto* family : families())
    if (family->name() == name) return family;
  return nullptr;
}

const VariantInfo& picked(const VariantInfo& variant, const AnyProblem& problem) {
  // NOLINTNEXTLINE(bugprone-return-const-ref-from-parameter): variants live as long as the registry
  if (variant.skipped || variant.erased.picks == nullptr) return variant;
  const char* name = variant.erased.call_picks(variant.erased.picks, problem.value.get());
  const auto* family = find_family(variant.family);
  const auto* found = family == nullptr ? nullptr : family->find_variant(name);
  if (found == nullptr || found->erased.picks != nullptr)
    throw std::logic_error{variant.family + "/" + variant.name + " picks '" + name + "' for " + problem.name +
                           (found == nullptr ? ", which is not there" : ", which picks again")};
  return *found;
}

bool accepts(const VariantInfo& variant, const AnyProblem& problem) {
  const auto& runs = picked(variant, problem);
  return !runs.skipped && runs.erased.call_accepts(runs.erased.accepts, problem.value.get());
}

Launch prepare(const VariantInfo& variant, const AnyProblem& problem, const AnyArgs& args) {
  if (!accepts(variant, problem))
    throw std::logic_error{"prepare: " + variant.family + "/" + variant.name + " does not accept " + problem.name};
  const auto& runs = picked(variant, problem);
  return runs.erased.call_prepare(runs.erased.prepare, problem.value.get(), args.get());
}

}  // namespace mage
