// SPDX-License-Identifier: Apache-2.0
// A second process, for what could end a program or never come back.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace mage {

/// An empty folder that goes with this object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// One running program. Ends it, where that has not happened, when it goes.
class ChildProcess {
 public:
  /// What it prints goes to the end of `log`, and to that of `errors` what it prints on stderr: empty for the same
  /// file. `variables` are added to the environment, from which BENCHMARK_* are removed. Throws std::runtime_error
  /// where it cannot be started.
  ChildProcess(const std::filesystem::path& program, const std::vector<std::string>& arguments,
               const std::filesystem::path& log, const std::map<std::string, std::string>& variables = {},
               const std::filesystem::path& errors = {});
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// Waits until `condition` holds; false where the program ended or `limit_s` passed before.
  [[nodiscard]] bool wait_until(const std::function<bool()>& condition, double limit_s);
  /// Its exit code, or minus the number of the signal that ended it. Kills it where `limit_s` pass: then -9.
  [[nodiscard]] int wait(double limit_s = 60);
  [[nodiscard]] bool has_ended();
  /// SIGKILL: it gets no chance to do anything.
  void kill();

 private:
  pid_t process_ = -1;
  bool reaped_ = false;
  int status_ = 0;
};

}  // namespace mage
