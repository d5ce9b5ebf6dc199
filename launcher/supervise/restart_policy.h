// Decides what to do when the workers of a generation are gone. Pure; tested by table.
//
// Exit codes of a worker (the launcher uses the same, contract/exit_code.h):
//   0     done
//   64    user error: never retried
//   69    a peer, store or service is unavailable: explained by another rank's failure if there is one, else a failure
//   75    preempted after a checkpoint
//   93    do not requeue: never retried
//   Anything else, and death by a signal, is a failure.
// The first failure by time is the cause; exits with 69 beside it, and exits of workers that we killed, are collateral.
//
// There are two budgets of `max_restarts` each, so that a model that needs three tries to load does not use up the
// restarts of the training: a generation in which no rank began to train is charged to the start-up budget, any other
// one to the run's. Beginning to train refills the start-up budget; steps beyond the furthest so far refill the run's.
// When a budget is spent the launcher exits with 93 or, when there was none (max_restarts 0), with the first failure's
// own code. An error that only a user can fix (user_error.h), twice with the same text and without progress in between,
// ends the job with 93 at once. So does an error that a worker has reported, with the same text at the same step,
// because that step would fail again.
//
// A failure that only the outside world can fix is a stall: it costs nothing and is retried for as long as it takes,
// never ending in 64 or 93. Stalls are a full or failing disk (outside_fault.h), and a user error in a world of another
// size than the run has trained on, which waits for its nodes to come back.
//
// The first restart is immediate; without progress, each further one waits twice as long as the one before
// (RestartDelay).
//
// A stop with a checkpoint (75) ends the job, unless it was another node that had to stop and the world may continue
// without it: the remaining nodes then go on, at no cost.
//
// A world that ends in order to grow costs nothing, whether its workers checkpointed or were killed. When they were
// killed, a node whose workers had come to the end follows the others into the next world all the same.
//
// A budget is the job's, not the node's: the launcher with the first cause decides, and its verdict travels with the
// end of the generation. The others adopt it, so that all count the same (launcher/supervise/failure_message.h).
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

// Counts the restarts so far.
struct RestartTally {
  int spent = 0;           // charged to the run's budget since the last progress
  int start_spent = 0;     // charged to the start-up budget since the last generation that trained
  int restarts = 0;        // since the launch
  int stalls = 0;          // in a row, without progress in between
  int trained_world = 0;   // ranks of the last generation that trained; 0 if none has
  std::string user_error;  // user error or reported error that ended the last generation; empty if none
};

// Returns how long to wait before the restart that a verdict with this tally orders: 0, 1, 2, 4, … 60 s. All nodes of a
// job have the same tally, so they wait equally long.
absl::Duration RestartDelay(const RestartTally& tally);

struct RestartBudget {
  int max_restarts = 0;
  RestartTally tally;
};

enum class NextStep { kDone, kRestart, kGiveUp, kPreempted };

struct Verdict {
  NextStep next;
  int exit_code = 0;     // of the launcher; unused for kRestart
  int first_cause = -1;  // index into exits; -1 if no worker of this node failed
  RestartTally tally;    // the new tally
  std::string reason;    // what happened: "rank 1 was killed by SIGKILL (9)"
  std::string decision;  // what follows, unless it is obvious: "restart 1 of 3"
  std::string room;      // in a stall for lack of disk space on this node, the path that needs it; else ""
  bool stopped = false;  // we were asked to stop
};

// The end of a generation as reported by another node or the rendezvous.
struct RemoteEnd {
  std::string cause;        // for people, naming its node
  bool collateral = false;  // a failure of ours may yet explain it
  // The verdict of the launcher with the cause; nullopt for a lost node, where each launcher decides the same.
  std::optional<Verdict> verdict;
};

struct GenerationResult {
  std::vector<WorkerExit> exits;    // of this node, in the order they were seen
  std::optional<RemoteEnd> remote;  // another node's failure that ended the generation
  // Why the workers were asked to end so that the world can grow; empty if they were not.
  std::string resizing;
  // No worker was asked to checkpoint first: those of other nodes were ended, although ours may have come to the end.
  bool resizes_at_once = false;
  int stop_signal = 0;  // the signal that asked the launcher to stop; 0 if none did
  // Whether workers answer a stop with a checkpoint and 75 (our own workers do, scripts do not).
  bool checkpoints_on_stop = false;
  bool may_shrink = false;  // the world may form again with fewer nodes than it had
  bool killed = false;      // a second signal arrived and everything was killed at once
  int world_size = 0;       // ranks of the generation; 0 if there was none
  bool trained = true;      // a rank began to train; true for programs, which do not report it
  bool progress = false;    // optimizer steps beyond the furthest of earlier generations
};

Verdict DecideNextStep(const GenerationResult& result, const RestartBudget& budget);

}  // namespace composer
