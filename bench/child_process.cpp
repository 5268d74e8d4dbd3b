// SPDX-License-Identifier: Apache-2.0
#include "bench/child_process.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <thread>

namespace mage {
namespace {

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  list.reserve(texts.size() + 1);
  for (auto& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

std::vector<std::string> environment_with(const std::map<std::string, std::string>& variables) {
  std::vector<std::string> texts;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text{*entry};
    const std::string name{text.substr(0, text.find('='))};
    if (!name.starts_with("BENCHMARK_") && !variables.contains(name)) texts.emplace_back(text);
  }
  for (const auto& [name, value] : variables) texts.push_back(name + "=" + value);
  return texts;
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  // Not temp_directory_path(), whose errors name neither the variable nor the path.
  const char* folder = std::getenv("TMPDIR");
  auto pattern = std::string{folder == nullptr || *folder == '\0' ? "/tmp" : folder} + "/mage_bench_XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr)
    throw std::runtime_error{"cannot create a folder " + pattern + ": " + std::strerror(errno) +
                             "; set TMPDIR to a folder that can be written"};
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;  // a destructor can report nothing
  std::filesystem::remove_all(path_, ignored);
}

ChildProcess::ChildProcess(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                           const std::filesystem::path& log, const std::map<std::string, std::string>& variables,
                           const std::filesystem::path& errors) {
  std::vector<std::string> words{"mage_bench"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  auto environment = environment_with(variables);
  // Between fork and exec a process with threads may do next to nothing; posix_spawn does only that.
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  constexpr int append = O_WRONLY | O_CREAT | O_APPEND;
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), append, 0644);
  if (errors.empty())
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  else
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, errors.c_str(), append, 0644);
  const int error = ::posix_spawn(&process_, program.c_str(), &actions, nullptr, pointers(words).data(),
                                  pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error{"cannot start " + program.string() + " again: " + std::strerror(error)};
}

ChildProcess::~ChildProcess() {
  if (!reaped_) kill();
}

bool ChildProcess::has_ended() {
  if (reaped_) return true;
  pid_t waited = -1;
  do waited = ::waitpid(process_, &status_, WNOHANG);
  while (waited < 0 && errno == EINTR);
  // Somebody else who waits for all children may have had it; then nobody knows how it ended.
  if (waited < 0) status_ = -1;
  reaped_ = waited != 0;
  return reaped_;
}

bool ChildProcess::wait_until(const std::function<bool()>& condition, double limit_s) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>{limit_s};
  while (!condition()) {
    if (has_ended() || std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds{2});
  }
  return true;
}

int ChildProcess::wait(double limit_s) {
  static_cast<void>(wait_until([this] { return has_ended(); }, limit_s));
  if (!reaped_) kill();
  if (status_ == -1) throw std::runtime_error{"a process that was started was waited for by somebody else"};
  return WIFSIGNALED(status_) ? -WTERMSIG(status_) : WEXITSTATUS(status_);
}

void ChildProcess::kill() {
  if (has_ended()) return;
  static_cast<void>(::kill(process_, SIGKILL));
  while (!has_ended()) std::this_thread::sleep_for(std::chrono::milliseconds{1});
}

}  // namespace mage
