// SPDX-License-Identifier: Apache-2.0
#include "base/process.h"

#include <string.h>
#include <sys/wait.h>

#include "absl/strings/str_cat.h"

namespace composer {

ExitStatus ExitStatus::FromWait(int wait_status) {
  ExitStatus result;
  if (WIFSIGNALED(wait_status)) {
    result.signal = WTERMSIG(wait_status);
  } else {
    result.code = WEXITSTATUS(wait_status);
  }
  return result;
}

std::string ExitStatus::ToString() const {
  if (signal != 0) return absl::StrCat("was killed by ", SignalName(signal), " (", signal, ")");
  return absl::StrCat("exited with ", code);
}

std::string SignalName(int signal) {
  const char* name = sigabbrev_np(signal);
  return name != nullptr ? absl::StrCat("SIG", name) : absl::StrCat("signal ", signal);
}

}  // namespace composer
