// SPDX-License-Identifier: Apache-2.0
#include "trainer/callbacks/fail_at.h"

#include <signal.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "trainer/core/state.h"

namespace composer {

absl::Status FailAt::Run(Event event, State& state, Logger& logger) {
  if (!options_.armed || state.rank != options_.rank || state.timestamp.batch != options_.batch) return absl::OkStatus();
  switch (options_.how) {
    case How::kKill:
      kill(getpid(), SIGKILL);
      break;
    case How::kAbort:
      kill(getpid(), SIGABRT);
      break;
    case How::kExit:
      _exit(70);
    case How::kThrow:
      return absl::InternalError(absl::StrCat("asked to fail on rank ", options_.rank, " after batch ", options_.batch));
    case How::kHang:
      break;
  }
  for (;;) pause();
}

}  // namespace composer
