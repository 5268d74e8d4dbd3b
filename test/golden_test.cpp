// SPDX-License-Identifier: Apache-2.0
// Saved inputs and exact outputs, computed by tools/make_goldens.py without any of the code under test. Each file says
// its family and problem, so that a family joins by a file. Golden bits of CUDA variants hold for one architecture and
// one compiler.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "bench/build_info.hpp"
#include "bench/sha256.hpp"
#include "mage_bench/case.hpp"
#include "mage_bench/random.hpp"
#include "test/support/data.hpp"
#include "test/support/gpu.hpp"
#include "test/support/safetensors.hpp"
#include "test/support/variants.hpp"

namespace mage::test {
namespace {

struct Saved {
  std::string file;
  const Family* family = nullptr;
  AnyProblem problem;
  Operands operands;
  Safetensors content;

  /// The exact values of each output, in operand order.
  [[nodiscard]] std::vector<std::vector<double>> exact() const {
    std::vector<std::vector<double>> outputs;
    for (const auto& operand : operands)
      if (operand.role == Role::out) outputs.push_back(content.tensors.at(operand.name + "_exact").as<double>());
    return outputs;
  }
};

std::set<std::string> saved_files() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator{data_path("")})
    if (entry.path().extension() == ".safetensors") names.insert(entry.path().filename().string());
  return names;
}

std::vector<Saved> saved_problems() {
  std::vector<Saved> all;
  for (const auto& name : saved_files()) {
    Saved saved;
    saved.file = name;
    saved.content = read_safetensors(data_path(name));
    saved.family = find_family(saved.content.metadata.at("family"));
    if (saved.family == nullptr) throw std::runtime_error{name + " is of a family that is not in this build"};
    const auto problem = saved.family->parse(saved.content.metadata.at("problem"));
    if (!problem) throw std::runtime_error{name + " is of a problem that its family cannot parse"};
    saved.problem = *problem;
    saved.operands = saved.family->operands(*problem);
    all.push_back(std::move(saved));
  }
  if (all.empty()) throw std::runtime_error{"no .safetensors in " + data_path("").string()};
  return all;
}

/// One run of a variant on poisoned outputs, judged by the gate and then by the exact values.
void expect_right(Device& device, const Oracle& oracle, Case& saved_case, const Saved& saved,
                  const VariantInfo& variant) {
  const auto where = variant.family + "/" + variant.name + " on " + saved.file;
  auto launch = saved_case.bind(variant);
  saved_case.poison();
  device.submit(launch);
  const auto verdict = saved_case.check();
  EXPECT_TRUE(verdict.ok) << where << ": " << verdict.reason;
  const auto exact = saved.exact();
  std::size_t output = 0;
  for (std::size_t i = 0; i < saved.operands.size(); ++i) {
    if (saved.operands[i].role != Role::out) continue;
    const auto bytes = saved_case.read(i);
    const ExpectedTensor expected{exact.at(output), oracle.expected().at(output).bound};
    const auto judged = compare(saved.operands[i], bytes.data(), expected, 0x7FABCDEFU);
    EXPECT_TRUE(judged.ok) << where << " against the exact values: " << judged.reason;
    ++output;
  }
}

TEST(Golden, TheManifestHolds) {
  const auto manifest = read_json(data_path("manifest.json")).at("sha256");
  std::set<std::string> listed;
  for (const auto& [name, hash] : manifest.items()) {
    listed.insert(name);
    EXPECT_EQ(sha256_file(data_path(name)), hash.get<std::string>())
        << name << " is not the file that was saved; tools/make_goldens.py writes both anew";
  }
  EXPECT_EQ(listed, saved_files());
}

TEST(Golden, InputsAreTheSavedOnesBitForBit) {
  for (const auto& saved : saved_problems()) {
    const Oracle oracle{*saved.family, saved.problem};
    for (std::size_t i = 0; i < saved.operands.size(); ++i) {
      const auto& operand = saved.operands[i];
      if (operand.role != Role::in) continue;
      const auto& tensor = saved.content.tensors.at(operand.name);
      EXPECT_EQ(tensor.shape, (std::vector<std::int64_t>{operand.rows, operand.cols})) << saved.file;
      EXPECT_EQ(oracle.input(i), tensor.bytes) << saved.file << " " << operand.name;
    }
  }
}

TEST(Golden, EveryFamilyThatComputesHasSavedProblems) {
  std::set<std::string> saved;
  for (const auto& problem : saved_problems()) saved.insert(std::string{problem.family->name()});
  for (const auto* family : families()) {
    if (!computes(*family)) continue;
    const std::string name{family->name()};
    EXPECT_TRUE(saved.contains(name)) << "write tools/goldens/" << name
                                      << ".py and run tools/make_goldens.py test/data";
  }
}

// The oracle's own error is a millionth of what it allows others, on the saved bytes themselves.
TEST(Golden, TheReferenceAgreesWithTheExactValues) {
  for (auto& saved : saved_problems()) {
    std::vector<void*> pointers;
    for (const auto& operand : saved.operands)
      pointers.push_back(operand.role == Role::in ? saved.content.tensors.at(operand.name).bytes.data() : nullptr);
    Expected expected;
    saved.family->reference(saved.problem, Pointers{pointers}, expected);
    const auto exact = saved.exact();
    ASSERT_EQ(expected.size(), exact.size()) << saved.file;
    for (std::size_t k = 0; k < exact.size(); ++k) {
      ASSERT_EQ(expected[k].value.size(), exact[k].size()) << saved.file;
      for (std::size_t i = 0; i < exact[k].size(); ++i) {
        const double got = expected[k].value[i], right = exact[k][i];
        const bool same = got == right || (std::isnan(got) && std::isnan(right));
        const double allowed = 1e-6 * static_cast<double>(expected[k].bound[i]);
        EXPECT_TRUE(same || std::fabs(got - right) <= allowed)
            << saved.file << "[" << i << "]: " << got << ", not " << right;
      }
    }
  }
}

// |error| <= 1e-15 (1 + t^2) |y|: gelu amplifies a relative error of t by about t^2 in the lower tail.
TEST(Golden, TheReferenceOfGeluIsAccurateInItsTail) {
  int compared = 0;
  for (auto& saved : saved_problems()) {
    if (saved.family->name() != "gelu") continue;
    const auto x = saved.content.tensors.at("x").as<float>();
    const auto bias = saved.content.tensors.at("bias").as<float>();
    Expected expected;
    saved.family->reference(
        saved.problem,
        Pointers{{saved.content.tensors.at("x").bytes.data(), saved.content.tensors.at("bias").bytes.data(), nullptr}},
        expected);
    const auto exact = saved.exact().at(0);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      if (!std::isfinite(exact[i])) continue;
      const double t = static_cast<double>(x[i]) + static_cast<double>(bias[i % bias.size()]);
      EXPECT_LE(std::fabs(expected[0].value[i] - exact[i]), 1e-15 * (1 + t * t) * std::fabs(exact[i])) << t;
      ++compared;
    }
  }
  EXPECT_GT(compared, 5000);
}

TEST(Golden, EveryHostVariantGivesTheExactValues) {
  const auto device = make_host_device();
  int runs = 0;
  for (const auto& saved : saved_problems()) {
    const Oracle oracle{*saved.family, saved.problem};
    Case saved_case{*device, oracle};
    for (const auto& variant : saved.family->variants()) {
      if (!variant.on_host() || !accepts(variant, saved.problem)) continue;
      expect_right(*device, oracle, saved_case, saved, variant);
      ++runs;
    }
  }
  EXPECT_GE(runs, static_cast<int>(saved_files().size())) << "at least `reference` takes every saved problem";
}

/// "sm_90-cuda13.0": what the bits of a CUDA variant depend on besides its source.
std::string platform(const Device& device) {
  std::string compiler = build_info().cuda_compiler;  // "NVIDIA 13.0.48"
  compiler.erase(0, compiler.find(' ') + 1);
  compiler.erase(compiler.find('.', compiler.find('.') + 1));
  return "sm_" + std::to_string(device.info().compute_capability) + "-cuda" + compiler;
}

bool runs_on(const Device& device, const VariantInfo& variant) {
  return !variant.skipped && !variant.on_host() && variant.min_cc <= device.info().compute_capability &&
         variant.counter_example.empty();
}

TEST(GpuGoldenTest, EveryVariantGivesTheExactValues) {
  MAGE_NEED_GPU();
  const auto device = make_cuda_device(0);
  int runs = 0;
  for (const auto& saved : saved_problems()) {
    const Oracle oracle{*saved.family, saved.problem};
    Case saved_case{*device, oracle};
    for (const auto& variant : saved.family->variants()) {
      if (!runs_on(*device, variant) || !accepts(variant, saved.problem)) continue;
      expect_right(*device, oracle, saved_case, saved, variant);
      ++runs;
    }
  }
  EXPECT_GT(runs, 0) << "this device ran no variant of any saved family";
}

// test/data/<family>_bits.json: {"<variant>@<platform>": {"<problem>": "<sha256 of the outputs>"}}.
// MAGE_WRITE_GOLDENS=<folder> writes these files there, with what was found here.
TEST(GpuGoldenTest, TheBitsAreThoseSaved) {
  MAGE_NEED_GPU();
  const auto device = make_cuda_device(0);
  nlohmann::ordered_json found = nlohmann::ordered_json::object();
  std::set<std::string> missing;
  int runs = 0;
  for (const auto& saved : saved_problems()) {
    const std::string family{saved.family->name()};
    const auto golden_name = family + "_bits.json";
    const auto golden_path = data_path(golden_name);
    const auto golden = std::filesystem::exists(golden_path) ? read_json(golden_path) : nlohmann::json::object();
    if (!found.contains(golden_name)) found[golden_name] = golden;
    const Oracle oracle{*saved.family, saved.problem};
    Case saved_case{*device, oracle};
    for (const auto& variant : saved.family->variants()) {
      // Bits of libraries are theirs to change, and those of a variant that says so are not repeatable.
      // One that picks has the bits of the one it picks.
      const bool ours = variant.provider == "mage_bench" && variant.deterministic && variant.erased.picks == nullptr;
      if (!ours || !runs_on(*device, variant) || !accepts(variant, saved.problem)) continue;
      auto launch = saved_case.bind(variant);
      saved_case.poison();
      device->submit(launch);
      std::vector<std::byte> outputs;
      for (std::size_t i = 0; i < saved.operands.size(); ++i) {
        if (saved.operands[i].role != Role::out) continue;
        const auto bytes = saved_case.read(i);
        outputs.insert(outputs.end(), bytes.begin(), bytes.end());
      }
      const auto key = variant.name + "@" + platform(*device);
      const auto hash = sha256(outputs);
      found[golden_name][key][saved.problem.name] = hash;
      ++runs;
      if (!golden.contains(key) || !golden[key].contains(saved.problem.name)) {
        missing.insert(family + "/" + key + ":" + saved.problem.name);
        continue;
      }
      EXPECT_EQ(hash, golden[key][saved.problem.name].get<std::string>())
          << variant.source << " gives other bits on " << saved.problem.name << " than when they were saved";
    }
  }
  EXPECT_GT(runs, 0) << "this device ran no deterministic variant of any saved family";
  if (const char* path = std::getenv("MAGE_WRITE_GOLDENS")) {
    for (const auto& [name, bits] : found.items()) {
      const auto file = std::filesystem::path{path} / name;
      std::ofstream stream{file, std::ios::trunc};
      stream << bits.dump(1) << "\n";
      ASSERT_TRUE(stream.flush()) << "cannot write " << file;
    }
  }
  if (missing.empty()) return;
  std::string names;
  for (const auto& name : missing) names += " " + name;
  GTEST_SKIP() << "no golden bits for" << names << "; MAGE_WRITE_GOLDENS=<folder> writes those found here";
}

}  // namespace
}  // namespace mage::test
