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
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "launcher/supervise/restart_policy.h"
#include "launcher/supervise/stop_request.h"

namespace composer {

// What is known of this node's workers when an event is handled. Between two generations these are the workers of the
// last one.
struct WorkerFacts {
  absl::Span<const WorkerExit> exits;  // in the order they were seen
  bool all_gone = true;
  bool all_attached = false;
  bool all_started = false;  // each has done its first step, or has ended
  bool trained = false;      // a rank began to train
  bool progress = false;     // optimizer steps beyond the furthest of earlier generations
};

namespace job_event {
struct WorldJoined {
  uint64_t generation = 0;
  int nodes = 1;
  int world_size = 1;
  RestartTally tally;  // of the job, as the rendezvous knows it
};
struct JoinFailed {
  absl::Status status;
};
struct StartFailed {  // The workers could not be started, and trying again would not help.
  absl::Status status;
};
struct WorkersChanged {};  // One has ended, or could not be started.
struct CheckpointSaved {};
struct GenerationOver {  // The rendezvous reports it; also a better cause than the one reported before.
  uint64_t generation = 0;
  RemoteEnd remote;
};
struct ResizeAsked {
  uint64_t generation = 0;
  std::string reason;
  bool checkpoint = false;
};
struct BarrierPassed {  // See ExitBarrier.
  uint64_t generation = 0;
  absl::Status status;
};
struct StopAsked {
  int signal = 0;  // or kNoticeSignal
  std::string reason;
};
struct KillAsked {  // As two SIGTERMs of a person who means it.
  std::string reason;
};
struct SpawnerLost {
  std::string how;              // for people
  bool leftovers_gone = false;  // its workers have ended with it
};
struct SpawnerRestarted {
  absl::Status status;
};
struct RoomLooked {  // The answer to LookForRoom.
  bool has_room = false;
};
struct TimePassed {};
}  // namespace job_event
using JobEvent =
    std::variant<job_event::WorldJoined, job_event::JoinFailed, job_event::StartFailed, job_event::WorkersChanged,
                 job_event::CheckpointSaved, job_event::GenerationOver, job_event::ResizeAsked,
                 job_event::BarrierPassed, job_event::StopAsked, job_event::KillAsked, job_event::SpawnerLost,
                 job_event::SpawnerRestarted, job_event::RoomLooked, job_event::TimePassed>;

namespace job_action {
struct Print {
  enum class To { kUser, kError, kLog };
  std::string text;
  To to = To::kUser;
};
struct Join {                 // Asks the rendezvous for a world, with tally().
  bool checkpointed = false;  // the workers saved a checkpoint and left, as those of other nodes may be about to
};
struct StartWorkers {};  // Those of the world that was just joined.
struct Drain {           // Workers that listen checkpoint and leave.
  std::string reason;
};
struct SendSignal {
  int signal = 0;
  bool only_unattached = false;
};
struct EndWorkers {  // The generation is over: workers that listen leave, what they say then is only logged.
  std::string cause;
};
struct MarkFailure {};  // The time of the failure is now.
struct ReportCause {    // Tells the other nodes.
  int exit = 0;         // index into WorkerFacts::exits
  bool certain = false;
  std::optional<Verdict> verdict;
};
struct Announce {  // Tells the user what happened to this worker.
  int exit = 0;
};
struct AmendCause {  // The generation before ended for this reason.
  std::string cause;
};
struct LoseWorkers {  // All have ended with the spawner.
  std::string how;
};
struct RestartSpawner {};   // SpawnerRestarted answers.
struct ArriveAtBarrier {};  // This node is done; BarrierPassed answers.
struct CloseGeneration {};  // Its records end here.
struct Conclude {           // Tells the user, and notes, how the generation ended and what follows.
  Verdict verdict;
  bool ran = true;         // there were workers: their exits belong to it
  bool announced = false;  // the cause was told
  bool repeated = false;   // the same stall as before: nothing is told again
};
struct Repeat {  // To be handled as a new event, after the actions before it.
  job_event::GenerationOver over;
};
struct Sweep {};      // Ends what the workers left behind.
struct LookForRoom {  // RoomLooked answers.
  std::string folder;
};
struct SaveSummary {};
struct Finish {};  // The job has ended here, with exit_code().
}  // namespace job_action
using JobAction =
    std::variant<job_action::Print, job_action::Join, job_action::StartWorkers, job_action::Drain,
                 job_action::SendSignal, job_action::EndWorkers, job_action::MarkFailure, job_action::ReportCause,
                 job_action::Announce, job_action::AmendCause, job_action::LoseWorkers, job_action::RestartSpawner,
                 job_action::ArriveAtBarrier, job_action::CloseGeneration, job_action::Conclude, job_action::Repeat,
                 job_action::Sweep, job_action::LookForRoom, job_action::SaveSummary, job_action::Finish>;

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
  bool stalled() const { return !stalled_by_.empty(); }  // the stall was told, and need not be again

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
  bool announced_ = false;  // the generation's first cause was told
  bool all_done_ = false;   // on every node
  int reported_ = -1;       // index of the exit that the other nodes heard of; -1: none
  std::optional<RemoteEnd> remote_;
  // The end of a world that has not been handled yet: the two come from different threads.
  std::optional<job_event::GenerationOver> early_over_;
  std::string resize_reason_;  // why the workers were asked to stop so that the world can form again; "": they were not
  StopHistory stop_;
  int stop_signal_ = 0;  // what is being followed; SIGTERM for a notice
  bool killed_ = false;
  absl::Time kill_at_ = absl::InfiniteFuture();
  absl::Time start_kill_at_ = absl::InfiniteFuture();  // workers that are asked to stop and still start are killed
  absl::Time explain_until_ = absl::InfiniteFuture();  // all are gone, the decision waits
  absl::Time join_at_ = absl::InfiniteFuture();        // the pause before a restart is over
  std::string room_;                                   // the restart waits for room there; "": it does not
  absl::Time room_until_ = absl::InfinitePast();       // for so long
  std::string stalled_by_;                             // the stall that was told; "": none
  bool checkpointed_ = false;                          // how the last generation ended here, see Join
  std::string spawner_loss_;                           // how the spawner that is being restarted was lost
  int quick_deaths_ = 0;                               // of spawners, one right after the other
  absl::Time spawner_since_ = absl::InfinitePast();
};

}  // namespace composer
