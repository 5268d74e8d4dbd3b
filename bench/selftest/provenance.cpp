// SPDX-License-Identifier: Apache-2.0
// One byte more or less is another input, another source, another program; and other inputs are not compared.
#include "bench/provenance.hpp"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "bench/child_process.hpp"
#include "bench/comparison.hpp"
#include "bench/selftest/proof.hpp"
#include "bench/selftest/subject.hpp"
#include "bench/sha256.hpp"

namespace mage::selftest {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr const char* this_program = "/proc/self/exe";

std::string abbreviated(const std::string& digest) { return digest.substr(0, 12); }

std::vector<std::byte> bytes_of(const fs::path& path) {
  std::ifstream file{path, std::ios::binary};
  const std::string text{std::istreambuf_iterator<char>{file}, {}};
  const auto bytes = std::as_bytes(std::span{text});
  return {bytes.begin(), bytes.end()};
}

/// One bit of the byte in the middle.
std::vector<std::byte> flipped(std::vector<std::byte> bytes) {
  if (!bytes.empty()) bytes[bytes.size() / 2] ^= std::byte{1};
  return bytes;
}

void add_same(ProofResult& result, std::string what, const std::string& expected, const std::string& got) {
  add_check(result, std::move(what), abbreviated(expected), abbreviated(got), !got.empty() && got == expected);
}
void add_other(ProofResult& result, std::string what, const std::string& original, const std::string& got) {
  add_check(result, std::move(what), "other than " + abbreviated(original), abbreviated(got),
            !got.empty() && got != original);
}

/// A benchmark that could be compared with its like.
StoredBenchmark stored(const std::string& inputs_sha256) {
  StoredBenchmark benchmark;
  benchmark.name = "selftest/provenance";
  benchmark.mode = "event";
  benchmark.inputs_sha256 = inputs_sha256;
  benchmark.rounds_planned = 10;
  for (int round = 0; round < benchmark.rounds_planned; ++round)
    benchmark.rounds.push_back({round, 10 + 0.01 * (round % 3)});
  return benchmark;
}

void check_comparison(ProofResult& result, const std::string& hash, const std::string& other) {
  using Compare = Comparison (*)(const StoredBenchmark&, const StoredBenchmark&, const ComparisonOptions&);
  for (const auto& [name, compare] :
       {std::pair<const char*, Compare>{"paired", compare_paired}, {"unpaired", compare_unpaired}}) {
    std::array table{compare(stored(hash), stored(hash), {}), compare(stored(hash), stored(other), {})};
    decide(table, {});
    const std::string words[]{std::string{to_string(table[0].word)}, std::string{to_string(table[1].word)}};
    add_check(result, fmt::format("comparing what had the same inputs, {}", name), "a verdict", words[0],
              table[0].word != Word::not_comparable);
    add_check(result, fmt::format("comparing what had inputs that differ in a byte, {}", name),
              std::string{to_string(Word::not_comparable)}, words[1], table[1].word == Word::not_comparable);
  }
}

/// The hash that a row carries: of its input operands' hashes.
std::string combined(const std::vector<std::string>& digests) {
  Sha256 sum;
  for (const auto& digest : digests) sum.update(digest);
  return sum.finish();
}

void check_inputs(ProofResult& result, Context& context) {
  const auto subject = smallest_subject(*context.devices.host);
  if (!subject) throw std::runtime_error{"no variant runs on the host, so that no input can be looked at"};
  const Oracle oracle{*subject->family, subject->problem};
  std::vector<std::string> digests, changed;
  Json by_name = Json::object();
  for (std::size_t i = 0; i < oracle.operands().size(); ++i) {
    if (oracle.operands()[i].role != Role::in) continue;
    digests.push_back(sha256(oracle.input(i)));
    by_name[oracle.operands()[i].name] = digests.back();
    // The last input alone is changed.
    if (!changed.empty()) changed.back() = digests[changed.size() - 1];
    changed.push_back(sha256(flipped(oracle.input(i))));
  }
  if (digests.empty()) throw std::runtime_error{subject->problem.name + " has no input that could be changed"};
  add_other(result, "the hash of an input of which one bit was changed", digests.back(), changed.back());

  // What a run of that problem says of its inputs.
  Options options;
  options.rounds = 1;
  options.samples = 1;
  const auto plan = make_plan({subject->fixture(*subject->variant, TimingMode::host)}, options);
  Json recorded;
  const auto record = [&](const Json& entry) {
    if (entry.at("kind") == "problem") recorded = entry.at("inputs_sha256");
  };
  Runner runner{options, plan, context.devices, 1, {record, {}, {}}};
  const auto row = runner.run(0, plan.problems.at(0).steps.at(0));
  runner.finish(context.interrupted());
  if (!row) return add_check(result, "a run of that problem", "a row", "none", false);
  add_check(result, "the hashes that a run records of its inputs", fmt::format("{} of the bytes", by_name.size()),
            recorded == by_name ? fmt::format("{} of the bytes", recorded.size()) : recorded.dump(),
            recorded == by_name);
  add_same(result, "the hash that its rows carry", combined(digests),
           row->block.at("inputs_sha256").get<std::string>());
  check_comparison(result, combined(digests), combined(changed));
  result.data["inputs_sha256"] = by_name;
}

/// The folder that the program was built from, if it is still there.
std::optional<fs::path> source_folder(const std::string& file) {
  std::error_code error;
  std::vector<fs::path> candidates{fs::current_path(error)};
  auto folder = fs::read_symlink(this_program, error);
  while (folder.has_relative_path()) candidates.push_back(folder = folder.parent_path());
  for (const auto& candidate : candidates)
    if (fs::is_regular_file(candidate / file, error)) return candidate;
  return std::nullopt;
}

std::string list_sha256(std::span<const SourceFile> files, const std::string& last) {
  Sha256 list;
  for (const auto& file : files)
    list.update(fmt::format("{}  {}\n", &file == &files.back() ? last : std::string{file.sha256}, file.path));
  return list.finish();
}

void check_sources(ProofResult& result, const Json& provenance) {
  const auto files = kernel_sources();
  if (files.empty()) return add_check(result, "kernel sources that the build knows", "some", "none", false);
  const auto whole_list = provenance.at("kernel_sources_sha256").get<std::string>();
  add_same(result, fmt::format("the hash of the list of {} sources", files.size()),
           list_sha256(files, files.back().sha256), whole_list);
  const auto folder = source_folder(files.back().path);
  if (!folder) {
    result.checks.push_back({"the sources' hashes", "those of the files",
                             "the sources are neither here nor above the program's folder", Outcome::skipped});
    return;
  }
  std::error_code error;
  const auto built = fs::last_write_time(this_program, error);
  std::size_t same = 0, newer = 0;
  std::string other;
  for (const auto& file : files) {
    const auto path = *folder / file.path;
    if (fs::is_regular_file(path, error) && sha256_file(path) == file.sha256) {
      same += 1;
    } else {
      // Edited since the program was built, which is what hashes are for; else the build is to blame.
      newer += fs::last_write_time(path, error) > built && !error ? 1 : 0;
      if (other.empty()) other = file.path;
    }
  }
  const auto expected = fmt::format("{} of {}", files.size(), files.size());
  const auto measured = fmt::format("{} of {}{}", same, files.size(), other.empty() ? "" : ", not " + other);
  if (same < files.size() && same + newer == files.size())
    result.checks.push_back({"sources whose bytes have the hash of the build", expected,
                             measured + ": edited since the program was built", Outcome::skipped});
  else
    add_check(result, "sources whose bytes have the hash of the build", expected, measured, same == files.size());
  const auto changed = sha256(flipped(bytes_of(*folder / files.back().path)));
  add_other(result, "the hash of a source of which one bit was changed", files.back().sha256, changed);
  add_other(result, "the hash of the list with it", whole_list, list_sha256(files, changed));
}

void check_program(ProofResult& result, const Json& provenance) {
  if (!provenance.at("executable_sha256").is_string()) {
    result.checks.push_back({"the program's hash", "that of its file", "there is no /proc here", Outcome::unavailable});
    return;
  }
  const auto recorded = provenance.at("executable_sha256").get<std::string>();
  const TemporaryFolder folder;
  const auto copy = folder.path() / "program";
  fs::copy_file(this_program, copy);
  add_same(result, "the hash of a copy of the program", recorded, sha256_file(copy));
  std::fstream file{copy, std::ios::binary | std::ios::in | std::ios::out};
  const auto middle = static_cast<std::streamoff>(fs::file_size(copy) / 2);
  file.seekg(middle);
  const int byte = file.get();
  file.seekp(middle);
  file.put(static_cast<char>(byte ^ 1));
  file.close();
  if (!file) throw std::runtime_error{"cannot change a byte of " + copy.string() + ": is the disk full?"};
  add_other(result, "the hash of that copy with one bit changed", recorded, sha256_file(copy));
}

}  // namespace

ProofResult provenance(Context& context) {
  ProofResult result;
  const auto facts = collect_provenance(context.options.argv, make_run_id(), utc_now());
  check_inputs(result, context);
  context.progress(0.4);
  check_sources(result, facts);
  context.progress(0.8);
  check_program(result, facts);
  context.progress(1);
  return result;
}

}  // namespace mage::selftest
