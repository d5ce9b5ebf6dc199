// How `composer status` and its kin find the jobs of this user on this machine: each launcher keeps a small file in one
// folder, COMPOSER_RUNTIME_DIR or /tmp/composer-<uid> (mode 0700, ours, else it is not used), for as long as it lives.
// What a SIGKILL leaves behind is told from the living by the process's start time, and removed by the next who looks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/env.h"

namespace composer {

struct RunFile {
  std::string job;            // the name at the rendezvous
  std::string run_folder;     // absolute; "" for programs
  int64_t pid = 0;            // of the launcher
  uint64_t pid_start = 0;     // when it began, in clock ticks since boot; a pid may be used again
  std::string socket;         // of its control service
  int64_t started = 0;        // Unix seconds
  std::string pid_namespace;  // that the pid counts in: containers may share the folder; "": not said

  friend bool operator==(const RunFile&, const RunFile&) = default;
};

std::string RunFileJson(const RunFile& run);
// Hostile input: kInvalidArgument on anything but what RunFileJson writes.
absl::StatusOr<RunFile> ParseRunFile(absl::string_view text);

// Start of a process, in clock ticks since boot; 0: there is none. The text is /proc/<pid>/stat's.
uint64_t StartOf(absl::string_view proc_stat);
bool IsAlive(const RunFile& run);

// Makes the folder. kPermissionDenied: it is somebody else's, or open to others.
absl::StatusOr<std::string> RegistryFolder(const Environment& environment);

// The living, oldest first; files of the dead are removed. Of those in another process namespace nothing can be said: they
// are neither listed nor removed.
std::vector<RunFile> ListRuns(const std::string& registry);

// Pure. `wanted`: a run name, a job's name, a pid, or a run folder (any path to it); "": the only one there is. Of several
// launchers of one run the oldest. kNotFound, with what runs and the nearest name; kInvalidArgument: several match.
absl::StatusOr<RunFile> FindRun(const std::vector<RunFile>& runs, absl::string_view wanted);

// Pure. For commands that change a job, and so never guess which: the launchers of the run that `wanted` names, or all of
// all jobs. kInvalidArgument, with what runs: neither is given, or both. Else as FindRun.
absl::StatusOr<std::vector<RunFile>> ChooseRuns(const std::vector<RunFile>& runs, absl::string_view wanted, bool all);

// This process's entry; removed at the end.
class RegisteredRun {
 public:
  // Fills pid and pid_start.
  static absl::StatusOr<std::unique_ptr<RegisteredRun>> Make(const std::string& registry, RunFile run);
  ~RegisteredRun();
  RegisteredRun(const RegisteredRun&) = delete;
  RegisteredRun& operator=(const RegisteredRun&) = delete;

 private:
  explicit RegisteredRun(std::string path) : path_(std::move(path)) {}
  const std::string path_;
};

}  // namespace composer
