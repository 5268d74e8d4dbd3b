// SPDX-License-Identifier: Apache-2.0
// The files and the registry say the same, in both directions.
#include "mage_bench/registry.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>

#include "mage_bench/case.hpp"

namespace mage {
namespace {

namespace fs = std::filesystem;

/// Every file that must hold a variant: found on disk here, not taken from the build.
std::set<std::string> variant_files() {
  std::set<std::string> files;
  const fs::path root{MAGE_SOURCE_DIR};
  for (const auto& entry : fs::recursive_directory_iterator{root / "src/kernels"})
    if (entry.path().extension() == ".cu" || entry.path().extension() == ".cpp")
      files.insert(fs::relative(entry.path(), root).generic_string());
  for (const auto& entry : fs::directory_iterator{root / "src/reference"})
    if (entry.path().extension() == ".cpp") files.insert(fs::relative(entry.path(), root).generic_string());
  return files;
}

std::set<std::string> registered_files() {
  std::set<std::string> files;
  for (const auto* family : families())
    for (const auto& variant : family->variants()) files.insert(variant.source);
  return files;
}

TEST(Registry, EveryFileIsRegisteredOrRecordedAsSkipped) {
  const auto registered = registered_files();
  for (const auto& file : variant_files())
    EXPECT_TRUE(registered.contains(file)) << file << " registers nothing and is not recorded as skipped";
}

TEST(Registry, EveryRegistrationHasItsFile) {
  const auto files = variant_files();
  for (const auto& file : registered_files()) EXPECT_TRUE(files.contains(file)) << file << " is registered but absent";
}

TEST(Registry, TheManifestListsTheSameFilesWithTheirHashes) {
  std::set<std::string> listed;
  for (const auto& file : kernel_sources()) {
    listed.insert(file.path);
    EXPECT_EQ(std::string_view{file.sha256}.size(), 64U) << file.path;
  }
  EXPECT_EQ(listed, variant_files());
}

TEST(Registry, ThereAreFamiliesSortedByName) {
  const auto all = families();
  ASSERT_FALSE(all.empty());
  EXPECT_TRUE(
      std::is_sorted(all.begin(), all.end(), [](const Family* a, const Family* b) { return a->name() < b->name(); }));
  for (const auto* family : all) EXPECT_EQ(find_family(family->name()), family);
  EXPECT_EQ(find_family("no_such_family"), nullptr);
}

TEST(Registry, AFamilyLivesInTheFolderOfItsName) {
  for (const auto* family : families())
    for (const auto& variant : family->variants()) {
      const auto expected = variant.name == "reference" ? "src/reference/" + std::string{family->name()} + "."
                                                        : "src/kernels/" + std::string{family->name()} + "/";
      EXPECT_TRUE(variant.source.starts_with(expected)) << variant.source;
    }
}

TEST(Registry, ParentsExistAndFirstVersionsHaveNone) {
  for (const auto* family : families())
    for (const auto& variant : family->variants()) {
      if (variant.skipped) continue;
      SCOPED_TRACE(variant.source);
      const bool numbered = variant.name.starts_with('v') || variant.name.starts_with("cpu_v");
      const bool first = variant.name.starts_with("v00_") || variant.name.starts_with("cpu_v00_");
      if (first || !numbered) {
        EXPECT_TRUE(variant.parent.empty()) << "a first version, an oracle or a baseline has no parent";
      } else {
        EXPECT_NE(family->find_variant(variant.parent), nullptr) << "unknown parent '" << variant.parent << "'";
        EXPECT_LT(variant.parent, variant.name) << "a parent comes before its child";
      }
    }
}

TEST(Registry, EachFamilyHasOneFirstVersionOnEachSideAndAReference) {
  for (const auto* family : families()) {
    int cuda = 0;
    int host = 0;
    for (const auto& variant : family->variants()) {
      cuda += variant.name.starts_with("v00_") ? 1 : 0;
      host += variant.name.starts_with("cpu_v00_") ? 1 : 0;
    }
    EXPECT_EQ(cuda, 1) << family->name();
    EXPECT_EQ(host, 1) << family->name();
    ASSERT_NE(family->find_variant("reference"), nullptr) << family->name();
    EXPECT_TRUE(family->find_variant("reference")->on_host());
  }
}

TEST(Registry, NamesSayTheKindOfVariant) {
  const std::regex ours{"(cpu_)?v[0-9][0-9]_[a-z0-9]+(_[a-z0-9]+)*"};
  const std::regex baseline{"[a-z]+_[a-z0-9]+(_[a-z0-9]+)*"};
  for (const auto* family : families()) {
    std::set<std::string> numbers;
    for (const auto& variant : family->variants()) {
      SCOPED_TRACE(variant.source);
      if (variant.name == "reference" || variant.skipped) continue;
      const bool numbered = std::regex_match(variant.name, ours);
      EXPECT_EQ(variant.name == "best", variant.erased.picks != nullptr) << "what picks is called best";
      if (variant.name == "best") continue;
      EXPECT_TRUE(numbered || (variant.provider != "mage_bench" && std::regex_match(variant.name, baseline)))
          << "name the file vNN_what_changed.cu, cpu_vNN_what_changed.cpp or <provider>_<what>.cu";
      if (numbered) {
        EXPECT_EQ(variant.name.starts_with("cpu_"), variant.on_host());
        EXPECT_TRUE(numbers.insert(variant.name.substr(0, variant.on_host() ? 7 : 3)).second)
            << "a number is used twice";
      }
    }
  }
}

/// The names in a source file: neither its comments nor its strings.
std::set<std::string> identifiers_of(const fs::path& path) {
  std::ifstream stream{path};
  const std::string text{std::istreambuf_iterator<char>{stream}, {}};
  const auto code = std::regex_replace(text, std::regex{R"re(//[^\n]*|"[^"\n]*")re"}, " ");
  const std::regex word{"[A-Za-z_][A-Za-z0-9_]*"};
  return {std::sregex_token_iterator{code.begin(), code.end(), word}, {}};
}

// A copy keeps the names of what it was copied from, and two variants of one name are one to the linker or to a reader.
TEST(Registry, AVariantsFileNamesNoOtherVariantInItsCode) {
  const std::regex numbered{"(?:|.*?_)((?:cpu_)?v[0-9][0-9])_.*"};
  const std::regex numbered_type{"V([0-9][0-9])[A-Z].*"};
  for (const auto* family : families())
    for (const auto& variant : family->variants())
      for (const auto& name : identifiers_of(fs::path{MAGE_SOURCE_DIR} / variant.source)) {
        std::smatch found;
        const bool type = std::regex_match(name, found, numbered_type);
        if (!type && !std::regex_match(name, found, numbered)) continue;
        const auto stem = (type ? "v" : "") + found[1].str() + "_";
        EXPECT_TRUE(variant.name.starts_with(stem))
            << variant.source << " has a name of another: " << name << "; rename it after " << variant.name;
      }
}

/// The comment behind the licence, as one line.
std::string head_of(const fs::path& path) {
  std::ifstream stream{path};
  std::string head;
  std::string line;
  std::getline(stream, line);
  while (std::getline(stream, line) && line.starts_with("// ")) head += line.substr(2);
  return head;
}

// Nor does a copy keep what its original says of itself.
TEST(Registry, AVariantsHeadAndNoteAreItsOwn) {
  const std::regex parent_in_words{R"(Parent (\w+))"};
  for (const auto* family : families()) {
    std::set<std::string> notes;
    for (const auto& variant : family->variants()) {
      if (variant.skipped) continue;  // this build knows its file and no more
      EXPECT_TRUE(notes.insert(variant.note).second) << variant.source << " has the note of another: " << variant.note;
      if (variant.name == "reference") continue;
      const auto head = head_of(fs::path{MAGE_SOURCE_DIR} / variant.source);
      EXPECT_TRUE(head.starts_with(" " + variant.name + ": ")) << variant.source << " begins with" << head;
      std::smatch found;
      EXPECT_EQ(std::regex_search(head, found, parent_in_words) ? found[1].str() : "", variant.parent)
          << variant.source << " names one parent in its first lines and registers another";
    }
  }
}

/// A variant of family copy, known to this test alone, that picks what `call` names for every problem.
VariantInfo picking(const char* (*call)(detail::ErasedFunction, const void*)) {
  VariantInfo variant;
  variant.family = "copy";
  variant.name = "picking";
  variant.erased.picks = [] {};
  variant.erased.call_picks = call;
  return variant;
}

TEST(Registry, WhatIsPickedRunsInThePlaceOfWhatPicks) {
  const auto* copy = find_family("copy");
  const auto problem = copy->bench_problems().front();
  const auto variant = picking([](detail::ErasedFunction, const void*) { return "cpu_v00_memcpy"; });
  EXPECT_EQ(&picked(variant, problem), copy->find_variant("cpu_v00_memcpy"));
  EXPECT_TRUE(accepts(variant, problem));
  EXPECT_EQ(&picked(*copy->find_variant("reference"), problem), copy->find_variant("reference"));
}

TEST(Registry, PickingWhatIsNotThereIsAnError) {
  const auto problem = find_family("copy")->bench_problems().front();
  const auto variant = picking([](detail::ErasedFunction, const void*) { return "v99_gone"; });
  EXPECT_THROW(static_cast<void>(picked(variant, problem)), std::logic_error);
  EXPECT_THROW(static_cast<void>(accepts(variant, problem)), std::logic_error);
}

TEST(Registry, EveryVariantSaysWhatItIs) {
  for (const auto* family : families())
    for (const auto& variant : family->variants()) {
      if (variant.skipped) continue;
      EXPECT_FALSE(variant.note.empty()) << variant.source;
      EXPECT_EQ(variant.note.find('\n'), std::string::npos) << variant.source;
      EXPECT_FALSE(variant.provider.empty()) << variant.source;
      EXPECT_EQ(variant.on_host(), variant.source.ends_with(".cpp")) << variant.source;
    }
}

TEST(Registry, NamesFitABenchmarkName) {
  for (const auto* family : families())
    for (const auto& problem : family->bench_problems())
      for (const auto& variant : family->variants()) {
        const BenchmarkName name{std::string{family->name()}, variant.name, problem.name, TimingMode::graph};
        EXPECT_EQ(parse_name(to_string(name)), name);
      }
}

TEST(Registry, ProblemsSurvivePrintingAndParsing) {
  for (const auto* family : families())
    for (const auto& problems : {family->bench_problems(), family->test_problems()}) {
      std::set<std::string> names;
      for (const auto& problem : problems) {
        EXPECT_TRUE(names.insert(problem.name).second) << family->name() << "/" << problem.name << " appears twice";
        const auto parsed = family->parse(problem.name);
        ASSERT_TRUE(parsed) << problem.name;
        EXPECT_EQ(parsed->name, problem.name);
        EXPECT_EQ(problem.name.find_first_of("/ "), std::string::npos) << problem.name;
      }
    }
}

TEST(Registry, EachFamilyTestsOffsetsBeyond31Bits) {
  for (const auto* family : families()) {
    bool beyond = false;
    for (const auto& problem : family->test_problems())
      for (const auto& operand : family->operands(problem))
        beyond = beyond || operand.elements() > (int64{1} << 31U) || operand.bytes() > (std::size_t{1} << 31U);
    EXPECT_TRUE(beyond) << family->name() << " has no test problem labelled large";
  }
}

TEST(Registry, WorkAndToleranceAreStatedForEveryProblem) {
  for (const auto* family : families())
    for (const auto& problem : family->bench_problems()) {
      const auto work = family->work(problem);
      double inputs = 0;
      double outputs = 0;
      for (const auto& operand : family->operands(problem))
        (operand.role == Role::in ? inputs : outputs) += static_cast<double>(operand.bytes());
      EXPECT_EQ(work.bytes_read > 0, inputs > 0) << problem.name;
      if (!work.ceiling_of) {  // a ceiling counts what moves, however often: that is its purpose
        EXPECT_LE(work.bytes_read, inputs) << "more than every input once is not compulsory";
      }
      EXPECT_EQ(work.bytes_written, outputs);
      EXPECT_FALSE(family->tolerance(problem).empty());
    }
}

TEST(Names, AreRefusedWhereAPartIsMissingOrTheModeUnknown) {
  for (const auto* text : {"", "gelu", "gelu/v00", "gelu/v00/1x1", "gelu/v00/1x1/", "gelu/v00/1x1/fast",
                           "gelu//1x1/event", "a/b/c/event/d", "gelu/v 0/1x1/event"})
    EXPECT_EQ(parse_name(text), std::nullopt) << text;
}

TEST(Names, EveryModeReasonAndStatusHasItsOwnWord) {
  std::set<std::string_view> words;
  for (const auto mode : all_modes) {
    EXPECT_TRUE(words.insert(to_string(mode)).second);
    EXPECT_EQ(parse_mode(to_string(mode)), mode);
  }
  EXPECT_EQ(words.size(), 6U);
}

}  // namespace
}  // namespace mage
