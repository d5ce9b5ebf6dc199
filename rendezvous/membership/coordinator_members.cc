// What a coordinator knows of each node, and of its node rank in the last world; the effects of messages are in
// coordinator.cc.
// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/membership/coordinator.h"
#include "rendezvous/worlds/failure_cause.h"
#include "rendezvous/worlds/rank_layout.h"

namespace composer {

// Names the place where a launcher of the job runs: another launcher at the same place is its successor.
std::string Coordinator::PlaceName(const proto::NodeInfo& node) {
  return absl::StrCat(node.hostname(), "/", node.node_rank());
}

std::string Coordinator::Describe(const proto::NodeInfo& node, int node_rank) {
  return absl::StrCat("node ", node_rank, " (", node.hostname(), ")");
}

// Whether the old stream's node is lost depends on what the new stream says; until then its node rank stays free for
// it.
bool Coordinator::TakeOver(Session session, const proto::NodeInfo& info, int* vacated, Outcome& outcome) {
  const auto old = by_id_.find(info.node_id());
  if (old == by_id_.end()) return true;
  if (old->second > session) {
    outcome.replaced.push_back(session);
    return false;
  }
  outcome.replaced.push_back(old->second);
  const auto it = nodes_.find(old->second);
  *vacated = it->second.node_rank;
  Remove(it, Member::State::kExpected);
  return true;
}

// Gives up the old node rank of a node on a new stream if the node did not claim it.
void Coordinator::GiveUpNodeRank(int node_rank, Session newcomer, const proto::NodeInfo& info, Outcome& outcome) {
  if (node_rank < 0 || node_rank >= static_cast<int>(members_.size()) ||
      members_[node_rank].state != Member::State::kExpected)
    return;
  members_[node_rank].state = Member::State::kLost;
  --roster_.expected;
  if (!roster_.running) return;
  EndGeneration(newcomer,
                NodeCause(info.node_id(), absl::StrCat(Describe(info, node_rank), " joined again"), now_,
                          /*vague=*/true),
                outcome);
}

// What a node said of itself in its first message holds for its whole stream.
Coordinator::Node& Coordinator::Admit(Session session, const proto::NodeInfo& info) {
  const auto [it, is_new] = nodes_.try_emplace(session);
  if (is_new) {
    it->second.info = info;
    slots_ += info.slots();
    const auto lost = lost_places_.find(PlaceName(info));
    if (lost != lost_places_.end() && lost->second != info.node_id()) roster_.broken = true;  // it is dead: replaced
    for (auto& [node_rank, absence] : absences_) {
      const bool succeeds = info.node_rank() >= 0 && PlaceName(absence.info) == PlaceName(info) &&
                            absence.info.node_id() != info.node_id();
      if (!succeeds) continue;
      absence.asked.clear();
      absence.unreached = roster_.broken = true;
    }
    by_id_[info.node_id()] = session;
    if (info.node_rank() >= 0) by_given_rank_[info.node_rank()] = session;
  }
  return it->second;
}

// Takes over a world newer than any we know of: ours was formed without knowledge of it, or there was none.
void Coordinator::Learn(const proto::MembershipRecord& record, Outcome& outcome) {
  if (record.generation() <= roster_.last_generation || record.generation() > kMaxGeneration || record.nodes() < 1 ||
      record.nodes() > kMaxNodes || record.node_rank() >= record.nodes() || record.world().empty() ||
      !QuorumHistory::IsValid(record.before()) || record.world().size() > kMaxWorldIdBytes) {
    return;
  }
  if (roster_.running) {
    EndGeneration(
        0, NodeCause("rendezvous", absl::StrCat("a newer world is known, generation ", record.generation()), now_),
        outcome);
  }
  for (auto& [session, node] : nodes_) node.node_rank = -1;
  members_.assign(record.nodes(), Member());
  world_ = record.world();
  own_world_ = false;
  roster_.last_generation = record.generation();
  roster_.running = true;
  roster_.resizing = false;
  roster_.members = roster_.expected = record.nodes();
  roster_.present = roster_.present_waiting = 0;
  roster_.first_present = roster_.first_waiting = false;
  quorum_history_.Learn(record.before());
  for (const auto& [session, node] : nodes_) {
    if (node.waiting) quorum_history_.StartWaiting(node.voter);
  }
  roster_.expected_until = now_ + options_.policy.grace;
  roster_.broken = keys_open_ = false;
  lost_places_.clear();
  absences_.clear();
}

bool Coordinator::IsNewest(const proto::MembershipRecord& record) const {
  return record.generation() == roster_.last_generation && record.generation() > 0 && record.world() == world_;
}

bool Coordinator::TakeNodeRank(Session session, Node& node, const proto::MembershipRecord& record) {
  if (node.node_rank >= 0 || !IsNewest(record) || record.node_rank() < 0 ||
      record.node_rank() >= static_cast<int>(members_.size())) {
    return false;
  }
  Member& member = members_[record.node_rank()];
  if (member.state == Member::State::kPresent || (member.state == Member::State::kLeft && roster_.running))
    return false;
  if (member.state == Member::State::kExpected) --roster_.expected;
  if (member.state == Member::State::kLeft) ++roster_.members;
  member.state = Member::State::kPresent;
  member.session = session;
  node.node_rank = record.node_rank();
  node.told = record.generation();
  ++roster_.present;
  if (node.node_rank == 0) roster_.first_present = true;
  return true;
}

// Handles a record that shows that its node has heard of the newest world: the worlds before it lose their say step by
// step.
void Coordinator::Hear(Session session, const proto::MembershipRecord& record, Outcome& outcome) {
  if (!options_.policy.quorum || !IsNewest(record)) return;
  std::shared_ptr<proto::CoordinatorMessage> confirmed;
  const auto tell = [&](Session receiver) {
    if (confirmed == nullptr) {
      confirmed = std::make_shared<proto::CoordinatorMessage>();
      confirmed->mutable_confirmed()->set_generation(roster_.last_generation);
    }
    outcome.messages.push_back({receiver, confirmed, false});
  };
  if (quorum_history_.empty()) {
    if (record.before_size() > 0) tell(session);
    return;
  }
  if (record.before_size() > 0 && !quorum_history_.Hear(nodes_.at(session).voter)) return;
  quorum_history_.Clear();
  for (const auto& [receiver, node] : nodes_) tell(receiver);
}

void Coordinator::StartWaiting(Node& node) {
  node.waiting = true;
  node.arrival = num_arrivals_++;
  ++roster_.waiting;
  if (node.node_rank >= 0) ++roster_.present_waiting;
  if (node.node_rank == 0) roster_.first_waiting = true;
  quorum_history_.StartWaiting(node.voter);
  if (roster_.waiting == options_.policy.min_nodes) roster_.min_reached = now_;
  roster_.last_waiting = now_;
}

void Coordinator::StopWaiting(Node& node) {
  if (!std::exchange(node.waiting, false)) return;
  --roster_.waiting;
  quorum_history_.StopWaiting(node.voter);
}

void Coordinator::Vacate(Node& node, Member::State state) {
  if (node.node_rank < 0) return;
  members_[node.node_rank].state = state;
  members_[node.node_rank].session = 0;
  --roster_.present;
  if (node.waiting) --roster_.present_waiting;
  if (node.node_rank == 0) roster_.first_present = roster_.first_waiting = false;
  if (state == Member::State::kExpected) ++roster_.expected;
  if (state == Member::State::kLeft) --roster_.members;
  node.node_rank = -1;
}

void Coordinator::Remove(Nodes::iterator it, Member::State state) {
  Node& node = it->second;
  if (node.node_rank >= 0 && state == Member::State::kLost) lost_places_[PlaceName(node.info)] = node.info.node_id();
  Vacate(node, state);
  StopWaiting(node);
  slots_ -= node.info.slots();
  by_id_.erase(node.info.node_id());
  by_given_rank_.erase(node.info.node_rank());
  for (auto& [absent, absence] : absences_) absence.asked.erase(it->first);
  nodes_.erase(it);
}

}  // namespace composer
