// How one worker ended and what is known of why. Filled by the group, for the restart policy and the failure message.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
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
  std::string hang;          // why we judged it hung, else empty. A hung worker is a cause although we killed it
  std::string lost;          // if it died with the process that had started it, how that one ended; else empty
  std::string kill;          // who killed it, as far as the host reports it (KillVerdict); else empty
  bool after_news = false;   // it had been told to leave and ended long enough after that, so it is not a cause
  std::string last_line;     // its ExitReport's message, else the last line of its stderr; may be empty
  std::string error;         // the error that it reported, with its step: "step 17: index out of range"; empty if none
};

// Returns WorkerExit::error for a worker's report. Only the first line of the message is kept, for comparison.
std::string ReportedError(int64_t step, absl::string_view message);

// Returns where a reported error happened: "at step 17", or "in the program" for one without a step.
std::string PlaceOfError(absl::string_view error);

// Returns whether no worker died by a signal and each exited with one of the codes; true when there is none.
bool AllEndedWith(absl::Span<const WorkerExit> exits, std::initializer_list<int> codes);

// Returns the index of the first failure among the exits so far; -1 if there is none. Sets `certain` (may be null) to
// false when a later exit could still explain the failure, as with 69.
int FirstCause(absl::Span<const WorkerExit> exits, bool* certain);

// Returns the role of one of the exits, for the log and the summary: "first cause", "collateral: its peers were gone
// (69)", "collateral: ended by the launcher", "done", "preempted". `first_cause` is as in Verdict.
std::string RoleOf(absl::Span<const WorkerExit> exits, int index, int first_cause);

// Returns a text such as "was killed by SIGKILL (9)", "hung: no step for 21s" or "was lost: …".
std::string HowItEnded(const WorkerExit& exit);

// Returns a text such as "rank 1 was killed by SIGKILL (9): out of memory …", "rank 0 hung: no step for 21s" or "rank 2
// exited with 1: KeyError: 'lr'".
std::string DescribeExit(const WorkerExit& exit);

}  // namespace composer
