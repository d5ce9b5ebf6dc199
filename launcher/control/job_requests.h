// What `composer save`, `drain` and `stop` ask of a running job, and the sentences about it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "launcher/control/control_client.h"
#include "launcher/control/run_file.h"

namespace composer {

enum class JobChange { kSave, kDrain, kStop };

struct AskedJob {
  std::string name;        // "mnist (pid 42)"
  std::string said;        // what happens now, one line
  std::string run_folder;  // "" for programs
  int64_t step = 0;        // when it was asked
};

// kInvalidArgument: a program cannot save. kUnavailable: nobody is there to do it, or the launcher does not answer.
absl::StatusOr<AskedJob> AskJob(ControlClient& client, JobChange change);

// Returns when it is done, with one line that says how. `run`: of this machine, else not set. kUnavailable: a job that was
// to save has ended before.
absl::StatusOr<std::string> WaitForJob(ControlClient& client, const std::optional<RunFile>& run, const AskedJob& asked,
                                       JobChange change);

}  // namespace composer
