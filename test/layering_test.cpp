// SPDX-License-Identifier: Apache-2.0
// The layer table of README.md's layers, read against every #include of the source tree.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace fs = std::filesystem;

struct Include {
  std::string target;
  bool angled = false;
  bool fenced = false;  // behind `#if MAGE_HOST`
  int line = 0;
};

std::vector<Include> includes_of(const std::string& text) {
  std::vector<Include> result;
  std::istringstream lines{text};
  std::string line;
  bool fenced = false;
  for (int number = 1; std::getline(lines, line); ++number) {
    const auto hash = line.find_first_not_of(" \t");
    if (hash == std::string::npos || line[hash] != '#') continue;
    const auto word = line.find_first_not_of(" \t", hash + 1);
    if (word == std::string::npos) continue;
    const std::string_view directive = std::string_view{line}.substr(word);
    if (directive.starts_with("if MAGE_HOST")) fenced = true;
    if (!directive.starts_with("include")) continue;
    const auto open = line.find_first_of("<\"", word);
    if (open == std::string::npos) continue;
    const bool angled = line[open] == '<';
    const auto close = line.find(angled ? '>' : '"', open + 1);
    if (close == std::string::npos) continue;
    result.push_back({line.substr(open + 1, close - open - 1), angled, fenced, number});
  }
  return result;
}

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> prefixes) {
  return std::ranges::any_of(prefixes, [text](std::string_view prefix) { return text.starts_with(prefix); });
}

bool is_standard(const Include& include) {  // <vector>, but neither <dlfcn.h> nor <fmt/core.h>
  return include.angled && include.target.find_first_of("./") == std::string::npos;
}

bool is_third_party(std::string_view target) {
  return starts_with_any(target, {"benchmark/", "CLI/", "fmt/", "nlohmann/", "openssl/", "gtest/", "gmock/"});
}

bool has_cuda_types(std::string_view target) {
  return target.ends_with(".cuh") || target.ends_with(".cu") || target == "mage_bench/cuda.hpp" ||
         starts_with_any(target, {"cuda", "driver_types.h", "vector_types.h", "cublas", "cusparse", "cupti", "cub/",
                                  "thrust/", "nvrtc", "mma.h", "cooperative_groups"});
}

bool is_heavy(std::string_view target) {
  return starts_with_any(target, {"mage_bench/registry.hpp", "mage_bench/operand.hpp", "mage_bench/case.hpp",
                                  "mage_bench/random.hpp", "mage_bench/parallel.hpp"});
}

/// The third part of "src/kernels/<family>/<file>", or nothing.
std::optional<std::string> family_of(const std::string& path) {
  constexpr std::string_view folder = "src/kernels/";
  if (!path.starts_with(folder)) return std::nullopt;
  return path.substr(folder.size(), path.find('/', folder.size()) - folder.size());
}

/// Why the file `path` may not include `include`; empty where it may.
std::string objection(const std::string& path, const Include& include) {
  const std::string& target = include.target;
  const bool own_header = target.starts_with("mage_bench/");
  if (target.find("..") != std::string::npos || target.starts_with("src/"))
    return "a path around the include folders hides which layer is meant";

  const bool below_bench = starts_with_any(path, {"include/", "src/"});
  if (below_bench && is_third_party(target)) return "third-party libraries belong to bench/, tools/ and test/";
  if (below_bench && starts_with_any(target, {"bench/", "test/", "support/", "tools/"}))
    return "kernels and core know nothing of what measures and tests them";

  if (path == "include/mage_bench/cuda.hpp" || (path.starts_with("include/") && path.ends_with(".cuh")))
    return has_cuda_types(target) || own_header || is_standard(include) ? ""
                                                                        : "only core, CUDA and the standard library";

  if (path.starts_with("include/")) {
    if (has_cuda_types(target)) return "CUDA types live in cuda.hpp and in .cuh headers";
    return own_header || is_standard(include) ? "" : "core headers take the standard library only";
  }

  if (path.starts_with("src/core/")) {
    if (has_cuda_types(target)) return "core needs no toolkit";
    return own_header || is_standard(include) || target.starts_with("core/") ? ""
                                                                             : "core takes the standard library only";
  }

  if (path.starts_with("src/device/")) {
    if (starts_with_any(target, {"kernels/", "reference/"})) return "a device knows no family";
    const bool host_only = path.ends_with("/host_device.cpp") || path.ends_with("/no_cuda.cpp");
    return host_only && has_cuda_types(target) ? "this file is built without a toolkit" : "";
  }

  if (path.starts_with("src/reference/")) {
    if (has_cuda_types(target)) return "an oracle shares nothing with what it judges, CUDA least of all";
    const bool contract = starts_with_any(target, {"kernels/", "reference/"}) && target.ends_with(".hpp");
    return own_header || is_standard(include) || contract ? "" : "references see core and contract headers";
  }

  if (const auto family = family_of(path)) {
    if (target.starts_with("reference/")) return "kernel and oracle live apart so that they cannot share a bug";
    if (target.starts_with("kernels/") && !target.starts_with("kernels/" + *family + "/"))
      return "a family never includes another family";
    if (path.ends_with(".cu") && is_heavy(target)) return ".cu files take the light headers only";
    const std::string name = path.substr(path.rfind('/') + 1);
    const bool variant = name.size() > 2 && name[0] == 'v' && name[1] >= '0' && name[1] <= '9' && name.ends_with(".cu");
    if (variant && is_standard(include) && !include.fenced)
      return "the device half compiles under NVRTC, which has no standard library: move it behind #if MAGE_HOST";
    return "";
  }

  if (path.starts_with("test/exploits/"))  // variants
    return starts_with_any(target, {"reference/"}) ? "kernel and oracle live apart so that they cannot share a bug"
                                                   : "";

  if (starts_with_any(path, {"bench/", "tools/", "test/"})) {
    if (starts_with_any(target, {"kernels/", "reference/"}))
      return "families are read through the registry, never named";
    if (path.starts_with("bench/") && has_cuda_types(target)) return "bench/ reaches CUDA through Device only";
    if (path.starts_with("bench/") && starts_with_any(target, {"gtest/", "gmock/", "test/", "support/"}))
      return "what is shipped does not depend on its tests";
    if (path.starts_with("bench/") && target.starts_with("tools/")) return "tools read stores; nothing reads tools";
    return "";
  }

  return "no layer is known for this file";
}

std::vector<std::string> violations(const std::string& path, const std::string& text) {
  std::vector<std::string> result;
  for (const Include& include : includes_of(text)) {
    const std::string why = objection(path, include);
    if (!why.empty())
      result.push_back(path + ":" + std::to_string(include.line) + ": includes " + include.target + ": " + why);
  }
  return result;
}

bool is_source(const fs::path& path) {
  constexpr std::array extensions{".hpp", ".cpp", ".cu", ".cuh"};
  return std::ranges::find(extensions, path.extension().string()) != extensions.end();
}

TEST(Layering, TheSourceTreeFollowsTheLayers) {
  const fs::path root{MAGE_SOURCE_DIR};
  int files = 0;
  for (const char* folder : {"include", "src", "bench", "tools", "test"}) {
    ASSERT_TRUE(fs::is_directory(root / folder)) << root / folder;
    for (const auto& entry : fs::recursive_directory_iterator{root / folder}) {
      if (!entry.is_regular_file() || !is_source(entry.path())) continue;
      ++files;
      std::ifstream stream{entry.path()};
      std::ostringstream text;
      text << stream.rdbuf();
      ASSERT_TRUE(stream) << entry.path();
      for (const auto& violation : violations(entry.path().lexically_relative(root).generic_string(), text.str()))
        ADD_FAILURE() << violation;
    }
  }
  EXPECT_GT(files, 20) << "the walk over " << root << " found next to nothing: nothing was checked";
}

struct Planted {
  const char* path;
  const char* line;
};

TEST(Layering, ReportsEachPlantedBreach) {
  for (const auto& [path, line] : {
           Planted{"include/mage_bench/case.hpp", "#include <cuda_runtime_api.h>"},
           {"include/mage_bench/case.hpp", "#include \"mage_bench/cuda.hpp\""},
           {"include/mage_bench/types.hpp", "#include <fmt/core.h>"},
           {"include/mage_bench/types.hpp", "#include <unistd.h>"},
           {"include/mage_bench/cuda.hpp", "#include <CLI/CLI.hpp>"},
           {"src/core/case.cpp", "#include \"mage_bench/cuda.hpp\""},
           {"src/core/case.cpp", "#include \"kernels/gelu/gelu.hpp\""},
           {"src/core/registry.cpp", "#include \"bench/build_info.hpp\""},
           {"src/device/cuda_device.cpp", "#include \"kernels/gelu/gelu.hpp\""},
           {"src/device/cuda_device.cpp", "#include <benchmark/benchmark.h>"},
           {"src/device/no_cuda.cpp", "#include <cuda.h>"},
           {"src/reference/gelu.cpp", "#include <cuda_runtime.h>"},
           {"src/reference/gelu.cpp", "#include \"mage_bench/device_code.cuh\""},
           {"src/reference/gelu.cpp", "#include \"kernels/gelu/v00_naive.cu\""},
           {"src/kernels/gelu/v01_float4.cu", "#include \"kernels/copy/copy.hpp\""},
           {"src/kernels/gelu/v01_float4.cu", "#include \"../copy/copy.hpp\""},
           {"src/kernels/gelu/v01_float4.cu", "#include \"mage_bench/registry.hpp\""},
           {"src/kernels/gelu/v01_float4.cu", "#include <vector>"},
           {"src/kernels/gelu/v01_float4.cu", "  #  include   <cstdint>"},
           {"src/kernels/gelu/cpu_v00_plain.cpp", "#include \"bench/sampler.hpp\""},
           {"src/kernels/gelu/cpu_v00_plain.cpp", "#include \"reference/shared.hpp\""},
           {"bench/main.cpp", "#include \"kernels/gelu/gelu.hpp\""},
           {"bench/main.cpp", "#include \"src/kernels/gelu/gelu.hpp\""},
           {"bench/main.cpp", "#include \"mage_bench/cuda.hpp\""},
           {"bench/main.cpp", "#include <gtest/gtest.h>"},
           {"bench/main.cpp", "#include \"tools/compare/report.hpp\""},
           {"tools/list.cpp", "#include \"kernels/gelu/gelu.hpp\""},
           {"test/variant_test.cpp", "#include \"kernels/gelu/gelu.hpp\""},
           {"test/exploits/order_exploits.cu", "#include \"reference/gelu.hpp\""},
           {"examples/new_folder.cpp", "#include <vector>"},
       })
    EXPECT_EQ(violations(path, std::string{line} + "\n").size(), 1U) << path << ": " << line;
}

TEST(Layering, AcceptsWhatTheTableAllows) {
  for (const auto& [path, line] : {
           Planted{"include/mage_bench/case.hpp", "#include \"mage_bench/device.hpp\""},
           {"include/mage_bench/case.hpp", "#include <vector>"},
           {"include/mage_bench/cuda.hpp", "#include <cuda_runtime_api.h>"},
           {"src/core/case.cpp", "#include \"mage_bench/case.hpp\""},
           {"src/device/cuda_device.cpp", "#include <dlfcn.h>"},
           {"src/reference/gelu.cpp", "#include \"kernels/gelu/gelu.hpp\""},
           {"src/kernels/gelu/v01_float4.cu", "#include \"mage_bench/device_code.cuh\""},
           {"include/mage_bench/remainder.cuh", "#include \"mage_bench/device_code.cuh\""},
           {"src/kernels/gelu/v01_float4.cu", "#if MAGE_HOST\n#include <cstdint>"},
           {"src/kernels/gelu/v01_float4.cu", "#include \"kernels/gelu/gelu.hpp\""},
           {"src/kernels/gelu/v01_float4.cu", "// #include <vector>"},
           {"bench/main.cpp", "#include <benchmark/benchmark.h>"},
           {"tools/compare/report.hpp", "#include \"bench/store_reader.hpp\""},
           {"test/variant_test.cpp", "#include \"mage_bench/registry.hpp\""},
           {"test/exploits/exploit.hpp", "#include \"kernels/gelu/gelu.hpp\""},
       })
    EXPECT_EQ(violations(path, std::string{line} + "\n"), std::vector<std::string>{}) << path;
}

TEST(Layering, NamesFileAndLine) {
  const auto found = violations("bench/main.cpp", "#include <vector>\n\n#include \"kernels/gelu/gelu.hpp\"\n");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].starts_with("bench/main.cpp:3: includes kernels/gelu/gelu.hpp: ")) << found[0];
}

}  // namespace
