// SPDX-License-Identifier: Apache-2.0
#include "bench/provenance.hpp"

#include <gtest/gtest.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "bench/build_info.hpp"
#include "bench/sha256.hpp"
#include "mage_bench/registry.hpp"

namespace mage {
namespace {

using Json = nlohmann::ordered_json;

Json collect(const std::vector<std::string>& argv = {"/somewhere/else/mage_bench", "--benchmark_filter=a b"}) {
  return collect_provenance(argv, "00112233445566778899aabbccddeeff", "2026-01-31T23:59:59Z");
}

/// What coreutils say, the independent source; empty where they are not there.
std::string output_of(const std::string& command) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe{popen(command.c_str(), "r"), &pclose};
  std::string text;
  for (int c = 0; pipe != nullptr && (c = std::fgetc(pipe.get())) != EOF;) text += static_cast<char>(c);
  return text;
}

/// The text with an x for each hexadecimal digit.
std::string shape_of(std::string text) {
  for (char& c : text)
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')) c = 'x';
  return text;
}

class Variable {
 public:
  Variable(const char* name, const char* value) : name_{name} {
    if (const char* old = std::getenv(name)) old_ = old;
    if (value == nullptr)
      unsetenv(name);
    else
      setenv(name, value, 1);
  }
  ~Variable() {
    if (old_)
      setenv(name_, old_->c_str(), 1);
    else
      unsetenv(name_);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

TEST(Provenance, EveryFieldIsThereWithItsTypeAndNoneIsEmpty) {
  using Type = Json::value_t;
  const std::map<std::string, Type> fields{{"run_id", Type::string},
                                           {"started_utc", Type::string},
                                           {"argv", Type::array},
                                           {"git_commit", Type::string},
                                           {"git_dirty", Type::boolean},
                                           {"executable_sha256", Type::string},
                                           {"kernel_sources_sha256", Type::string},
                                           {"kernel_sources", Type::object},
                                           {"compiler", Type::string},
                                           {"cuda_compiler", Type::string},
                                           {"cxx_flags", Type::string},
                                           {"cuda_flags", Type::string},
                                           {"build_type", Type::string},
                                           {"benchmark_version", Type::string},
                                           {"cmake_version", Type::string},
                                           {"cpu_model", Type::string},
                                           {"cpu_threads", Type::number_unsigned},
                                           {"os", Type::string},
                                           {"kernel_release", Type::string},
                                           {"glibc_version", Type::string},
                                           {"profiled", Type::boolean},
                                           {"environment", Type::object}};
  const auto provenance = collect();
  EXPECT_EQ(provenance.size(), fields.size());
  for (const auto& [name, type] : fields) {
    ASSERT_TRUE(provenance.contains(name)) << name;
    const auto& value = provenance.at(name);
    EXPECT_TRUE(value.is_null() || value.type() == type) << name << ": " << value;
    EXPECT_NE(value, "") << name;
    EXPECT_NE(value, "unknown") << name;
  }
}

TEST(Provenance, SaysWhatOtherSourcesSay) {
  const auto provenance = collect();
  EXPECT_EQ(provenance.at("run_id"), "00112233445566778899aabbccddeeff");
  EXPECT_EQ(provenance.at("started_utc"), "2026-01-31T23:59:59Z");
  EXPECT_EQ(provenance.at("compiler"), build_info().compiler);
  EXPECT_EQ(provenance.at("cpu_threads"), std::thread::hardware_concurrency());
  utsname name{};
  ASSERT_EQ(uname(&name), 0);
  EXPECT_EQ(provenance.at("kernel_release"), name.release);
  const auto executable = std::filesystem::read_symlink("/proc/self/exe").string();
  if (const auto sum = output_of("sha256sum '" + executable + "' 2>/dev/null"); !sum.empty()) {
    EXPECT_EQ(provenance.at("executable_sha256"), sum.substr(0, 64));
  }
  if (const auto system = output_of(". /etc/os-release 2>/dev/null && printf %s \"$PRETTY_NAME\""); !system.empty()) {
    EXPECT_EQ(provenance.at("os"), system);
  }
  if (const auto libc = output_of("getconf GNU_LIBC_VERSION 2>/dev/null"); !libc.empty()) {
    EXPECT_EQ("glibc " + provenance.at("glibc_version").get<std::string>() + "\n", libc);
  }
}

TEST(Provenance, UnknownBuildFactsAreNull) {
  const auto provenance = collect();
  const bool in_repository = std::string{build_info().git_commit} != "unknown";
  EXPECT_EQ(provenance.at("git_commit").is_null(), !in_repository);
  EXPECT_EQ(provenance.at("git_dirty").is_null(), !in_repository);
  EXPECT_EQ(provenance.at("cuda_compiler").is_null(), std::string{build_info().cuda_compiler}.empty());
  EXPECT_EQ(provenance.at("cuda_flags").is_null(), std::string{build_info().cuda_flags}.empty());
}

TEST(Provenance, KeepsArgumentsButNoFolders) {
  const auto provenance = collect({"/somewhere/else/mage_bench", "--benchmark_out=x y.json", "", "-v"});
  EXPECT_EQ(provenance.at("argv"), (Json{"mage_bench", "--benchmark_out=x y.json", "", "-v"}));
  EXPECT_EQ(provenance.dump().find("/somewhere"), std::string::npos);
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
  EXPECT_EQ(provenance.dump().find(folder), std::string::npos);
}

TEST(Provenance, KernelSourcesAndTheHashOfTheirList) {
  const auto provenance = collect();
  ASSERT_EQ(provenance.at("kernel_sources").size(), kernel_sources().size());
  std::string list;
  for (const auto& file : kernel_sources()) {
    EXPECT_EQ(provenance.at("kernel_sources").at(file.path), file.sha256);
    list += std::string{file.sha256} + "  " + file.path + "\n";
  }
  EXPECT_EQ(provenance.at("kernel_sources_sha256"), sha256(list));
}

TEST(Provenance, CapturesTheEnvironmentThatMatters) {
  const Variable cuda{"CUDA_MAGE_TEST", "1,2 \"three\""};
  const Variable nvidia{"NVIDIA_MAGE_TEST", ""};
  const Variable cublas{"CUBLAS_MAGE_TEST", "a=b"};
  const Variable omp{"OMP_MAGE_TEST", "4"};
  const Variable other{"MAGE_CUDA_TEST", "not this one"};
  const auto environment = collect().at("environment");
  EXPECT_EQ(environment.at("CUDA_MAGE_TEST"), "1,2 \"three\"");
  EXPECT_EQ(environment.at("NVIDIA_MAGE_TEST"), "");  // set, and set to nothing
  EXPECT_EQ(environment.at("CUBLAS_MAGE_TEST"), "a=b");
  EXPECT_EQ(environment.at("OMP_MAGE_TEST"), "4");
  EXPECT_FALSE(environment.contains("MAGE_CUDA_TEST"));
  EXPECT_FALSE(environment.contains("PATH"));
}

TEST(Provenance, SaysThatAProfilerIsAround) {
  EXPECT_EQ(collect().at("profiled"), false);
  const Variable image{"NV_CUDA_LIB_VERSION", "13.0"};
  EXPECT_EQ(collect().at("profiled"), false) << "what a container image says of its packages is no profiler";
  const Variable injected{"CUDA_INJECTION64_PATH", "/tool.so"};
  EXPECT_EQ(collect().at("profiled"), true);
}

TEST(Provenance, IsStrictJsonWhateverTheBytes) {
  const Variable broken{"CUDA_MAGE_TEST", "\xff\xfe latin \xe4"};
  const auto provenance = collect({"mage_bench", "\xc3\x28",
                                   "gr\xc3\xb6\xc3\x9f"
                                   "e"});
  const auto text = provenance.dump();  // strict: throws on invalid UTF-8
  EXPECT_EQ(Json::parse(text), provenance);
  EXPECT_EQ(provenance.at("argv").at(2),
            "gr\xc3\xb6\xc3\x9f"
            "e");
}

TEST(Provenance, OneFlippedByteOfTheProgramChangesItsHash) {
  const auto copy = std::filesystem::temp_directory_path() / ("mage_program_" + std::to_string(getpid()));
  std::filesystem::copy_file("/proc/self/exe", copy, std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(collect().at("executable_sha256"), sha256_file(copy));
  std::fstream file{copy, std::ios::in | std::ios::out | std::ios::binary};
  const auto middle = static_cast<std::streamoff>(std::filesystem::file_size(copy) / 2);
  const auto byte = static_cast<char>(file.seekg(middle).get() ^ 1);
  file.seekp(middle).put(byte);
  file.close();
  EXPECT_NE(collect().at("executable_sha256"), sha256_file(copy));
  std::filesystem::remove(copy);
}

TEST(RunId, Is128RandomBitsInHex) {
  std::set<std::string> ids;
  for (int i = 0; i < 1000; ++i) ids.insert(make_run_id());
  EXPECT_EQ(ids.size(), 1000U);
  for (const auto& id : ids) EXPECT_EQ(shape_of(id), std::string(32, 'x')) << id;
}

TEST(UtcNow, IsTheSystemsTimeInIso8601) {
  const auto before = output_of("date -u +%Y-%m-%dT%H:%M:%SZ");
  const auto now = utc_now() + "\n";
  const auto after = output_of("date -u +%Y-%m-%dT%H:%M:%SZ");
  EXPECT_EQ(shape_of(now), "xxxx-xx-xxTxx:xx:xxZ\n") << now;
  if (before.empty()) GTEST_SKIP() << "there is no date command to compare with";
  EXPECT_LE(before, now);
  EXPECT_LE(now, after);
}

TEST(RefuseEnvironment, RefusesBlockingLaunchesOnly) {
  for (const char* harmless : {static_cast<const char*>(nullptr), "0", ""}) {
    const Variable variable{"CUDA_LAUNCH_BLOCKING", harmless};
    EXPECT_EQ(refuse_environment(), std::nullopt);
  }
  const Variable variable{"CUDA_LAUNCH_BLOCKING", "1"};
  ASSERT_TRUE(refuse_environment());
  EXPECT_NE(refuse_environment()->find("unset"), std::string::npos);
}

}  // namespace
}  // namespace mage
