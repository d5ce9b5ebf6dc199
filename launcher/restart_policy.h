// What to do when the workers of a generation are gone: pure, tested by table.
//
// Exit codes of a worker (the launcher uses the same, DESIGN 9):
//   0 done · 64 user error: never retried · 69 a peer, store or service is unavailable: explained by another rank's failure
//   if there is one, else a failure itself · 75 preempted after a checkpoint · 93 do not requeue: never retried ·
//   anything else, or death by a signal: a failure.
// The first failure by time is the cause; exits with 69 beside it, and of workers that we ended, are collateral.
// Each restart costs one of `max_restarts`; steps gained since the last restart refill the budget. When it is spent the
// launcher ends with 93, or, when there was none (max_restarts 0), with the first failure's own code.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/exit_code.h"
#include "base/process.h"

namespace composer {

struct WorkerExit {
  int rank = 0;
  ExitStatus status;
  bool ended_by_us = false;  // we had sent it a signal before
  std::string hang;  // why we took it for hung; empty: we did not. A hung worker is a cause although we ended it
};

struct GenerationResult {
  std::vector<WorkerExit> exits;  // of this node, in the order they were seen
  std::string remote_cause;       // another node's failure that ended the generation; empty: none
  int stop_signal = 0;            // the launcher was asked to stop by this signal; 0: it was not
  bool checkpoints_on_stop =
      false;              // workers answer a stop with a checkpoint and 75 (our own workers do, scripts do not)
  bool killed = false;    // a second signal: everything was ended at once
  bool progress = false;  // optimizer steps beyond the furthest of earlier generations
};

struct RestartBudget {
  int max_restarts = 0;
  int spent = 0;  // restarts since the last progress
};

enum class NextStep { kDone, kRestart, kGiveUp, kPreempted };

struct Verdict {
  NextStep next;
  int exit_code = 0;     // of the launcher; unused for kRestart
  int first_cause = -1;  // index into exits; -1: no failure on this node
  int spent = 0;         // the budget's new `spent`
  std::string reason;    // what happened: "rank 1 was killed by SIGKILL (9)"
  std::string decision;  // what follows, when that is not plain: "restart 1 of 3"
};

Verdict DecideNextStep(const GenerationResult& result, const RestartBudget& budget);

// Index of the first failure among exits so far, -1 when there is none. `certain` (may be null): false when a later exit
// could still explain it, as with 69.
int FirstCause(const std::vector<WorkerExit>& exits, bool* certain);

// "rank 1 was killed by SIGKILL (9)", "rank 0 hung: no step for 21s".
std::string DescribeExit(const WorkerExit& exit);

}  // namespace composer
