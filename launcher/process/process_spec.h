// What to start: program, environment, folder, CPUs. Travels from the launcher to the spawner as bytes in a memory file.
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
  std::string folder;                    // working directory; "": the spawner's
  std::vector<int> cpus;                 // to run on; empty: any
  bool blocks_signals = false;           // SIGTERM, SIGINT, SIGHUP, SIGUSR1 and SIGUSR2 are ignored from the start
};

// Strings must not hold a NUL byte; Decode answers kInvalidArgument to anything that Encode did not make.
inline constexpr size_t kMaxProcessSpecBytes = 8 << 20;
std::string EncodeProcessSpec(const ProcessSpec& spec);
absl::StatusOr<ProcessSpec> DecodeProcessSpec(absl::string_view bytes);

// Starts it in a session of its own, with the given stdout and stderr, stdin from /dev/null and no signal blocked; it
// gets SIGKILL when the calling thread ends. Returns the pid, or kNotFound / kPermissionDenied / … naming the path when
// exec fails. Uses vfork: quick whatever the size of the caller, which must have a single thread.
absl::StatusOr<pid_t> SpawnProcess(const ProcessSpec& spec, int stdout_fd, int stderr_fd);

}  // namespace composer
