// What to start: program, environment, folder and CPUs. It travels from the launcher to the spawner as bytes in a
// memfd.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

struct ProcessSpec {
  std::vector<std::string> argv;         // argv[0] is the path that is executed; PATH is not searched
  std::vector<std::string> environment;  // "NAME=value"
  std::string folder;                    // working directory; "" means the spawner's
  std::vector<int> cpus;                 // CPUs to run on; empty means any
  bool blocks_signals = false;           // SIGTERM, SIGINT, SIGHUP, SIGUSR1 and SIGUSR2 are ignored from the start
  bool keeps_session = false;            // stays in the session of the caller, so that Ctrl-C reaches it, too
};

// Strings must not contain a NUL byte. Decode returns kInvalidArgument for anything that Encode did not produce.
inline constexpr size_t kMaxProcessSpecBytes = 8 << 20;
std::string EncodeProcessSpec(const ProcessSpec& spec);
absl::StatusOr<ProcessSpec> DecodeProcessSpec(absl::string_view bytes);

// Starts the process in a session of its own, with the given stdout and stderr, stdin from /dev/null and no signal
// blocked. When the calling thread ends it gets SIGKILL, or SIGTERM if it keeps the caller's session. Returns the pid,
// or kNotFound / kPermissionDenied / … naming the path when exec fails. Uses vfork, which is fast however large the
// caller is; the caller must have a single thread.
absl::StatusOr<pid_t> SpawnProcess(const ProcessSpec& spec, int stdout_fd, int stderr_fd);

}  // namespace composer
