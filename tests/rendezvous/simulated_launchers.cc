// What a launcher's JobState decides, and how its actions end and start simulated workers: the part of the launcher's
// supervisor that stands around the real state machine.
// SPDX-License-Identifier: Apache-2.0
#include <signal.h>

#include <algorithm>

#include "launcher/supervise/failure_message.h"
#include "tests/rendezvous/simulation_model.h"

namespace composer::simulated {
namespace {

constexpr absl::Duration kStarts = absl::Milliseconds(300);    // until workers train
constexpr absl::Duration kAdvances = absl::Seconds(2);         // until they are beyond what earlier generations reached
constexpr absl::Duration kStoreAbsence = absl::Seconds(60);    // same as launcher/supervise/exit_barrier
constexpr absl::Duration kOthersPatience = absl::Seconds(20);  // same as launcher/launch

}  // namespace

WorkerFacts Simulation::FactsOf(const Agent& agent) const {
  const Workers& workers = agent.workers;
  const absl::Duration ran = (workers.exits.empty() ? now_ : workers.first_exit) - workers.started;
  return {.exits = workers.exits,
          .all_gone = workers.AllGone(),
          .all_attached = true,
          .all_started = ran >= kStarts,
          .trained = ran >= kStarts,
          .progress = ran >= kAdvances};
}

void Simulation::Post(int a, JobEvent event) {
  In(0, 0.005, [this, a, life = agents_[a].life, event = std::move(event)] {
    if (agents_[a].life == life) Apply(a, event);
  });
}

// As Supervisor::Apply: actions may cause events, which are handled after it.
void Simulation::Apply(int a, JobEvent event) {
  Agent& agent = agents_[a];
  if (agent.state == State::kGone) return;
  agent.events.push_back(std::move(event));
  if (std::exchange(agent.applying, true)) return;
  const int life = agent.life;
  while (agent.life == life && !agent.events.empty()) {
    const JobEvent next = std::move(agent.events.front());
    agent.events.pop_front();
    const std::vector<JobAction> actions = agent.job->On(next, FactsOf(agent), ClockOfAgent(a));
    ShowPhase(a);
    for (const JobAction& action : actions) {
      if (agent.life != life) return Violate("agent ", a, " acts after its end");
      std::visit([&](const auto& one) { Do(a, one); }, action);
    }
  }
  if (agent.life != life) return;
  agent.applying = false;
  ScheduleWake(a);
}

// Workers that are done and wait for those of other nodes are still in their world.
void Simulation::ShowPhase(int a) {
  Agent& agent = agents_[a];
  switch (agent.job->phase()) {
    case JobState::Phase::kJoining:
      if (agent.state != State::kLooking) SetState(agent, State::kJoining);
      return;
    case JobState::Phase::kEnding:
      return SetState(agent, State::kEnding);
    case JobState::Phase::kRunning:
    case JobState::Phase::kDone:
      if (agent.state == State::kRunning) return;
      SetState(agent, State::kRunning);
      CheckTally(a);
      return CheckRuns(agent.record.world());
    case JobState::Phase::kFinished:
      return;
  }
}

void Simulation::ScheduleWake(int a) {
  Agent& agent = agents_[a];
  const absl::Time wake = agent.job->NextWake();
  const absl::Time at = wake == absl::InfiniteFuture() ? wake : std::max(now_, wake - agent.clock_error);
  if (at == std::exchange(agent.wake_at, at) || at == absl::InfiniteFuture()) return;
  At(at, [this, a, at, life = agent.life] {
    Agent& due = agents_[a];
    if (due.life != life || due.wake_at != at) return;
    due.wake_at = absl::InfiniteFuture();
    ClockOfAgent(a) >= due.job->NextWake() ? Apply(a, job_event::TimePassed{}) : ScheduleWake(a);
  });
}

void Simulation::Do(int a, const job_action::Print& print) { Note("agent ", a, " says: ", print.text); }

void Simulation::Do(int a, const job_action::Join& join) {
  Agent& agent = agents_[a];
  agent.checkpointed = join.checkpointed;
  agent.wants_join = true;
  agent.broken_since = std::min(agent.broken_since, ClockOfAgent(a));
  if (agent.stream != nullptr) SendJoin(a);
}

void Simulation::Do(int a, const job_action::StartWorkers&) {
  Agent& agent = agents_[a];
  agent.workers = {.generation = agent.job->generation(),
                   .world = agent.record.world(),
                   .alive = std::vector<bool>(static_cast<size_t>(SlotsOf(a)), true),
                   .started = now_};
}

// All workers of a world stop at a step that they agree on, or none: those that wait for a dead one hang.
void Simulation::Do(int a, const job_action::Drain& drain) {
  const std::string id = agents_[a].workers.world;
  if (std::exchange(worlds_.at(id).drains, true)) return;
  Note("the workers of ", id, " are to checkpoint: ", drain.reason);
  In(0.05, 3, [this, id] { DrainWorld(id); });
}

void Simulation::DrainWorld(const std::string& id) {
  WorldRecord& world = worlds_.at(id);
  if (world.ends) return;
  bool all = true, any = false;
  for (const Life& life : world.members) {
    const Agent& agent = agents_[life.first];
    const bool here = IsAlive(life) && agent.workers.world == id && !agent.workers.AllGone();
    any = any || here;
    all = all && here && agent.workers.exits.empty() && FactsOf(agent).all_started;
  }
  if (all) {
    world.ends = true;
    for (const Life& life : world.members) EndAll(life.first, 0, 0.3, {.status = {.code = exit_code::kPreempted}});
  } else if (any) {
    In(0.1, 0.2, [this, id] { DrainWorld(id); });
  }
}

// A worker listens or not; one that is killed may be stuck in the kernel for a while.
void Simulation::Do(int a, const job_action::EndWorkers&) {
  LosePeers(a);
  for (size_t w = 0; w < agents_[a].workers.alive.size(); ++w) {
    if (Pick(4) > 0) EndSoon(a, w, 0.005, 0.25, {.status = {.code = exit_code::kUnavailable}, .after_news = true});
  }
}

void Simulation::Do(int a, const job_action::SendSignal& send) {
  if (send.signal != SIGKILL) return;
  LosePeers(a);
  const double slowest = Pick(10) == 0 ? 12 : 0.02;
  EndAll(a, 0.001, slowest, {.status = {.signal = SIGKILL}, .ended_by_us = true});
}

void Simulation::Do(int a, const job_action::ReportCause& report) {
  Agent& agent = agents_[a];
  const FailureReport failure = {.exit = agent.workers.exits.at(report.exit), .node = absl::StrCat("host", a)};
  proto::NodeMessage message;
  proto::FailureCause& cause = *message.mutable_generation_ended()->mutable_cause();
  cause = ToProto(failure, agent.node_id, report.certain, now_);
  if (report.verdict.has_value()) *cause.mutable_verdict() = ToProto(*report.verdict);
  agent.broken_since = std::min(agent.broken_since, ClockOfAgent(a));
  if (agent.stream != nullptr) return Send(agent.stream, std::move(message));
  if (!agent.untold.has_value()) agent.untold = cause;
}

void Simulation::Do(int a, const job_action::LoseWorkers& loss) {
  Workers& workers = agents_[a].workers;
  for (size_t w = 0; w < workers.alive.size(); ++w) {
    if (workers.alive[w]) workers.End(w, {.lost = loss.how}, now_);
  }
  Apply(a, job_event::WorkersChanged{});
}

void Simulation::Do(int a, const job_action::RestartSpawner&) {
  Apply(a, job_event::SpawnerRestarted{absl::OkStatus()});
}

void Simulation::Do(int a, const job_action::ArriveAtBarrier&) {
  agents_[a].done_since = ClockOfAgent(a);
  WaitForOthers({a, agents_[a].life}, agents_[a].workers.world, now_);
}

// As ExitBarrier, whose key-value store ends with the world on its server.
void Simulation::WaitForOthers(const Life& life, const std::string& id, absl::Time reached) {
  const auto& [a, process] = life;
  const Agent& agent = agents_[a];
  if (!IsAlive(life) || agent.job->phase() != JobState::Phase::kDone || agent.workers.world != id) return;
  WorldRecord& world = worlds_.at(id);
  const StreamPtr stream = agent.stream;
  if (stream != nullptr && !IsCut(a, stream->server) && now_ >= servers_[stream->server].frozen_until) {
    reached = now_;
    world.done.insert(life);
    if (world.done.size() == world.members.size())
      return Apply(a, job_event::BarrierPassed{world.generation, absl::OkStatus()});
    if (world.over.count(stream->server) > 0)
      return Apply(a, job_event::BarrierPassed{world.generation, absl::AbortedError("the generation is over")});
  } else if (now_ - reached > kStoreAbsence) {
    return Apply(a, job_event::BarrierPassed{world.generation, absl::UnavailableError("the store is gone")});
  }
  In(0.005, 0.1, [=, this] { WaitForOthers(life, id, reached); });
}

void Simulation::Do(int a, const job_action::Repeat& repeat) { Apply(a, repeat.over); }
void Simulation::Do(int a, const job_action::LookForRoom&) { Apply(a, job_event::RoomLooked{true}); }

void Simulation::Do(int a, const job_action::Conclude& conclude) {
  Note("agent ", a, " concludes: ", conclude.verdict.reason, "; ", conclude.verdict.decision);
}

// The launcher ends. A launcher that found no majority, or lost the rendezvous, may be missed by the others.
void Simulation::Do(int a, const job_action::Finish&) {
  const int code = agents_[a].job->exit_code();
  Note("agent ", a, " ends with ", code);
  CheckEnd(a, code);
  ended_[{a, agents_[a].life}] = code;
  code == exit_code::kUnavailable ? Kill(a, /*silent=*/false) : Leave(a, code == exit_code::kDone);
  const bool again = code == exit_code::kPreempted ? Pick(4) > 0 : Pick(3) == 0;  // run the same command again
  if (!again) return;
  In(20, 40, [this, a] {
    Disturb(absl::ZeroDuration());
    Launch(a);
  });
}

void Workers::End(size_t w, WorkerExit exit, absl::Time now) {
  if (exits.empty()) first_exit = now;
  alive[w] = false;
  exit.rank = static_cast<int>(w);
  exits.push_back(std::move(exit));
}

void Simulation::EndSoon(int a, size_t w, double low, double high, const WorkerExit& exit) {
  In(low, high, [this, a, w, exit, life = agents_[a].life, generation = agents_[a].workers.generation] {
    Agent& agent = agents_[a];
    if (agent.life != life || agent.workers.generation != generation || !agent.workers.alive[w]) return;
    agent.workers.End(w, exit, now_);
    Apply(a, job_event::WorkersChanged{});
  });
}

void Simulation::EndAll(int a, double low, double high, const WorkerExit& exit) {
  for (size_t w = 0; w < agents_[a].workers.alive.size(); ++w) EndSoon(a, w, low, high, exit);
}

void Simulation::FailWorker(int a, bool by_signal) {
  Agent& agent = agents_[a];
  if (agent.state != State::kRunning || agent.workers.AllGone()) return;
  const size_t w =
      std::find(agent.workers.alive.begin(), agent.workers.alive.end(), true) - agent.workers.alive.begin();
  Note("agent ", a, ": worker ", w, " fails");
  LosePeers(a);
  EndSoon(a, w, 0, 0.001, by_signal ? WorkerExit{.status = {.signal = SIGSEGV}} : WorkerExit{.status = {.code = 1}});
}

// Workers of other nodes see a lost connection sooner or later, perhaps before their launchers hear why.
void Simulation::LosePeers(int a) {
  const auto world = worlds_.find(agents_[a].workers.world);
  if (world == worlds_.end() || std::exchange(world->second.torn, true)) return;
  for (size_t b = 0; b < agents_.size(); ++b) {
    const Agent& other = agents_[b];
    if (static_cast<int>(b) == a || other.workers.world != world->first || other.workers.AllGone()) continue;
    const bool soon = Pick(2) == 0;
    EndSoon(static_cast<int>(b), static_cast<size_t>(Pick(static_cast<int>(other.workers.alive.size()))),
            soon ? 0.001 : 3, soon ? 0.5 : 30, {.status = {.code = exit_code::kUnavailable}});
  }
}

void Simulation::LoseSpawner(int a) {
  const Agent& agent = agents_[a];
  if (agent.state == State::kGone) return;
  Note("agent ", a, ": its spawner dies");
  LosePeers(a);
  Apply(a, job_event::SpawnerLost{"composer-spawn was killed", /*leftovers_gone=*/true});
}

void Simulation::Stop(int a, uint64_t how) {
  if (agents_[a].state == State::kGone || (hosted_ && a < num_servers_)) return;
  Note("agent ", a, " is asked to stop");
  if (how % 8 == 0) return Apply(a, job_event::KillAsked{"stopped twice"});
  Apply(a, job_event::StopAsked{how % 2 == 0 ? SIGTERM : kNoticeSignal, "the node has to stop"});
}

bool Simulation::MayFinish(int a) const {
  if (!job_ends_ || agents_[a].state != State::kRunning) return false;
  const WorldRecord& world = worlds_.at(agents_[a].workers.world);
  return AllRun(world) && world.left.empty() && !world.ends;
}

// The workers of agent a's world have trained to the end.
void Simulation::FinishJob(int a) {
  if (!MayFinish(a)) return;
  const std::string id = agents_[a].workers.world;
  worlds_.at(id).ends = true;
  Note("the workers of ", id, " are done");
  for (const Life& life : worlds_.at(id).members) EndAll(life.first, 0, 3, {});
}

// A launcher beside the rendezvous, which ends with it, awaits the others of its world.
void Simulation::AwaitOthers(int s, absl::Time until) {
  const Server& server = servers_[s];
  if (server.coordinator != nullptr && server.coordinator->roster().present > 0 && now_ < until)
    return In(0.02, 0.03, [=, this] { AwaitOthers(s, until); });
  servers_[s].awaits_others = false;
  KillServer(s, absl::InfiniteDuration());
}

void Simulation::EndHost(int a) {
  if (!hosted_ || a >= num_servers_) return;
  servers_[a].awaits_others = true;
  AwaitOthers(a, now_ + kOthersPatience);
}

}  // namespace composer::simulated
