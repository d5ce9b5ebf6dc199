// How a process ended, as a value.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

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

// Returns "SIGKILL"; "signal 77" when the signal has no name.
std::string SignalName(int signal);

}  // namespace composer
