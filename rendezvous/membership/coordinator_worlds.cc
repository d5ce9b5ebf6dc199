// How worlds begin and end; the effects of single messages are in coordinator.cc.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/membership/coordinator.h"
#include "rendezvous/worlds/failure_cause.h"
#include "rendezvous/worlds/node_order.h"

namespace composer {
void Coordinator::EndGeneration(Session reporter, proto::FailureCause cause, Outcome& outcome) {
  roster_.running = roster_.resizing = keys_open_ = false;
  roster_.ended = now_;
  TidyCause(cause);
  over_because_ = cause;
  outcome.ended = roster_.last_generation;
  outcome.why_ended = over_because_.message();
  auto message = std::make_shared<proto::CoordinatorMessage>();
  message->mutable_generation_over()->set_generation(roster_.last_generation);
  *message->mutable_generation_over()->mutable_cause() = std::move(cause);
  for (const Member& member : members_) {
    if (member.session == 0 || member.session == reporter || nodes_.at(member.session).waiting) continue;
    outcome.messages.push_back({member.session, message, false});
  }
}

// Corrects the reported cause of a generation that is already over.
void Coordinator::AmendCause(Session reporter, proto::FailureCause cause, Outcome& outcome) {
  if (!IsBetterCause(cause, over_because_)) return;
  TidyCause(cause);
  over_because_ = cause;
  auto message = std::make_shared<proto::CoordinatorMessage>();
  message->mutable_generation_over()->set_generation(roster_.last_generation);
  *message->mutable_generation_over()->mutable_cause() = std::move(cause);
  for (const Member& member : members_) {
    if (member.session != 0 && member.session != reporter) outcome.messages.push_back({member.session, message, false});
  }
}

// Ends the generation when all nodes have left, or have ended their workers for the world to grow: nobody needs to be
// informed.
void Coordinator::EndIfAllHaveGone(Outcome& outcome) {
  if (!roster_.running || roster_.expected > 0 || roster_.present_waiting < roster_.present) return;
  roster_.broken = true;
  over_because_ = NodeCause("rendezvous", roster_.resizing ? "the world grows" : "all nodes have left", now_);
  roster_.running = roster_.resizing = keys_open_ = false;
  roster_.ended = now_;
  outcome.ended = roster_.last_generation;
  outcome.why_ended = over_because_.message();
}

void Coordinator::ResumeIfAllAreBack(Outcome& outcome) {
  if (!roster_.running || roster_.expected > 0 || keys_open_) return;
  NumberRanks();
  keys_open_ = true;
  outcome.begun = roster_.last_generation;
  outcome.resumed = true;
}

void Coordinator::NumberRanks() {
  int base_rank = 0;
  for (Member& member : members_) {
    member.base_rank = base_rank;
    if (member.session != 0) base_rank += nodes_.at(member.session).info.slots();
  }
}

void Coordinator::Decide(Outcome& outcome) {
  ReviewAbsences(outcome);
  DecideWorld(outcome);
  for (const auto& [node_rank, absence] : absences_)
    wake_at_ = std::min({wake_at_, absence.next, absence.since + options_.policy.blip});
}

void Coordinator::DecideWorld(Outcome& outcome) {
  if (options_.policy.quorum) roster_.before = quorum_history_.votes();
  const auto all = static_cast<size_t>(options_.policy.max_nodes);
  roster_.all_here =
      nodes_.size() == all && by_given_rank_.size() == all && roster_.waiting == options_.policy.max_nodes;
  MembershipDecision decision = DecideMembership(roster_, options_.policy, now_);
  using Kind = MembershipDecision::Kind;
  wake_at_ = decision.kind == Kind::kWait ? decision.until : absl::InfiniteFuture();
  reason_ = std::move(decision.reason);
  switch (decision.kind) {
    case Kind::kNothing:
    case Kind::kWait:
      return;
    case Kind::kForm:
      return Form(decision.anew, outcome);
    case Kind::kResize:
      return Resize(outcome);
    case Kind::kDissolve:
      return Dissolve(outcome);
    case Kind::kEnd:
      for (Member& member : members_) {
        if (member.state == Member::State::kExpected) member.state = Member::State::kLost;
      }
      roster_.expected = 0;
      roster_.broken = roster_.broken || !keys_open_;  // after a restart they have had the grace
      EndGeneration(0, NodeCause("rendezvous", reason_, now_), outcome);
      return DecideWorld(outcome);  // recurses once: no world is running now
  }
}

// Returns the highest tally: restarts belong to the job, and a node that was not there for all of them has counted
// fewer.
proto::RestartTally Coordinator::MostRestarts(const std::vector<Session>& members) const {
  const proto::RestartTally* most = &nodes_.at(members[0]).tally;
  for (const Session session : members) {
    const proto::RestartTally& tally = nodes_.at(session).tally;
    if (tally.restarts() > most->restarts()) most = &tally;
  }
  return *most;
}

// Returns the waiting nodes, with their ranks in the newest world that any of them was in, since the last one may have
// reached nobody. Nodes that were only in an older one (the newest never reached them) follow its members, in their old
// order.
std::vector<Candidate> Coordinator::Candidates() const {
  std::vector<const Node*> veterans;
  std::vector<Candidate> candidates;
  for (const auto& [session, node] : nodes_) {
    if (!node.waiting) continue;
    // If nobody was given a rank, the node that serves is node 0: it comes first, whoever joins first.
    const int64_t arrival = node.info.serves() ? -1 : node.arrival;
    candidates.push_back({session, -1, node.info.node_rank(), arrival, node.info.node_group()});
    if (!node.voter.parts.empty() && node.voter.parts.back().node_rank() >= 0) veterans.push_back(&node);
  }
  std::sort(veterans.begin(), veterans.end(), [](const Node* a, const Node* b) {
    const proto::Electorate &x = a->voter.parts.back(), &y = b->voter.parts.back();
    return std::make_tuple(y.generation(), x.world(), x.node_rank()) <
           std::make_tuple(x.generation(), y.world(), y.node_rank());
  });
  std::unordered_map<const Node*, int> ranks;
  int next = 0;
  for (const Node* const veteran : veterans) {
    const proto::Electorate& part = veteran->voter.parts.back();
    const proto::Electorate& newest = veterans.front()->voter.parts.back();
    const bool was_in_newest = part.generation() == newest.generation() && part.world() == newest.world();
    const int rank = was_in_newest ? part.node_rank() : next;
    ranks[veteran] = rank;
    next = std::max(next, rank + 1);
  }
  for (Candidate& candidate : candidates) {
    const auto rank = ranks.find(&nodes_.at(candidate.id));
    if (rank != ranks.end()) candidate.previous_rank = rank->second;
  }
  return candidates;
}

void Coordinator::FollowQuorum(bool anew) {
  if (!options_.policy.quorum) return;
  if (anew) quorum_history_.Clear();
  if (anew || roster_.last_generation == 0) {
    quorum_history_.Follow(0, "", options_.policy.max_nodes);
  } else {
    quorum_history_.Follow(roster_.last_generation, world_, roster_.members);
  }
}

proto::World Coordinator::NewWorld(const std::vector<Session>& members, const RankLayout& layout) {
  const proto::NodeInfo& first = nodes_.at(members[0]).info;
  proto::World world;
  *world.mutable_tally() = MostRestarts(members);
  world.set_confirm(options_.policy.quorum);
  roster_.last_generation =
      NextGeneration(roster_.last_generation, std::exchange(own_world_, true), options_.numbering);
  world.set_generation(roster_.last_generation);
  world.set_id(world_ = absl::StrCat(options_.incarnation, "-", roster_.last_generation));
  world.set_world_size(layout.world_size());
  world.set_nodes(layout.num_nodes());
  world.set_master_address(first.address());
  world.set_master_port(first.free_port());
  world.set_reason(reason_);
  if (const auto host = std::find_if(members.begin(), members.end(),
                                     [this](Session session) { return nodes_.at(session).info.serves(); });
      host != members.end()) {
    *world.mutable_host() = nodes_.at(*host).info.life();
  }
  return world;
}

void Coordinator::Form(bool anew, Outcome& outcome) {
  const std::vector<Session> members = OrderNodes(Candidates(), options_.policy.max_nodes);
  for (auto& [session, node] : nodes_) node.node_rank = -1;
  std::vector<int> slots;
  for (const Session session : members) slots.push_back(nodes_.at(session).info.slots());
  const RankLayout layout(slots);
  FollowQuorum(anew);
  proto::CoordinatorMessage message;
  proto::World& world = *message.mutable_world();
  world = NewWorld(members, layout);
  members_.assign(members.size(), Member());
  absences_.clear();
  for (int rank = 0; rank < layout.num_nodes(); ++rank) {
    Node& node = nodes_.at(members[rank]);
    node.waiting = false;
    --roster_.waiting;
    node.node_rank = rank;
    node.told = roster_.last_generation;
    members_[rank] = {Member::State::kPresent, members[rank], layout.base_rank(rank)};
    world.set_node_rank(rank);
    world.set_base_rank(layout.base_rank(rank));
    world.set_slots(node.info.slots());
    world.set_node_address(node.info.address());
    world.clear_before();
    quorum_history_.Tell(node.voter, world.mutable_before());
    outcome.messages.push_back({members[rank], std::make_shared<proto::CoordinatorMessage>(message), false});
  }
  roster_.running = keys_open_ = true;
  roster_.members = roster_.present = layout.num_nodes();
  roster_.present_waiting = roster_.expected = 0;
  roster_.first_present = true;
  roster_.first_waiting = false;
  roster_.broken = roster_.done = false;
  lost_places_.clear();
  roster_.min_reached = now_;  // for spares that already wait, should the rest be too few
  outcome.begun = roster_.last_generation;
  if (roster_.waiting == 0) return;
  for (const auto& [session, node] : nodes_) {
    if (!node.waiting) continue;
    quorum_history_.StartWaiting(node.voter);
    TellSpare(session, outcome);
  }
}

void Coordinator::TellSpare(Session session, Outcome& outcome) const {
  auto message = std::make_shared<proto::CoordinatorMessage>();
  proto::Spare& spare = *message->mutable_spare();
  spare.mutable_newest()->set_generation(roster_.last_generation);
  spare.mutable_newest()->set_world(world_);
  spare.mutable_newest()->set_nodes(static_cast<int>(members_.size()));
  spare.mutable_newest()->set_node_rank(-1);
  quorum_history_.Tell(nodes_.at(session).voter, spare.mutable_newest()->mutable_before());
  spare.set_reason(absl::StrCat("generation ", roster_.last_generation, " runs on ", roster_.members, " of at most ",
                                options_.policy.max_nodes, " nodes"));
  outcome.messages.push_back({session, std::move(message), false});
}

void Coordinator::Resize(Outcome& outcome) {
  roster_.resizing = true;
  auto message = std::make_shared<proto::CoordinatorMessage>();
  proto::Resize& resize = *message->mutable_resize();
  resize.set_generation(roster_.last_generation);
  resize.set_checkpoint(options_.policy.grow == GrowPolicy::kAtCheckpoint);
  resize.set_reason(reason_);
  resize_ = message;
  for (const Member& member : members_) {
    if (member.session != 0) outcome.messages.push_back({member.session, message, false});
  }
}

void Coordinator::Dissolve(Outcome& outcome) {
  proto::Refusal refusal;
  refusal.set_field("quorum");
  refusal.set_message(reason_);
  refusal.set_passing(true);
  SendAway(refusal, outcome);
  roster_.ended = now_;  // those who come back have the same time again to become enough
}

void Coordinator::SendAway(const proto::Refusal& refusal, Outcome& outcome) {
  auto message = std::make_shared<proto::CoordinatorMessage>();
  *message->mutable_refusal() = refusal;
  for (auto it = nodes_.begin(); it != nodes_.end();) {
    const auto next = std::next(it);
    if (it->second.waiting) {
      outcome.messages.push_back({it->first, message, /*last=*/true});
      Remove(it, Member::State::kLost);
    }
    it = next;
  }
}

}  // namespace composer
