// How one worker ended, and what is known of why: what the group saw, for the restart policy and the failure message.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/process.h"
#include "contract/exit_code.h"

namespace composer {

struct WorkerExit {
  int rank = 0;
  ExitStatus status;
  bool ended_by_us = false;  // we had sent it a signal before
  std::string hang;         // why we took it for hung; empty: we did not. A hung worker is a cause although we ended it
  std::string lost;         // it ended with the process that had started it: how that one ended; empty: it did not
  std::string kill;         // who killed it, as far as the host tells (KillVerdict); empty: nothing to say
  bool after_news = false;  // it had been told to leave, and ended long enough after that: not a cause
  std::string last_line;    // its last word, else the last line of its stderr; empty: it said nothing
  std::string error;        // the error that it reported, with its step: "step 17: index out of range"; empty: none
};

// WorkerExit::error of what a worker reported: its first line is compared.
std::string ReportedError(int64_t step, absl::string_view message);

// The step of a reported error, "at step 17"; of one without a step, "in the program".
std::string PlaceOfError(absl::string_view error);

// Index of the first failure among exits so far, -1 when there is none. `certain` (may be null): false when a later exit
// could still explain it, as with 69.
int FirstCause(absl::Span<const WorkerExit> exits, bool* certain);

// What each of the exits was, for the log and the summary: "first cause", "collateral: its peers were gone (69)",
// "collateral: ended by the launcher", "done", "preempted". `first_cause` as in Verdict.
std::string RoleOf(absl::Span<const WorkerExit> exits, int index, int first_cause);

// "was killed by SIGKILL (9)", "hung: no step for 21s", "was lost: …".
std::string HowItEnded(const WorkerExit& exit);

// "rank 1 was killed by SIGKILL (9): out of memory …", "rank 0 hung: no step for 21s", "rank 2 exited with 1: KeyError: 'lr'".
std::string DescribeExit(const WorkerExit& exit);

}  // namespace composer
