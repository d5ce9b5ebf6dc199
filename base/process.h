// How a process is started with its own streams, and how it ended, as a value.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/env.h"

namespace composer {

struct ExitStatus {
  int code = 0;    // exit code 0..255; 0 when a signal ended it
  int signal = 0;  // 0: it exited by itself

  // Converts the status that waitpid gives.
  static ExitStatus FromWait(int wait_status);

  bool ok() const { return code == 0 && signal == 0; }
  // Returns what a shell would return: the code, or 128 + signal.
  int ShellCode() const { return signal != 0 ? 128 + signal : code; }
  // Returns "exited with 3", "was killed by SIGKILL (9)".
  std::string ToString() const;
};

// Starts a program with these descriptors as its standard streams, this environment and no signal blocked or ignored.
struct ProgramStart {
  std::vector<std::string> argv;  // the first is a path
  int in = -1;                    // -1: /dev/null
  int out = -1, err = -1;
  bool searches_path = false;  // argv[0] may also be a name that PATH finds
  bool own_group = false;      // a signal to the group of this process does not reach it
};
// Sets the pid, and returns 0 or an error number.
int StartProgram(const ProgramStart& start, const Environment& environment, pid_t* pid);

// Returns "SIGKILL"; "signal 77" when the signal has no name.
std::string SignalName(int signal);

}  // namespace composer
