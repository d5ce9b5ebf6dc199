// What JobState is told and what it answers with: the events in the life of a job on this node, what is known of the
// workers, and the actions that follow. Values only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "launcher/supervise/restart_policy.h"

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
  bool announced = false;  // the cause was reported
  bool repeated = false;   // the same stall as before: nothing is reported again
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

}  // namespace composer
