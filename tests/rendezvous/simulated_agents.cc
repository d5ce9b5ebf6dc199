// How launchers come, look for a server, join, and go.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "launcher/supervise/failure_message.h"
#include "tests/rendezvous/simulation_model.h"

namespace composer::simulated {
namespace {

constexpr absl::Duration kShunFor = absl::Seconds(15);
constexpr absl::Duration kPassingLimit = absl::Seconds(6);

proto::NodeInfo InfoOf(const Agent& agent, int a, bool given_ranks, bool serves) {
  proto::NodeInfo info;
  info.set_node_id(agent.node_id);
  info.set_node_rank(given_ranks ? a : -1);
  info.set_hostname(absl::StrCat("host", a));
  info.set_slots(SlotsOf(a));
  info.mutable_life()->set_port(1 + a);
  info.mutable_life()->set_word(absl::StrCat(agent.node_id, "/", agent.life));
  info.set_serves(serves);
  return info;
}

constexpr double kProbeLimit = 0.25;  // seconds, same as launcher/prober

}  // namespace

// Returns whether a process on the agent's host finds the other one alive.
bool Simulation::Reaches(int a, const proto::Liveness& life) const {
  const int b = life.port() - 1;
  const Agent& other = agents_[b];
  if (other.state == State::kGone || HostIsLost(b) || life.word() != absl::StrCat(other.node_id, "/", other.life))
    return false;
  return std::none_of(partitions_.begin(), partitions_.end(), [&](const auto& partition) {
    const auto side = [&](int host) { return (partition.first >> (host % 60)) % 2; };
    return now_ < partition.second && side(a) != side(b);
  });
}

void Simulation::SetState(Agent& agent, State state) {
  const auto count = [&](int change) {
    const auto world = worlds_.find(agent.record.world());
    if (world != worlds_.end()) world->second.running += change;
  };
  if (agent.state == State::kRunning) count(-1);
  agent.state = state;
  if (state == State::kRunning) count(+1);
}

// Sets what an agent considers the newest world, whether it is a member of it or not.
void Simulation::Believe(int a, const proto::MembershipRecord& record) {
  Agent& agent = agents_[a];
  Forget(agent);
  agent.record = record;
  std::map<std::string, int>& worlds = believers_[NumberOf(record)];
  ++worlds[record.world()];
  if (worlds.size() > 1)
    Violate("generation ", record.generation(), " is ", worlds.begin()->first, " for one and ", worlds.rbegin()->first,
            " for another");
}

// A job that is started again when all have left it, and forgotten it, counts anew.
std::pair<int, uint64_t> Simulation::NumberOf(const proto::MembershipRecord& record) const {
  const auto world = worlds_.find(record.world());
  return {world == worlds_.end() ? 0 : world->second.run, record.generation()};
}

void Simulation::Forget(Agent& agent) {
  const auto number = believers_.find(NumberOf(agent.record));
  if (number == believers_.end()) return;
  const auto world = number->second.find(agent.record.world());
  if (--world->second == 0) number->second.erase(world);
  agent.record.Clear();
}

// Records what a launcher with a list of hosts keeps on its host's disk (launcher/rendezvous/node_memory.h).
void Simulation::Remember(Agent& agent) const {
  if (!list_) return;
  agent.remembered_id = agent.node_id;
  agent.remembered = agent.record;
}

void Simulation::Launch(int a) {
  Agent& agent = agents_[a];
  if (agent.state != State::kGone || HostIsLost(a) || (hosted_ && a < num_servers_ && servers_[a].awaits_others))
    return;
  const int life = agent.life + 1;
  // A farewell that nobody heard cannot be told from a death, of which a successor in the same place is the proof; and
  // who leaves a running world alone (it was told to stop: workers that are done wait for the others') does break it.
  // In a list the quorum decides: there it counts.
  for (auto& [id, world] : worlds_) {
    if (list_) break;
    std::erase_if(world.left, [&](const Life& gone) { return gone.first == a && heard_to_leave_.count(gone) == 0; });
  }
  std::vector<absl::Time> cut_until = std::move(agent.cut_until);
  cut_until.resize(num_servers_, absl::InfinitePast());
  std::string known_as = std::move(agent.remembered_id);
  const proto::MembershipRecord remembered = std::move(agent.remembered);
  agent = Agent();
  agent.life = life;
  agent.node_id = known_as.empty() ? absl::StrCat("n", a, ".", ++num_processes_) : std::move(known_as);
  if (remembered.generation() > 0) Believe(a, remembered);
  agent.cut_until = std::move(cut_until);
  agent.shunned_until.assign(num_servers_, absl::InfinitePast());
  agent.state = State::kLooking;
  agent.away = true;
  agent.away_since = agent.broken_since = ClockOfAgent(a);
  agent.job.emplace(JobState::Options{.max_restarts = max_restarts_, .min_nodes = policy_.min_nodes});
  Do(a, job_action::Join{});
  Note("agent ", a, " comes as ", agent.node_id);
  Look(a, life);
}

void Simulation::Kill(int a, bool silent) {
  Agent& agent = agents_[a];
  if (agent.state == State::kGone) return;
  Note("agent ", a, silent ? " falls silent" : " dies");
  Remember(agent);
  LosePeers(a);
  SetState(agent, State::kGone);
  Forget(agent);
  ++agent.life;
  if (const StreamPtr stream = std::exchange(agent.stream, nullptr)) {
    stream->agent_end = false;
    const bool late = silent || IsCut(a, stream->server);
    In(late ? kKeepaliveLow : 0.0001, late ? kKeepaliveHigh : 0.02, [this, stream] { BreakServerEnd(stream); });
  }
  if (hosted_ && a < num_servers_) KillServer(a, absl::InfiniteDuration());  // the server is its child
}

void Simulation::Leave(int a, bool done) {
  Agent& agent = agents_[a];
  Note("agent ", a, " leaves");
  left_.insert({a, agent.life});
  if (agent.stream != nullptr) {
    proto::NodeMessage message;
    message.mutable_leave()->set_done(done);
    Send(agent.stream, std::move(message));
  }
  for (auto& [id, world] : worlds_) {  // the world that it runs, or one whose message is on its way to it
    const bool runs = agent.state == State::kRunning && id == agent.record.world();
    const bool member = std::count(world.members.begin(), world.members.end(), std::pair(a, agent.life)) > 0;
    if (!runs && !(member && world.generation > agent.record.generation())) continue;
    world.left.insert({a, agent.life});
    if (world.left.size() == world.members.size()) run_ = world.run + 1;
  }
  SetState(agent, State::kGone);
  Forget(agent);
  ++agent.life;
  if (const StreamPtr stream = std::exchange(agent.stream, nullptr)) {
    In(0.1, 0.2, [this, stream] { stream->agent_end = false, BreakServerEnd(stream); });
  }
  EndHost(a);
}

// Ends the agent's side of its stream.
void Simulation::LoseStream(int a) {
  Agent& agent = agents_[a];
  if (agent.away || agent.state == State::kGone) return;
  agent.stream = nullptr;
  agent.away = true;
  agent.away_since = ClockOfAgent(a);
  In(0, 0.2, [this, a, life = agent.life] { Look(a, life); });
}

void Simulation::Look(int a, int life) {
  Agent& agent = agents_[a];
  if (agent.life != life || !agent.away) return;
  SuccessionView view{.self = list_ && a < num_servers_ ? a : -1,
                      .hosted = hosted_,
                      .served = agent.served,
                      .away_since = agent.away_since,
                      .broken_since = std::min(agent.broken_since, agent.done_since),
                      .grace = policy_.grace,
                      .blip = policy_.blip};
  static const std::vector<std::string> names = {"s0", "s1", "s2"};
  for (int s = 0; s < num_servers_; ++s) {
    view.servers.push_back(IsCut(a, s)                          ? ServerState::kSilent
                           : now_ < servers_[s].frozen_until    ? ServerState::kUnresponsive
                           : servers_[s].coordinator == nullptr ? ServerState::kRefused
                           : now_ < agent.shunned_until[s]      ? ServerState::kBackoff
                                                                : ServerState::kServing);
  }
  const bool is_silent = agent.server >= 0 && view.servers[agent.server] == ServerState::kSilent;
  if (is_silent && agent.host.port() > 0 && Reaches(a, agent.host)) view.lives = agent.server;
  const SuccessionDecision decision = DecideSuccession(view, names, ClockOfAgent(a));
  switch (decision.kind) {
    case SuccessionDecision::Kind::kAttach:
      return AttachTo(a, decision.server);
    case SuccessionDecision::Kind::kServe:
      if (servers_[a].coordinator == nullptr) StartServer(a, /*again=*/agent.served || agent.record.generation() > 0);
      break;
    case SuccessionDecision::Kind::kGiveUp:
      return Post(a, job_event::JoinFailed{absl::UnavailableError(decision.reason)});
    case SuccessionDecision::Kind::kWait:
      break;
  }
  In(0.2, 0.25, [this, a, life] { Look(a, life); });
}

void Simulation::AttachTo(int a, int s) {
  Agent& agent = agents_[a];
  agent.away = false;
  agent.served = true;
  if (std::exchange(agent.server, s) != s) agent.host.Clear();
  agent.stream = std::make_shared<Stream>();
  agent.stream->session = ++last_session_;
  agent.stream->agent = a;
  agent.stream->life = agent.life;
  agent.stream->server = s;
  servers_[s].streams[agent.stream->session] = agent.stream;
  if (agent.state == State::kLooking) SetState(agent, State::kJoining);
  if (agent.broken_since == absl::InfiniteFuture() || agent.untold.has_value()) {
    proto::NodeMessage message;
    *message.mutable_reattach()->mutable_node() =
        InfoOf(agent, a, given_ranks_, hosted_ && a < num_servers_ && servers_[a].coordinator != nullptr);
    *message.mutable_reattach()->mutable_record() = agent.record;
    Send(agent.stream, std::move(message));
  }
  if (agent.untold.has_value()) {
    proto::NodeMessage message;
    *message.mutable_generation_ended()->mutable_cause() = *std::exchange(agent.untold, std::nullopt);
    Send(agent.stream, std::move(message));
  }
  if (agent.wants_join) SendJoin(a);
}

void Simulation::SendJoin(int a) {
  Agent& agent = agents_[a];
  proto::NodeMessage message;
  *message.mutable_join()->mutable_node() =
      InfoOf(agent, a, given_ranks_, hosted_ && a < num_servers_ && servers_[a].coordinator != nullptr);
  *message.mutable_join()->mutable_last() = agent.record;
  *message.mutable_join()->mutable_tally() = ToProto(agent.job->tally());
  message.mutable_join()->set_checkpointed(agent.checkpointed);
  Send(agent.stream, std::move(message));
}

// Messages to a coordinator arrive in order, as on real streams, but may come again later, which does not happen there.
void Simulation::Send(const StreamPtr& stream, proto::NodeMessage message) {
  message.mutable_caller()->set_job("job");
  message.mutable_caller()->set_generation(agents_[stream->agent].record.generation());
  if (IsCut(stream->agent, stream->server)) return;
  stream->last_up = std::max(stream->last_up, now_ + absl::Seconds(Uniform(0.0001, 0.02)));
  At(stream->last_up, [this, stream, message] { Arrive(stream, message); });
  if (Pick(10) == 0) In(0.0001, 10, [this, stream, message] { Arrive(stream, message); });
}

void Simulation::Receive(const StreamPtr& stream, const proto::CoordinatorMessage& message) {
  const int a = stream->agent;
  Agent& agent = agents_[a];
  if (!stream->agent_end || agent.stream != stream || IsCut(a, stream->server)) return;
  if (message.has_world()) {
    if (!agent.wants_join) return Violate("agent ", a, " got a world it had not asked for");
    const proto::World& world = message.world();
    if (world.generation() <= agent.record.generation())
      return Violate("agent ", a, " gets ", world.id(), " and knows of ", agent.record.world());
    CheckBelief(a, world);
    proto::MembershipRecord record;
    record.set_generation(world.generation());
    record.set_world(world.id());
    record.set_nodes(world.nodes());
    record.set_node_rank(world.node_rank());
    *record.mutable_before() = world.before();
    Believe(a, record);
    if (world.confirm()) {
      proto::NodeMessage taken;
      taken.mutable_world_taken();
      Send(stream, std::move(taken));
    }
    agent.wants_join = false;
    agent.host = world.host();
    agent.untold.reset();
    agent.refused_since = agent.broken_since = agent.done_since = absl::InfiniteFuture();
    Post(a, job_event::WorldJoined{.generation = world.generation(),
                                   .nodes = world.nodes(),
                                   .world_size = world.world_size(),
                                   .tally = FromProto(world.tally())});
  } else if (message.has_generation_over()) {
    const proto::GenerationOver& over = message.generation_over();
    agent.broken_since = std::min(agent.broken_since, ClockOfAgent(a));
    Post(a, job_event::GenerationOver{over.generation(), FromProto(over.cause())});
  } else if (message.has_resize()) {
    const proto::Resize& resize = message.resize();
    Post(a, job_event::ResizeAsked{resize.generation(), resize.reason(), resize.checkpoint()});
  } else if (message.has_probe()) {
    const bool reached = Reaches(a, message.probe().life());
    proto::NodeMessage answer;
    answer.mutable_probed()->set_node_id(message.probe().node_id());
    answer.mutable_probed()->set_reached(reached);
    In(0.001, reached ? 0.02 : kProbeLimit, [this, stream, answer] {
      if (stream->agent_end && agents_[stream->agent].stream == stream) Send(stream, answer);
    });
  } else if (message.has_spare()) {
    if (agent.wants_join && message.spare().newest().generation() > agent.record.generation())
      Believe(a, message.spare().newest());
  } else if (message.has_confirmed()) {
    if (message.confirmed().generation() == agent.record.generation()) agent.record.clear_before();
  } else if (message.has_refusal()) {
    Refuse(stream, message.refusal());
  }
}

// As RendezvousLink::JoinOnce.
void Simulation::Refuse(const StreamPtr& stream, const proto::Refusal& refusal) {
  const int a = stream->agent;
  Agent& agent = agents_[a];
  if (!refusal.passing() && !refusal.done()) return Violate("agent ", a, " is refused: ", refusal.message());
  Note("agent ", a, " is sent away: ", refusal.message());
  stream->agent_end = false;
  if (refusal.done()) {
    agent.wants_join = false;
    agent.stream = nullptr;
    return Post(a, job_event::JoinFailed{absl::AlreadyExistsError(refusal.message())});
  }
  agent.refused_since = std::min(agent.refused_since, now_);
  if (list_) agent.shunned_until[stream->server] = now_ + kShunFor;
  if (now_ - agent.refused_since < (list_ ? policy_.grace : kPassingLimit)) return LoseStream(a);
  agent.wants_join = false;
  agent.stream = nullptr;
  Post(a, job_event::JoinFailed{list_ ? absl::UnavailableError(refusal.message())
                                      : absl::InvalidArgumentError(refusal.message())});
}

void Simulation::Cut(int a, int s, absl::Duration length) {
  Agent& agent = agents_[a];
  agent.cut_until.resize(num_servers_, absl::InfinitePast());
  if (hosted_ && a == s) return;  // the same host
  agent.cut_until[s] = std::max(agent.cut_until[s], now_ + length);
  Note("agent ", a, " and server ", s, " are cut for ", absl::FormatDuration(length));
  const StreamPtr stream = agent.stream;
  if (stream == nullptr || stream->server != s) return;
  In(kKeepaliveLow, kKeepaliveHigh, [this, stream] { BreakServerEnd(stream); });
  In(kKeepaliveLow, kKeepaliveHigh, [this, stream] {
    if (std::exchange(stream->agent_end, false) && agents_[stream->agent].stream == stream) LoseStream(stream->agent);
  });
}

// Separates the hosts into two sides, which cannot communicate with each other.
void Simulation::Part(uint64_t sides, absl::Duration length) {
  const auto side = [&](size_t host) { return (sides >> (host % 60)) % 2; };
  partitions_.emplace_back(sides, now_ + length);
  for (size_t a = 0; a < agents_.size(); ++a) {
    for (int s = 0; s < num_servers_; ++s) {
      if (side(a) != (hosted_ ? side(s) : 0)) Cut(static_cast<int>(a), s, length);
    }
  }
}

}  // namespace composer::simulated
