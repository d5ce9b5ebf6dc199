// How `composer status` and its siblings find this user's jobs on this machine: each launcher keeps a small file in one
// folder while it lives, COMPOSER_RUNTIME_DIR or /tmp/composer-<uid> (used only if it is ours with mode 0700). The
// process's start time tells files left by a SIGKILL from live ones; the next command that looks removes them.
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
  uint64_t pid_start = 0;     // its start in clock ticks since boot, because pids are reused
  std::string socket;         // of its control service
  int64_t started = 0;        // Unix seconds
  std::string pid_namespace;  // the namespace of the pid, because containers may share the folder; "" if unknown

  friend bool operator==(const RunFile&, const RunFile&) = default;
};

std::string RunFileJson(const RunFile& run);
// Parses hostile input: returns kInvalidArgument for anything but what RunFileJson writes.
absl::StatusOr<RunFile> ParseRunFile(absl::string_view text);

// Returns a process's start in clock ticks since boot, from the text of /proc/<pid>/stat; 0 if there is none.
uint64_t StartOf(absl::string_view proc_stat);
bool IsAlive(const RunFile& run);

// Creates the folder. Returns kPermissionDenied if it belongs to another user or is open to others.
absl::StatusOr<std::string> RegistryFolder(const Environment& environment);

// Returns the live launchers, oldest first, and removes the files of dead ones. Those in another pid namespace cannot
// be judged, so they are neither listed nor removed.
std::vector<RunFile> ListRuns(const std::string& registry);

// Pure. `wanted` is a run name, a job's name, a pid, or a run folder (any path to it); "" means the only one there is.
// Of several launchers of one run, returns the oldest. Returns kNotFound, naming what runs and the nearest name, or
// kInvalidArgument if several match.
absl::StatusOr<RunFile> FindRun(const std::vector<RunFile>& runs, absl::string_view wanted);

// Pure. For commands that change a job and so never guess which: returns the launchers of the run that `wanted` names,
// or with `all` those of all jobs. Returns kInvalidArgument, naming what runs, if neither or both are given; other
// errors as FindRun.
absl::StatusOr<std::vector<RunFile>> ChooseRuns(const std::vector<RunFile>& runs, absl::string_view wanted, bool all);

// This process's entry, removed by the destructor.
class RegisteredRun {
 public:
  // Fills in pid and pid_start.
  static absl::StatusOr<std::unique_ptr<RegisteredRun>> Make(const std::string& registry, RunFile run);
  ~RegisteredRun();
  RegisteredRun(const RegisteredRun&) = delete;
  RegisteredRun& operator=(const RegisteredRun&) = delete;

 private:
  explicit RegisteredRun(std::string path) : path_(std::move(path)) {}
  const std::string path_;
};

}  // namespace composer
