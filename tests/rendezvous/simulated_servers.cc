// The server processes, around the real Coordinator.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tests/rendezvous/simulation_model.h"

namespace composer::simulated {
namespace {

constexpr absl::Duration kStall = absl::Milliseconds(1250);  // same as rendezvous/service
constexpr absl::Duration kSettle = absl::Seconds(5);         // time until the launcher restarts a rendezvous
constexpr absl::Duration kSuccessorGrace = absl::Seconds(8);

}  // namespace

void Simulation::StartServer(int s, bool again) {
  if (servers_[s].host_lost || servers_[s].coordinator != nullptr) return;
  Note("server ", s, " starts", again ? " again" : "");
  MembershipPolicy policy = policy_;
  policy.holds_tie = s == 0;
  policy.quorum_wait = QuorumWaitOf(s, num_servers_);
  if (s > 0) policy.grace = kSuccessorGrace;
  servers_[s].coordinator = std::make_unique<Coordinator>(
      Coordinator::Options{.job = "job",
                           .incarnation = absl::StrCat("s", s, ".", ++num_processes_),
                           .policy = policy,
                           .settled = again ? ClockOf(s) + kSettle : absl::InfinitePast(),
                           .numbering = {.random = random_(), .may_be_first = !again && s == 0}});
}

void Simulation::KillServer(int s, absl::Duration away) {
  Server& server = servers_[s];
  if (server.coordinator != nullptr) {
    Note("server ", s, " is killed");
    server.coordinator = nullptr;
    server.tick_at = absl::InfiniteFuture();
    server.frozen_until = absl::InfinitePast();
    for (const auto& entry : std::exchange(server.streams, {})) {
      const StreamPtr stream = entry.second;
      stream->server_end = false;
      const bool late = IsCut(stream->agent, s);
      In(late ? kKeepaliveLow : 0.0001, late ? kKeepaliveHigh : 0.02, [this, stream] {
        if (std::exchange(stream->agent_end, false) && agents_[stream->agent].stream == stream)
          LoseStream(stream->agent);
      });
    }
  }
  if (away == absl::InfiniteDuration()) return;
  const int life = hosted_ ? agents_[s].life : 0;
  At(now_ + away, [this, s, life] {
    if (hosted_ && (agents_[s].life != life || agents_[s].state == State::kGone)) return;
    StartServer(s, /*again=*/true);
  });
}

void Simulation::Freeze(int s, absl::Duration length) {
  Server& server = servers_[s];
  if (server.coordinator == nullptr || now_ < server.frozen_until) return;
  Note("server ", s, " does not run for ", absl::FormatDuration(length));
  server.frozen_until = now_ + length;
  const Coordinator* process = server.coordinator.get();
  for (const auto& entry : server.streams) {
    const StreamPtr stream = entry.second;
    const absl::Time noticed = now_ + absl::Seconds(Uniform(kKeepaliveLow, kKeepaliveHigh));
    if (noticed > server.frozen_until) continue;
    At(noticed, [this, stream] {
      if (std::exchange(stream->agent_end, false) && agents_[stream->agent].stream == stream) LoseStream(stream->agent);
      BreakServerEnd(stream);
    });
  }
  At(server.frozen_until, [this, s, process, length] {
    if (servers_[s].coordinator.get() != process || length <= kStall) return;
    servers_[s].coordinator->Stalled(ClockOf(s));
  });
}

// A clock that goes on by itself, such as the service's, jumps only where the process did not run: the service takes
// every jump for that (NoticeStall), before anything else happens.
void Simulation::JumpClock(int s, absl::Duration length) {
  servers_[s].clock_error += length;
  Note("server ", s, ": its clock jumps by ", absl::FormatDuration(length));
  const Coordinator* process = servers_[s].coordinator.get();
  if (length > kStall) {
    At(std::max(now_, servers_[s].frozen_until), [this, s, process] {
      if (process == nullptr || servers_[s].coordinator.get() != process) return;
      servers_[s].coordinator->Stalled(ClockOf(s));
      ScheduleTick(s);
    });
  }
  ScheduleTick(s);
}

void Simulation::LoseHost(int s) {
  const bool one_is = std::any_of(servers_.begin(), servers_.end(), [](const Server& v) { return v.host_lost; });
  if (!hosted_ || one_is) return;
  Note("host ", s, " is lost");
  servers_[s].host_lost = true;
  Kill(s, /*silent=*/true);
  KillServer(s, absl::InfiniteDuration());
}

void Simulation::Arrive(const StreamPtr& stream, const proto::NodeMessage& message) {
  const int s = stream->server;
  Server& server = servers_[s];
  if (now_ < server.frozen_until) return At(server.frozen_until, [=, this] { Arrive(stream, message); });
  if (!stream->server_end || server.coordinator == nullptr || IsCut(stream->agent, s)) return;
  stream->introduced = stream->introduced || message.has_join() || message.has_reattach();
  if (!stream->introduced) return In(0.005, 0.02, [=, this] { Arrive(stream, message); });
  ++result_.num_messages;
  Coordinator& coordinator = *server.coordinator;
  switch (message.message_case()) {
    case proto::NodeMessage::kJoin:
      return Deliver(s, coordinator.Join(stream->session, message.caller(), message.join(), ClockOf(s)));
    case proto::NodeMessage::kReattach:
      return Deliver(s, coordinator.Reattach(stream->session, message.caller(), message.reattach(), ClockOf(s)));
    case proto::NodeMessage::kGenerationEnded:
      return Deliver(s, coordinator.GenerationEnded(stream->session, message.caller().generation(),
                                                    message.generation_ended().cause(), ClockOf(s)));
    case proto::NodeMessage::kWorldTaken:
      return Deliver(s, coordinator.WorldTaken(stream->session, message.caller().generation(), ClockOf(s)));
    case proto::NodeMessage::kProbed:
      return Deliver(s, coordinator.Probed(stream->session, message.probed(), ClockOf(s)));
    case proto::NodeMessage::kLeave:
      heard_to_leave_.insert({stream->agent, stream->life});
      stream->server_end = false;
      server.streams.erase(stream->session);
      return Deliver(s, coordinator.Leave(stream->session, message.leave().done(), ClockOf(s)));
    case proto::NodeMessage::kReport:
    case proto::NodeMessage::MESSAGE_NOT_SET:
      return;
  }
}

void Simulation::BreakServerEnd(const StreamPtr& stream) {
  const int s = stream->server;
  Server& server = servers_[s];
  if (now_ < server.frozen_until) return At(server.frozen_until, [=, this] { BreakServerEnd(stream); });
  if (!std::exchange(stream->server_end, false) || server.coordinator == nullptr) return;
  server.streams.erase(stream->session);
  Deliver(s, server.coordinator->Lost(stream->session, ClockOf(s)));
}

void Simulation::Deliver(int s, const Coordinator::Outcome& outcome) {
  Server& server = servers_[s];
  if (outcome.ended > 0) Note("server ", s, ": generation ", outcome.ended, " is over: ", outcome.why_ended);
  for (auto& [id, world] : worlds_) {
    if (outcome.ended > 0 && world.generation == outcome.ended) world.over.insert(s);
  }
  if (outcome.begun > 0)
    Note("server ", s, ": generation ", outcome.begun,
         outcome.resumed ? " goes on" : " forms: ", outcome.resumed ? "" : server.coordinator->reason());
  if (outcome.begun > 0 && !outcome.resumed) CheckFormed(s, outcome);
  const auto close = [&](const StreamPtr& stream, bool told) {
    stream->server_end = false;
    server.streams.erase(stream->session);
    if (told) return;
    In(0.0001, 0.02, [this, stream] {
      if (std::exchange(stream->agent_end, false) && agents_[stream->agent].stream == stream) LoseStream(stream->agent);
    });
  };
  for (const Coordinator::Outgoing& out : outcome.messages) {
    const auto it = server.streams.find(out.session);
    if (it == server.streams.end()) continue;
    const StreamPtr stream = it->second;
    stream->last_down = std::max(stream->last_down, now_ + absl::Seconds(Uniform(0.0001, 0.02)));
    At(stream->last_down, [this, stream, message = out.message] { Receive(stream, *message); });
    if (out.last) close(stream, /*told=*/true);
  }
  for (const Coordinator::Session session : outcome.replaced) {
    const auto it = server.streams.find(session);
    if (it != server.streams.end()) close(StreamPtr(it->second), /*told=*/false);
  }
  ScheduleTick(s);
}

void Simulation::ScheduleTick(int s) {
  Server& server = servers_[s];
  if (server.coordinator == nullptr) return;
  const absl::Time wake_at = server.coordinator->wake_at();
  const absl::Time at = wake_at == absl::InfiniteFuture() ? wake_at : std::max(now_, wake_at - server.clock_error);
  if (at == server.tick_at) return;
  server.tick_at = at;
  if (at == absl::InfiniteFuture()) return;
  At(at, [this, s, at] {
    Server& due = servers_[s];
    if (due.coordinator == nullptr || due.tick_at != at) return;
    due.tick_at = absl::InfiniteFuture();
    if (now_ < due.frozen_until) {
      due.tick_at = due.frozen_until;
      return At(due.frozen_until, [this, s] {
        if (servers_[s].coordinator != nullptr) Deliver(s, servers_[s].coordinator->Tick(ClockOf(s)));
      });
    }
    Deliver(s, due.coordinator->Tick(ClockOf(s)));
  });
}

}  // namespace composer::simulated
