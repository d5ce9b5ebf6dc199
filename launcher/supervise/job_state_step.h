// One call of JobState::On. Part of job_state.cc (what each event does) and job_state_endings.cc (how a generation, and
// the job, end).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "launcher/supervise/job_state.h"

namespace composer {

namespace event = job_event;
namespace action = job_action;

// The state, the facts and the time that one event meets, and the actions that it causes.
struct JobState::Step {
  JobState& state;
  const WorkerFacts& facts;
  const absl::Time now;
  std::vector<JobAction> actions;

  void Add(JobAction next) { actions.push_back(std::move(next)); }
  void Print(std::string text, action::Print::To to = action::Print::To::kUser) {
    Add(action::Print{std::move(text), to});
  }

  void On(const event::WorldJoined& world);
  void On(const event::JoinFailed& failure);
  void On(const event::StartFailed& failure);
  void On(const event::WorkersChanged&);
  void On(const event::CheckpointSaved&) { state.stalled_by_.clear(); }
  void On(const event::GenerationOver& over);
  void On(const event::ResizeAsked& resize);
  void On(const event::BarrierPassed& answer);
  void On(const event::StopAsked& request);
  void On(const event::KillAsked& request);
  void On(const event::SpawnerLost& loss);
  void On(const event::SpawnerRestarted& restart);
  void On(const event::RoomLooked& look);
  void On(const event::TimePassed&);

  Verdict Decide() const { return DecideNextStep(state.Result(facts), state.budget_); }
  void BeginEnding(const std::string& cause);
  void ReportCause();
  void Announce(int exit);
  void EndGeneration();
  void JoinAgain(const Verdict& verdict);
  void JoinWhenReady();
  void Conclude(const Verdict& verdict);
  void Finish(const Verdict& verdict);
  void Fail(int code, const std::string& reason);
};

}  // namespace composer
