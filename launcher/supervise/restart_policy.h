// What to do when the workers of a generation are gone: pure, tested by table.
//
// Exit codes of a worker (the launcher uses the same, DESIGN 9):
//   0 done · 64 user error: never retried · 69 a peer, store or service is unavailable: explained by another rank's failure
//   if there is one, else a failure itself · 75 preempted after a checkpoint · 93 do not requeue: never retried ·
//   anything else, or death by a signal: a failure.
// The first failure by time is the cause; exits with 69 beside it, and of workers that we ended, are collateral.
//
// Two budgets of `max_restarts` each, so that a model that needs three tries to load does not use up the restarts of the
// training: a generation in which no rank began to train costs one of the start-up budget, any other one of the run's.
// Beginning to train refills the start-up budget, steps beyond the furthest so far refill the run's. When one is spent the
// launcher ends with 93, or, when there was none (max_restarts 0), with the first failure's own code.
// The same error that only a user can mend (user_error.h), twice with the same words and no progress between: 93 at once.
// So is an error that a worker has reported, with the same words at the same step: the step would fail again.
//
// A failure that only the world outside can mend is a stall: it costs nothing and is tried again for as long as it takes,
// never 64 or 93. Stalls are a full or failing disk (outside_fault.h), and a user error in a world of another size than the
// run has trained on, which waits for its nodes to come back.
//
// The first restart is immediate; without progress each further one waits twice as long as the one before (RestartDelay).
//
// A checkpointed stop (75) ends the job, unless it was another node that had to stop and the world may do without it: the
// nodes that are left then go on, at no cost.
//
// A world that ends in order to grow costs nothing, whether its workers checkpointed or were ended.
//
// A budget is the job's, not the node's: the launcher with the first cause decides and its verdict travels with the end of
// the generation; the others take it over, so that all count the same (launcher/verdict_message.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "contract/exit_code.h"
#include "launcher/workers/worker_exit.h"

namespace composer {

// Restarts so far.
struct RestartTally {
  int spent = 0;           // of the run's budget, since the last progress
  int start_spent = 0;     // of the start-up budget, since the last generation that trained
  int restarts = 0;        // since the launch
  int stalls = 0;          // in a row, without progress between
  int trained_world = 0;   // ranks of the last generation that trained; 0: none has
  std::string user_error;  // that the last generation ended with, or the error it reported; empty: it did not
};

// How long to wait before the restart that a verdict with this tally decides: 0, 1, 2, 4, … 60 s. All nodes of a job have
// the same tally, so they wait as long.
absl::Duration RestartDelay(const RestartTally& tally);

struct RestartBudget {
  int max_restarts = 0;
  RestartTally tally;
};

enum class NextStep { kDone, kRestart, kGiveUp, kPreempted };

struct Verdict {
  NextStep next;
  int exit_code = 0;     // of the launcher; unused for kRestart
  int first_cause = -1;  // index into exits; -1: no failure on this node
  RestartTally tally;    // the new one
  std::string reason;    // what happened: "rank 1 was killed by SIGKILL (9)"
  std::string decision;  // what follows, when that is not plain: "restart 1 of 3"
  std::string room;      // a stall for want of room on this node: where there must be some; "": not so
  bool stopped = false;  // because we were asked to stop
};

// The end of a generation as another node, or the rendezvous, told it.
struct RemoteEnd {
  std::string cause;               // for people, with its node
  bool collateral = false;         // it may yet be explained by a failure of ours
  std::optional<Verdict> verdict;  // of the launcher with the cause; none: a lost node, each launcher decides the same
};

struct GenerationResult {
  std::vector<WorkerExit> exits;    // of this node, in the order they were seen
  std::optional<RemoteEnd> remote;  // another node's failure that ended the generation
  std::string resizing;             // why the workers were asked to end, for the world to grow; empty: they were not
  int stop_signal = 0;              // the launcher was asked to stop by this signal; 0: it was not
  bool checkpoints_on_stop =
      false;                // workers answer a stop with a checkpoint and 75 (our own workers do, scripts do not)
  bool may_shrink = false;  // the world may be formed again with fewer nodes than it had
  bool killed = false;      // a second signal: everything was ended at once
  int world_size = 0;       // ranks of the generation; 0: there was none
  bool trained = true;      // a rank began to train; true for programs, of which we do not know
  bool progress = false;    // optimizer steps beyond the furthest of earlier generations
};

Verdict DecideNextStep(const GenerationResult& result, const RestartBudget& budget);

}  // namespace composer
