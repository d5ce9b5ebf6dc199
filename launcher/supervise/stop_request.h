// What a request to stop means, given those before it. Pure.
//
// - SIGUSR1 and SIGUSR2 (Slurm's --signal) and preemption notices are polite: our workers checkpoint and stop, and what
//   follows from the same scheduler (SIGTERM when the time is up) must not cut that short.
// - SIGTERM, SIGINT and SIGHUP ask for the same; the second SIGTERM or SIGINT kills at once. SIGTERM is counted once a
//   second: at the time limit Slurm sends it two or three times within 20 ms (seen on 22.05).
// - Programs that know no checkpoints of ours get the signals passed on, SIGUSR1 and SIGUSR2 without any other meaning.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/time/time.h"

namespace composer {

struct StopHistory {
  bool stopping = false;                 // some request is being followed
  int signal = 0;                        // the last SIGTERM, SIGINT or SIGHUP; 0: none
  absl::Time at = absl::InfinitePast();  // of `signal`
};

enum class StopAction {
  kIgnore,  // is being followed already
  kDrain,   // checkpoint and leave
  kPassOn,  // hand the signal to the programs
  kKill,    // at once
};

struct StopDecision {
  StopAction action;
  StopHistory history;  // the new one
};

inline constexpr int kNoticeSignal = 0;  // a preemption notice instead of a signal

// `listens`: the workers checkpoint when they are told to stop. A notice to programs that do not counts as a SIGTERM.
StopDecision DecideStop(const StopHistory& history, int signal, bool listens, absl::Time now);

}  // namespace composer
