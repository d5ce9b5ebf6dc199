// The life of a job on this node as a pure state machine: an event, what is known of the workers and the time go in;
// the actions to be taken come out, in order. It has no clock, lock, socket or process; the Supervisor carries the
// actions out.
//
//   kJoining --WorldJoined--> kRunning --first failure--> kEnding --all gone--> decide: kJoining again, or kFinished
//                                      --all gone-------------------------------^
// In a world of several nodes a job that is done is kDone until all nodes are (ExitBarrier).
//
// In a world of several nodes the launcher with the first cause decides for all of them, and its verdict comes with the
// end of the generation. An exit with 69 is not a cause as long as another node may still explain it: the decision then
// waits for kExplainWait.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "launcher/supervise/job_events.h"
#include "launcher/supervise/restart_policy.h"
#include "launcher/supervise/stop_request.h"

namespace composer {

// A value: copying it copies the state.
class JobState {
 public:
  enum class Phase { kJoining, kRunning, kEnding, kDone, kFinished };

  struct Options {
    bool job = true;  // a YAML job, whose workers checkpoint when they are asked to stop
    int max_restarts = 0;
    int min_nodes = 1;
    std::string run_folder;
  };

  static constexpr absl::Duration kSignalLimit = absl::Seconds(30);  // for programs that only know signals
  static constexpr absl::Duration kStartLimit = absl::Seconds(10);   // for workers that start: there is nothing to save
  static constexpr absl::Duration kLeaveLimit = absl::Milliseconds(300);    // for workers that were asked to leave
  static constexpr absl::Duration kExplainWait = absl::Milliseconds(3200);  // a silent node is noticed sooner
  static constexpr absl::Duration kRoomPatience = absl::Seconds(60);
  static constexpr absl::Duration kRoomLook = absl::Seconds(1);
  static constexpr absl::Duration kQuickDeath = absl::Seconds(1);  // of a spawner
  static constexpr int kMaxQuickDeaths = 5;

  explicit JobState(Options options);

  // Returns what is to be done, in this order. After Finish no event has any effect.
  std::vector<JobAction> On(const JobEvent& event, const WorkerFacts& facts, absl::Time now);
  // When TimePassed is due; InfiniteFuture when nothing waits.
  absl::Time NextWake() const;

  Phase phase() const { return phase_; }
  uint64_t generation() const { return generation_; }
  int nodes() const { return nodes_; }
  int exit_code() const { return exit_code_; }
  const RestartTally& tally() const { return budget_.tally; }
  bool stalled() const { return !stalled_by_.empty(); }  // the stall was reported, and need not be again

 private:
  struct Step;  // one call of On

  GenerationResult Result(const WorkerFacts& facts) const;
  bool MayBeExplained(const WorkerFacts& facts) const;

  Options options_;
  RestartBudget budget_;
  Phase phase_ = Phase::kJoining;
  int exit_code_ = 0;
  uint64_t generation_ = 0;
  int nodes_ = 1;
  int world_size_ = 0;
  bool announced_ = false;  // the generation's first cause was reported
  bool all_done_ = false;   // on every node
  int reported_ = -1;       // index of the exit that the other nodes heard of; -1: none
  std::optional<RemoteEnd> remote_;
  // The end of a world that has not been handled yet: the two come from different threads.
  std::optional<job_event::GenerationOver> early_over_;
  std::string resize_reason_;  // why the workers were asked to stop so that the world can form again; "": they were not
  bool resizes_at_once_ = false;  // without a checkpoint
  StopHistory stop_;
  int stop_signal_ = 0;  // what is being followed; SIGTERM for a notice
  bool killed_ = false;
  absl::Time kill_at_ = absl::InfiniteFuture();
  absl::Time start_kill_at_ = absl::InfiniteFuture();  // workers that are asked to stop and still start are killed
  absl::Time explain_until_ = absl::InfiniteFuture();  // all are gone, the decision waits, or the end of a stopped node
  absl::Time join_at_ = absl::InfiniteFuture();        // the pause before a restart is over
  std::string room_;                                   // the restart waits for room there; "": it does not
  absl::Time room_until_ = absl::InfinitePast();       // for so long
  std::string stalled_by_;                             // the stall that was reported; "": none
  bool checkpointed_ = false;                          // how the last generation ended here, see Join
  std::string spawner_loss_;                           // how the spawner that is being restarted was lost
  int quick_deaths_ = 0;                               // of spawners, one right after the other
  absl::Time spawner_since_ = absl::InfinitePast();
};

}  // namespace composer
