// The history: what happens when, and what must result from it.
// SPDX-License-Identifier: Apache-2.0
#include "tests/rendezvous/simulation.h"

#include <algorithm>

#include "tests/rendezvous/simulation_model.h"

namespace composer {
namespace simulated {
namespace {

constexpr absl::Duration kFaultTime = absl::Seconds(100);  // faults happen within it, then the network heals
constexpr absl::Duration kPatience = absl::Seconds(240);   // a world must form within it after that

}  // namespace

Simulation::Simulation(const SimulationOptions& options) : options_(options), random_(options.seed) {
  now_ = absl::UnixEpoch() + absl::Hours(1);
  end_ = now_ + kFaultTime + kPatience;
  calm_from_ = now_ + absl::Seconds(30);  // all have come by then
  Plan();
  PlanFaults();
}

SimulationResult Simulation::Run() {
  while (!queue_.empty() && queue_.top().at <= end_ && result_.violation.empty()) {
    now_ = queue_.top().at;
    const std::function<void()> run = std::move(const_cast<Event&>(queue_.top()).run);
    queue_.pop();
    run();
  }
  if (result_.violation.empty()) {
    now_ = end_;
    CheckProgress();
  }
  result_.num_faults = static_cast<int>(faults_.size());
  return std::move(result_);
}

void Simulation::Plan() {
  list_ = Pick(2) == 0;
  num_servers_ = list_ ? 3 : 1;
  hosted_ = list_ || Pick(2) == 0;
  const int count = std::max(num_servers_, options_.exact_agents ? options_.max_agents : 1 + Pick(options_.max_agents));
  policy_.max_nodes = list_ || options_.exact_agents ? count : 1 + Pick(count);
  policy_.min_nodes = 1 + Pick(policy_.max_nodes);
  policy_.grow = static_cast<GrowPolicy>(Pick(3));
  policy_.quorum = list_;
  if (Pick(4) == 0) policy_.blip = absl::ZeroDuration();
  given_ranks_ = Pick(2) == 0;
  lone_cuts_ = Pick(2) == 0;
  max_restarts_ = Pick(4) == 0 ? 3 : 1'000'000;
  job_ends_ = Pick(3) == 0;
  servers_.resize(num_servers_);
  agents_.resize(count);
  Note(count, " agents, ", policy_.min_nodes, ":", policy_.max_nodes, " nodes, ", num_servers_, " servers",
       hosted_ ? "" : " (stand-alone)");
  if (!list_) StartServer(0, /*again=*/false);
  const double spread = Pick(2) == 0 ? 0.5 : 8;
  for (int a = 0; a < count; ++a) In(0, spread, [this, a] { Launch(a); });
}

void Simulation::PlanFaults() {
  const absl::Time start = now_;
  for (int i = Pick(options_.num_faults + 1); i > 0; --i) {
    const double at = Uniform(1, 100);
    const auto kind = static_cast<Fault>(Pick(static_cast<int>(Fault::kCount)));
    const uint64_t choice = random_();
    faults_.push_back({start + absl::Seconds(at), kind, choice, Uniform(0, 1)});
  }
  for (size_t i = 0; i < faults_.size(); ++i) {
    if (options_.skipped.count(static_cast<int>(i)) > 0) continue;
    At(faults_[i].at, [this, i] { Make(faults_[i]); });
  }
  At(start + kFaultTime, [this] { Heal(); });
}

void Simulation::Make(const PlannedFault& fault) {
  const int a = static_cast<int>(fault.choice % agents_.size());
  const int s = static_cast<int>(fault.choice % servers_.size());
  // When a lone server is restarted while all who know of its world are cut off, it cannot know of it either
  // (docs/rendezvous.md). A history therefore has only one of the two faults.
  const bool cuts = fault.kind == Fault::kCut || fault.kind == Fault::kCutMany || fault.kind == Fault::kPartition;
  if (!list_ && (lone_cuts_ ? fault.kind == Fault::kServerKilled : cuts)) return;
  if (fault.kind == Fault::kAgentResets || fault.kind == Fault::kAgentFallsSilent) ExpectEndAfterDeath(a);
  if (fault.kind == Fault::kJobIsDone) ExpectDone(a);
  if (fault.kind == Fault::kCut) ExpectNoEndAfterCut(a, s, absl::Seconds(0.5 + 15 * fault.length));
  Disturb(absl::Seconds(40 * fault.length));  // longer than the effect of any of them
  switch (fault.kind) {
    case Fault::kWorkerFails:
      return FailWorker(a, fault.length < 0.5);
    case Fault::kSpawnerDies:
      return LoseSpawner(a);
    case Fault::kJobIsDone:
      return FinishJob(a);
    case Fault::kAgentResets:
      return Kill(a, /*silent=*/false);
    case Fault::kAgentFallsSilent:
      return Kill(a, /*silent=*/true);
    case Fault::kAgentLeaves:
      return Stop(a, fault.choice / agents_.size());
    case Fault::kAgentComes:
      return Launch(a);
    case Fault::kCut:
      return Cut(a, s, absl::Seconds(0.5 + 15 * fault.length));
    case Fault::kCutMany:
      for (size_t b = 0; b < agents_.size(); ++b) {
        if ((fault.choice >> (b % 60)) % 2 == 1) Cut(static_cast<int>(b), s, absl::Seconds(0.5 + 20 * fault.length));
      }
      return;
    case Fault::kPartition:
      return Part(fault.choice, absl::Seconds(0.5 + 30 * fault.length));
    case Fault::kServerKilled:
      return KillServer(s, absl::Seconds(hosted_ ? 1.0 : 0.2 + 20 * fault.length));
    case Fault::kServerFrozen:
      return Freeze(s, absl::Seconds(0.2 + 8 * fault.length));
    case Fault::kClockJumps:
      return JumpClock(s, absl::Seconds(20 * fault.length - 10));
    case Fault::kAgentClockJumps:
      agents_[a].clock_error += absl::Seconds(6 * fault.length - 3);
      Note("agent ", a, ": its clock jumps");
      return agents_[a].state == State::kGone ? void() : ScheduleWake(a);
    case Fault::kHostLost:
      return LoseHost(s);
    case Fault::kCount:
      return;
  }
}

void Simulation::Heal() {
  Note("the network heals, faults end");
  Disturb(absl::ZeroDuration());
  for (Agent& agent : agents_) std::fill(agent.cut_until.begin(), agent.cut_until.end(), now_);
  partitions_.clear();
}

// A world can form of the live agents: enough of them, with a server, and with a list also a majority of the last
// world.
bool Simulation::MayProgress() const {
  const auto alive = [](const Agent& agent) { return agent.state != State::kGone; };
  const auto num_alive = std::count_if(agents_.begin(), agents_.end(), alive);
  if (num_alive < policy_.min_nodes || (list_ && 2 * num_alive <= policy_.max_nodes)) return false;
  if (!list_) return servers_[0].coordinator != nullptr;
  bool can_serve = false;
  for (int s = 0; s < num_servers_; ++s) can_serve = can_serve || alive(agents_[s]);
  if (!can_serve) return false;
  for (const auto& [id, world] : worlds_) {
    // Nobody is sure that a world has ended which reached none of its nodes: what formed it was frozen, and others may
    // have heard of it (docs/rendezvous.md).
    int there = 0, rank = 0;
    for (const auto& [agent, life] : world.members) {
      const auto seat = seats_.find({id, rank++});
      const bool took_it = seat != seats_.end() && seat->second == Life(agent, life);
      there += took_it && alive(agents_[agent]) && Remembers(agents_[agent].life, {agent, life});
    }
    if (2 * there <= static_cast<int>(world.members.size())) return false;  // perhaps the last one: not promised
  }
  return true;
}

void Simulation::CheckProgress() {
  if (!MayProgress()) return;
  for (int s = 0; s < num_servers_; ++s) {
    if (servers_[s].coordinator != nullptr) Note("server ", s, ": ", servers_[s].coordinator->reason());
  }
  int alive = 0, largest = 0;
  for (const Agent& agent : agents_) alive += agent.state != State::kGone;
  for (const auto& [id, world] : worlds_) {
    if (AllRun(world)) largest = std::max(largest, static_cast<int>(world.members.size()));
  }
  for (size_t a = 0; a < agents_.size(); ++a) {
    Note("agent ", a, " ends in state ", static_cast<int>(agents_[a].state), agents_[a].away ? ", away" : "",
         ", knows of ", agents_[a].record.world(), " as ", agents_[a].record.node_rank());
  }
  if (largest == 0) return Violate("no progress: ", alive, " agents are alive, ", policy_.min_nodes, " needed");
  const int possible = std::min(alive, policy_.max_nodes);
  if (!list_ && policy_.grow != GrowPolicy::kNever && largest < possible)
    Violate("the world has ", largest, " nodes, ", possible, " are possible");
}

}  // namespace simulated

SimulationResult Simulate(const SimulationOptions& options) { return simulated::Simulation(options).Run(); }

SimulationResult Shorten(const SimulationOptions& options) {
  SimulationOptions shorter = options;
  const int count = Simulate(options).num_faults;
  for (int fault = count - 1; fault >= 0; --fault) {
    shorter.skipped.insert(fault);
    if (Simulate(shorter).violation.empty()) shorter.skipped.erase(fault);
  }
  shorter.trace = true;
  return Simulate(shorter);
}

}  // namespace composer
