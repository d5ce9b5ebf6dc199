// The requirements on every world; see simulation.h.
// SPDX-License-Identifier: Apache-2.0
#include <signal.h>

#include <algorithm>

#include "tests/rendezvous/simulation_model.h"

namespace composer::simulated {
bool Simulation::IsAlive(const Life& life) const {
  const Agent& agent = agents_[life.first];
  return agent.life == life.second && agent.state != State::kGone;
}

// Returns null when the process is dead or attached to another server, so that this one knows nothing of it.
const Agent* Simulation::AgentBehind(const Life& life, int s) const {
  const Agent& agent = agents_[life.first];
  return IsAlive(life) && agent.stream != nullptr && agent.stream->server == s ? &agent : nullptr;
}

void Simulation::CheckFormed(int s, const Coordinator::Outcome& outcome) {
  WorldRecord world;
  world.generation = outcome.begun;
  std::string id;
  std::set<Life> nodes;
  int base_rank = 0;
  uint64_t newest = 0;
  for (const Coordinator::Outgoing& out : outcome.messages) {
    if (!out.message->has_world()) continue;
    const proto::World& told = out.message->world();
    const auto it = servers_[s].streams.find(out.session);
    if (it == servers_[s].streams.end()) return Violate("a world has a node without a stream");
    const Life life = {it->second->agent, it->second->life};
    id = told.id();
    if (told.node_rank() != static_cast<int>(world.members.size()))
      return Violate("node rank ", told.node_rank(), " twice");
    if (told.base_rank() != base_rank) return Violate("base rank ", told.base_rank(), ", not ", base_rank);
    if (!nodes.insert(life).second) return Violate("agent ", life.first, " is in a world twice");
    base_rank += SlotsOf(life.first);
    world.members.push_back(life);
    if (left_.count(life) > 0) world.left.insert(life);  // its farewell message is on its way
    const Agent* agent = AgentBehind(life, s);
    if (agent == nullptr || agent->record.generation() <= newest) continue;
    newest = agent->record.generation();
    world.follows = agent->record.world();
  }
  world.run = run_;
  const int size = static_cast<int>(world.members.size());
  if (size < policy_.min_nodes || size > policy_.max_nodes) return Violate("a world of ", size, " nodes");
  CheckOrder(world, s);
  CheckQuorum(world, s);
  if (!worlds_.emplace(id, std::move(world)).second) return Violate("world ", id, " has formed twice");
  ++result_.num_worlds;
}

// Agents that come from the last world keep the order that they had in it.
void Simulation::CheckOrder(const WorldRecord& world, int s) {
  if (world.follows.empty()) return;
  int last_rank = -1;
  for (const Life& life : world.members) {
    const Agent* agent = AgentBehind(life, s);
    if (agent == nullptr || agent->record.world() != world.follows || agent->record.node_rank() < 0) continue;
    if (agent->record.node_rank() <= last_rank)
      return Violate("survivors have changed their order in generation ", world.generation);
    last_rank = agent->record.node_rank();
  }
}

// A later process of a host knows what an earlier one was in, unless that one left properly.
bool Simulation::Remembers(int life, const Life& earlier) const {
  return life >= earlier.second && (life == earlier.second || left_.count(earlier) == 0);
}

void Simulation::CheckQuorum(const WorldRecord& world, int s) {
  if (!list_) return;
  const auto last = worlds_.find(world.follows);
  if (last == worlds_.end()) {
    // It is not known what processes that are gone had reported.
    const auto is_gone = [&](const Life& life) { return AgentBehind(life, s) == nullptr; };
    if (std::any_of(world.members.begin(), world.members.end(), is_gone)) return;
    const int there = static_cast<int>(world.members.size());
    if (!IsMajority(there, policy_.max_nodes, s == 0))
      Violate("a first world of ", there, " of ", policy_.max_nodes, " nodes");
    return;
  }
  const bool of_all = given_ranks_ && world.members.size() == agents_.size();  // no agent is left over
  if (of_all) return;
  const std::set<Life> members(last->second.members.begin(), last->second.members.end());
  std::set<Life> there;
  for (const auto& [session, stream] : servers_[s].streams) {
    for (const Life& member : members) {
      if (member.first == stream->agent && Remembers(stream->life, member)) there.insert(member);
    }
  }
  // Either it or a later process of its host that was the same node; its place is vacant.
  const auto is_left = [&](const Life& life) {
    const auto later = left_.lower_bound(life);
    return later != left_.end() && later->first == life.first;
  };
  const int of = static_cast<int>(members.size() - std::count_if(members.begin(), members.end(), is_left));
  if (!IsMajority(static_cast<int>(there.size()), of, there.count(last->second.members[0]) > 0)) {
    Violate("generation ", world.generation, " forms with ", there.size(), " of the ", of, " nodes of ", last->first);
  }
}

// An agent adopts a world as its own.
void Simulation::CheckBelief(int a, const proto::World& told) {
  if (worlds_.count(told.id()) == 0) return Violate("agent ", a, " got a world that nobody formed");
  const Life life = {a, agents_[a].life};
  const Life holder = seats_.try_emplace({told.id(), told.node_rank()}, life).first->second;
  if (holder != life) Violate("agents ", a, " and ", holder.first, " have rank ", told.node_rank(), " of ", told.id());
}

void Simulation::CheckRuns(const std::string& id) {
  WorldRecord& world = worlds_.at(id);
  if (!AllRun(world)) return;
  if (!world.ran) Note("world ", id, " runs on ", world.members.size(), " nodes");
  world.ran = true;
  for (const auto& [other_id, other] : worlds_) {
    if (other_id == id) continue;
    if (AllRun(other)) return Violate("two worlds run at once: ", other_id, " and ", id);
    if (list_ && other.ran && other.run == world.run && !world.follows.empty() && other.follows == world.follows)
      return Violate("a fork: ", other_id, " and ", id, " ran, both after ", world.follows);
  }
}

// All nodes of a world count the job's restarts alike, so that all give up together and wait equally long.
void Simulation::CheckTally(int a) {
  std::optional<int>& first = worlds_.at(agents_[a].record.world()).restarts;
  const int own = agents_[a].job->tally().restarts;
  if (first.value_or(own) != own)
    Violate("agent ", a, " counts ", own, " restarts and another one of ", agents_[a].record.world(), " ", *first);
  first = own;
}

// A launcher ends by itself with these codes only.
void Simulation::CheckEnd(int a, int code) {
  const bool spent = max_restarts_ < 1'000'000 && code == exit_code::kBudgetSpent;
  const bool refused = !list_ && code == exit_code::kUserError;
  const bool killed = code == 128 + SIGTERM;  // it was told twice to stop
  const bool stopped = code == exit_code::kDone || code == exit_code::kPreempted || code == exit_code::kUnavailable;
  if (!spent && !refused && !killed && !stopped) Violate("agent ", a, " ends with ", code);
  if (code == exit_code::kDone && !job_ends_) Violate("agent ", a, " says that the job is done");
}

// The workers of agent a's world are about to end with 0: its launchers end with 0, and so do those that wait beside
// it.
void Simulation::ExpectDone(int a) {
  if (!IsCalm() || !MayFinish(a)) return;
  const std::string id = agents_[a].workers.world;
  const StreamPtr& first = agents_[a].stream;
  if (first == nullptr) return;
  std::vector<Life> expected;
  for (size_t b = 0; b < agents_.size(); ++b) {
    const Agent& agent = agents_[b];
    const bool there = agent.stream != nullptr && agent.stream->server == first->server;
    const bool waits = agent.state == State::kJoining && agent.wants_join;
    const bool runs = agent.state == State::kRunning && agent.record.world() == id;
    if ((waits || runs) && there) expected.emplace_back(static_cast<int>(b), agent.life);
    if (runs && !there) return;
  }
  At(now_ + absl::Seconds(15), [=, this, disturbances = num_disturbances_ + 1] {
    if (num_disturbances_ != disturbances) return;
    for (const Life& life : expected) {
      const auto end = ended_.find(life);
      if (end == ended_.end() || end->second != exit_code::kDone)
        return Violate("the job of ", id, " is done, and agent ", life.first,
                       end == ended_.end() ? " goes on" : absl::StrCat(" ended with ", end->second));
    }
  });
}

// The effects of a fault may take a while to settle.
void Simulation::Disturb(absl::Duration length) {
  calm_from_ = std::max(calm_from_, now_ + length + absl::Seconds(20));
  ++num_disturbances_;
}

// The agent is about to die.
void Simulation::ExpectEndAfterDeath(int a) {
  const Agent& agent = agents_[a];
  const bool is_server = hosted_ && a < num_servers_;
  if (!IsCalm() || is_server || agent.state != State::kRunning || agent.stream == nullptr) return;
  At(now_ + absl::Seconds(4), [this, a, id = agent.record.world(), disturbances = num_disturbances_ + 1] {
    if (num_disturbances_ != disturbances) return;
    for (size_t b = 0; b < agents_.size(); ++b) {
      if (agents_[b].state == State::kRunning && agents_[b].record.world() == id)
        return Violate("agent ", b, " runs ", id, " 4 s after agent ", a, " died");
    }
  });
}

// The agent is about to be cut off from a server; others that are attached there can reach it.
void Simulation::ExpectNoEndAfterCut(int a, int s, absl::Duration length) {
  const Agent& agent = agents_[a];
  const std::string id = agent.record.world();
  const auto attached = [&](const Agent& other) {
    return other.state == State::kRunning && other.record.world() == id && other.stream != nullptr &&
           other.stream->server == s;
  };
  if (!IsCalm() || !attached(agent) || std::count_if(agents_.begin(), agents_.end(), attached) < 2) return;
  if (hosted_ && (agent.host.port() == 0 || agent.server != s || a == s)) return;
  constexpr absl::Duration kDetected = absl::Milliseconds(3500);  // both ends have noticed, and check again
  const bool grows =
      std::any_of(agents_.begin(), agents_.end(), [](const Agent& v) { return v.state == State::kJoining; });
  if (grows || length + kDetected > policy_.blip) return;
  At(now_ + length + kDetected, [this, a, id, length, disturbances = num_disturbances_ + 1] {
    if (num_disturbances_ != disturbances) return;
    if (agents_[a].state != State::kRunning || agents_[a].record.world() != id || agents_[a].away)
      Violate("agent ", a, " was cut off for ", absl::FormatDuration(length), ", and ", id, " is over for it");
  });
}

bool Simulation::AllRun(const WorldRecord& world) const {
  return world.running > 0 && world.running + world.left.size() == world.members.size();
}

}  // namespace composer::simulated
