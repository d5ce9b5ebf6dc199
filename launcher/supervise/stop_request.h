// Decides what a request to stop means, given those before it. Pure.
//
// - SIGUSR1 and SIGUSR2 (Slurm's --signal) and preemption notices are polite: our workers checkpoint and stop, and what
//   the same scheduler sends next (SIGTERM at the time limit) must not cut that short.
// - SIGTERM, SIGINT and SIGHUP ask for the same, but the second SIGTERM or SIGINT kills at once. SIGTERM counts once a
//   second, because at the time limit Slurm sends it two or three times within 20 ms (seen on 22.05).
// - Programs that do not know our checkpoints get the signals passed on; SIGUSR1 and SIGUSR2 mean nothing else there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/time/time.h"

namespace composer {

struct StopHistory {
  bool stopping = false;                 // a request is being followed
  int signal = 0;                        // the last SIGTERM, SIGINT or SIGHUP; 0 if none
  absl::Time at = absl::InfinitePast();  // when `signal` arrived
};

enum class StopAction {
  kIgnore,  // the request is already being followed
  kDrain,   // checkpoint and leave
  kPassOn,  // pass the signal on to the programs
  kKill,    // kill at once
};

struct StopDecision {
  StopAction action;
  StopHistory history;  // the new history
};

inline constexpr int kNoticeSignal = 0;  // stands for a preemption notice instead of a signal

// `listens` means that the workers checkpoint when asked to stop. For programs that do not, a notice counts as a
// SIGTERM.
StopDecision DecideStop(const StopHistory& history, int signal, bool listens, absl::Time now);

}  // namespace composer
