// What `composer save`, `profile`, `stacks`, `drain` and `stop` request from a running job, and the messages about it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "launcher/control/control_client.h"
#include "launcher/control/run_file.h"

namespace composer {

enum class JobChange { kSave, kProfile, kStacks, kDrain, kStop };

struct AskedJob {
  std::string name;        // "mnist (pid 42)"
  std::string said;        // what happens now, in one line
  std::string run_folder;  // "" for programs
  int64_t step = 0;        // when the request was made
};

// Sends the request. Returns kInvalidArgument for a program, which only knows kDrain and kStop, and kUnavailable if no
// worker can do it or the launcher does not answer.
absl::StatusOr<AskedJob> AskJob(ControlClient& client, JobChange change);

// Blocks until a save, a drain or a stop is done; returns one line that says how. `run` is unset for a job of another
// machine. Returns kUnavailable if a job that was to save has ended first.
absl::StatusOr<std::string> WaitForJob(ControlClient& client, const std::optional<RunFile>& run, const AskedJob& asked,
                                       JobChange change);

}  // namespace composer
