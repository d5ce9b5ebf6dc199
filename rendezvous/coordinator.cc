// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/admission.h"
#include "rendezvous/failure_cause.h"
#include "rendezvous/rank_layout.h"

namespace composer {
namespace {

constexpr size_t kMaxWorldIdBytes = 256;

std::string Describe(const proto::NodeInfo& node, int node_rank) {
  return absl::StrCat("node ", node_rank, " (", node.hostname(), ")");
}

// Where a launcher of the job runs: another one there is its successor.
std::string PlaceName(const proto::NodeInfo& node) { return absl::StrCat(node.hostname(), "/", node.node_rank()); }

}  // namespace

Coordinator::Outcome Coordinator::Join(Session session, const proto::Caller& caller, const proto::Join& join,
                                       absl::Time now) {
  Outcome outcome;
  Later(now);
  int vacated = -1;
  if (const auto known = nodes_.find(session); known != nodes_.end()) {
    Node& node = known->second;
    const bool sent_before_its_world = join.last().generation() < node.told;
    if (node.waiting || sent_before_its_world) return outcome;
    node.info.set_free_port(join.node().free_port());
  } else if (Refuse(session, caller, join.node(), outcome) || !TakeOver(session, join.node(), &vacated, outcome)) {
    return outcome;
  }
  Learn(join.last(), outcome);
  Node& node = Admit(session, join.node());
  node.voter = VoterOf(node.info.node_id(), join.last());
  node.tally = join.tally();
  TidyText(*node.tally.mutable_user_error(), kMaxCauseMessageBytes);
  Sit(session, node, join.last());
  Hear(session, join.last(), outcome);
  GiveUpSeat(vacated, session, node.info, outcome);
  if (roll_.running && node.seat >= 0 && !roll_.regrouping) {
    EndGeneration(session,
                  NodeCause(node.info.node_id(), absl::StrCat(Describe(node.info, node.seat), " joined again"), now_,
                            /*vague=*/true),
                  outcome);
  }
  if (node.seat >= 0) roll_.broken = true;
  StartWaiting(node);
  EndIfAllHaveGone(outcome);
  if (roll_.running && node.seat < 0) TellSpare(session, outcome);
  Decide(outcome);
  return outcome;
}

Coordinator::Outcome Coordinator::Reattach(Session session, const proto::Caller& caller,
                                           const proto::Reattach& reattach, absl::Time now) {
  Outcome outcome;
  Later(now);
  int vacated = -1;
  if (nodes_.count(session) > 0 || Refuse(session, caller, reattach.node(), outcome) ||
      !TakeOver(session, reattach.node(), &vacated, outcome)) {
    return outcome;
  }
  const proto::Standing& standing = reattach.standing();
  Learn(standing, outcome);
  Node& node = Admit(session, reattach.node());
  node.voter = VoterOf(node.info.node_id(), standing);
  Sit(session, node, standing);
  GiveUpSeat(vacated, session, node.info, outcome);
  auto answer = std::make_shared<proto::CoordinatorMessage>();
  if (roll_.running && node.seat >= 0) {
    answer->mutable_reattached()->set_generation(roll_.last_generation);
    if (!keys_open_) outcome.restore = roll_.last_generation;
  } else {
    answer->mutable_generation_over()->set_generation(standing.generation());
    *answer->mutable_generation_over()->mutable_cause() = NodeCause(
        "rendezvous",
        IsNewest(standing) ? over_because_.message()
                           : absl::StrCat("generation ", standing.generation(),
                                          " went on without this node: the newest is ", roll_.last_generation),
        now_);
  }
  outcome.messages.push_back({session, std::move(answer), false});
  Hear(session, standing, outcome);
  if (roll_.regrouping && node.seat >= 0) outcome.messages.push_back({session, regroup_, false});  // perhaps missed
  ResumeIfAllAreBack(outcome);
  Decide(outcome);
  return outcome;
}

Coordinator::Outcome Coordinator::GenerationEnded(Session session, uint64_t generation,
                                                  const proto::FailureCause& cause, absl::Time now) {
  Outcome outcome;
  Later(now);
  const auto it = nodes_.find(session);
  if (it == nodes_.end() || it->second.seat < 0 || it->second.waiting || generation != roll_.last_generation)
    return outcome;
  roll_.broken = true;
  if (roll_.running) {
    EndGeneration(session, cause, outcome);
  } else {
    AmendCause(session, cause, outcome);
  }
  Decide(outcome);
  return outcome;
}

Coordinator::Outcome Coordinator::WorldTaken(Session session, uint64_t generation, absl::Time now) {
  Outcome outcome;
  Later(now);
  const auto it = nodes_.find(session);
  if (it == nodes_.end() || it->second.told != generation || generation != roll_.last_generation) return outcome;
  proto::Standing standing;
  standing.set_generation(generation);
  standing.set_world(world_);
  electorates_.Tell(it->second.voter, standing.mutable_before());
  Hear(session, standing, outcome);
  Decide(outcome);
  return outcome;
}

Coordinator::Outcome Coordinator::Leave(Session session, absl::Time now) {
  Outcome outcome;
  Later(now);
  const auto it = nodes_.find(session);
  if (it == nodes_.end()) return outcome;
  Remove(it, Seat::State::kLeft);
  EndIfAllHaveGone(outcome);
  Decide(outcome);
  return outcome;
}

Coordinator::Outcome Coordinator::Lost(Session session, absl::Time now) {
  Outcome outcome;
  Later(now);
  const auto it = nodes_.find(session);
  if (it == nodes_.end()) return outcome;
  const int seat = it->second.seat;
  const auto was_lost = [&](const proto::NodeInfo& info) {
    return NodeCause(
        info.node_id(),
        absl::StrCat(Describe(info, seat), " was lost: its connection to the rendezvous ended without a farewell"),
        now_);
  };
  if (!roll_.running || seat < 0) {
    const bool explains = !roll_.running && seat >= 0 && !it->second.waiting && now_ >= stalled_until_;
    const proto::NodeInfo info = it->second.info;
    Remove(it, Seat::State::kLost);
    if (explains) AmendCause(session, was_lost(info), outcome);
  } else if (it->second
                 .waiting) {  // its workers ended in good order, for the world to grow; it may be back for its seat
    Remove(it, Seat::State::kLost);
    EndIfAllHaveGone(outcome);
  } else if (now_ < stalled_until_) {
    roll_.expected_until = roll_.expected > 0 ? std::max(roll_.expected_until, stalled_until_) : stalled_until_;
    Remove(it, Seat::State::kExpected);
  } else {
    const proto::NodeInfo info = it->second.info;
    Remove(it, Seat::State::kLost);
    EndGeneration(session, was_lost(info), outcome);
  }
  Decide(outcome);
  return outcome;
}

Coordinator::Outcome Coordinator::Tick(absl::Time now) {
  Outcome outcome;
  Later(now);
  Decide(outcome);
  return outcome;
}

std::optional<proto::Refusal> Coordinator::Check(const proto::Caller& caller, const proto::NodeInfo& info) const {
  AdmissionTerms terms{.job = options_.job,
                       .nodes = options_.policy.min_nodes == options_.policy.max_nodes ? options_.policy.max_nodes : 0,
                       .others = static_cast<int>(nodes_.size()),
                       .slots = slots_};
  const auto is_other = [&](const Node& node) { return node.info.node_id() != info.node_id(); };
  // At most one connected node has this node_id, so one of the first two is another.
  for (auto it = nodes_.begin(); it != nodes_.end() && terms.example == nullptr; ++it) {
    if (is_other(it->second)) terms.example = &it->second.info;
  }
  if (const auto self = by_id_.find(info.node_id()); self != by_id_.end()) {
    --terms.others;
    terms.slots -= nodes_.at(self->second).info.slots();
  }
  const auto same = by_given_rank_.find(info.node_rank());
  if (same != by_given_rank_.end() && is_other(nodes_.at(same->second)))
    terms.same_rank = &nodes_.at(same->second).info;
  const auto refusal = CheckAdmission(caller.job(), info, terms);
  if (!refusal.has_value()) return std::nullopt;
  proto::Refusal message;
  message.set_field(refusal->field);
  message.set_message(refusal->message);
  message.set_passing(refusal->passing);
  return message;
}

bool Coordinator::Refuse(Session session, const proto::Caller& caller, const proto::NodeInfo& info,
                         Outcome& outcome) const {
  std::optional<proto::Refusal> refusal = Check(caller, info);
  if (!refusal.has_value()) return false;
  auto message = std::make_shared<proto::CoordinatorMessage>();
  *message->mutable_refusal() = *std::move(refusal);
  outcome.messages.push_back({session, std::move(message), /*last=*/true});
  return true;
}

// Whether the old stream's node is lost is decided by what the new one says: until then its seat is free for it.
bool Coordinator::TakeOver(Session session, const proto::NodeInfo& info, int* vacated, Outcome& outcome) {
  const auto old = by_id_.find(info.node_id());
  if (old == by_id_.end()) return true;
  if (old->second > session) {
    outcome.replaced.push_back(session);
    return false;
  }
  outcome.replaced.push_back(old->second);
  const auto it = nodes_.find(old->second);
  *vacated = it->second.seat;
  Remove(it, Seat::State::kExpected);
  return true;
}

// A node on a new stream did not claim its seat.
void Coordinator::GiveUpSeat(int seat, Session newcomer, const proto::NodeInfo& info, Outcome& outcome) {
  if (seat < 0 || seat >= static_cast<int>(seats_.size()) || seats_[seat].state != Seat::State::kExpected) return;
  seats_[seat].state = Seat::State::kLost;
  --roll_.expected;
  if (!roll_.running) return;
  EndGeneration(newcomer,
                NodeCause(info.node_id(), absl::StrCat(Describe(info, seat), " joined again"), now_,
                          /*vague=*/true),
                outcome);
}

// What a node said of itself at its first message holds for its stream.
Coordinator::Node& Coordinator::Admit(Session session, const proto::NodeInfo& info) {
  const auto [it, is_new] = nodes_.try_emplace(session);
  if (is_new) {
    it->second.info = info;
    slots_ += info.slots();
    const auto lost = lost_places_.find(PlaceName(info));
    if (lost != lost_places_.end() && lost->second != info.node_id()) roll_.broken = true;  // it is dead: replaced
    by_id_[info.node_id()] = session;
    if (info.node_rank() >= 0) by_given_rank_[info.node_rank()] = session;
  }
  return it->second;
}

// A newer world than any we know of: ours was made without knowledge of it, or there was none.
void Coordinator::Learn(const proto::Standing& standing, Outcome& outcome) {
  if (standing.generation() <= roll_.last_generation || standing.generation() > kMaxGeneration ||
      standing.nodes() < 1 || standing.nodes() > kMaxNodes || standing.node_rank() >= standing.nodes() ||
      standing.world().empty() || !Electorates::IsValid(standing.before()) ||
      standing.world().size() > kMaxWorldIdBytes) {
    return;
  }
  if (roll_.running) {
    EndGeneration(
        0, NodeCause("rendezvous", absl::StrCat("a newer world is known, generation ", standing.generation()), now_),
        outcome);
  }
  for (auto& [session, node] : nodes_) node.seat = -1;
  seats_.assign(standing.nodes(), Seat());
  world_ = standing.world();
  own_world_ = false;
  roll_.last_generation = standing.generation();
  roll_.running = true;
  roll_.regrouping = false;
  roll_.members = roll_.expected = standing.nodes();
  roll_.present = roll_.present_waiting = 0;
  roll_.first_present = roll_.first_waiting = false;
  electorates_.Learn(standing.before());
  for (const auto& [session, node] : nodes_) {
    if (node.waiting) electorates_.StartWaiting(node.voter);
  }
  roll_.expected_until = now_ + options_.policy.grace;
  roll_.broken = keys_open_ = false;
  lost_places_.clear();
}

bool Coordinator::IsNewest(const proto::Standing& standing) const {
  return standing.generation() == roll_.last_generation && standing.generation() > 0 && standing.world() == world_;
}

bool Coordinator::Sit(Session session, Node& node, const proto::Standing& standing) {
  if (node.seat >= 0 || !IsNewest(standing) || standing.node_rank() < 0 ||
      standing.node_rank() >= static_cast<int>(seats_.size())) {
    return false;
  }
  Seat& seat = seats_[standing.node_rank()];
  if (seat.state == Seat::State::kPresent || (seat.state == Seat::State::kLeft && roll_.running)) return false;
  if (seat.state == Seat::State::kExpected) --roll_.expected;
  if (seat.state == Seat::State::kLeft) ++roll_.members;
  seat.state = Seat::State::kPresent;
  seat.session = session;
  node.seat = standing.node_rank();
  node.told = standing.generation();
  ++roll_.present;
  if (node.seat == 0) roll_.first_present = true;
  return true;
}

// A node's standing shows that it has heard of the newest world: the worlds before that have less and less of a say.
void Coordinator::Hear(Session session, const proto::Standing& standing, Outcome& outcome) {
  if (!options_.policy.quorum || !IsNewest(standing)) return;
  std::shared_ptr<proto::CoordinatorMessage> confirmed;
  const auto tell = [&](Session receiver) {
    if (confirmed == nullptr) {
      confirmed = std::make_shared<proto::CoordinatorMessage>();
      confirmed->mutable_confirmed()->set_generation(roll_.last_generation);
    }
    outcome.messages.push_back({receiver, confirmed, false});
  };
  if (electorates_.empty()) {
    if (standing.before_size() > 0) tell(session);
    return;
  }
  if (standing.before_size() > 0 && !electorates_.Hear(nodes_.at(session).voter)) return;
  electorates_.Clear();
  for (const auto& [receiver, node] : nodes_) tell(receiver);
}

void Coordinator::StartWaiting(Node& node) {
  node.waiting = true;
  node.arrival = num_arrivals_++;
  ++roll_.waiting;
  if (node.seat >= 0) ++roll_.present_waiting;
  if (node.seat == 0) roll_.first_waiting = true;
  electorates_.StartWaiting(node.voter);
  if (roll_.waiting == options_.policy.min_nodes) roll_.min_reached = now_;
  roll_.last_waiting = now_;
}

void Coordinator::StopWaiting(Node& node) {
  if (!std::exchange(node.waiting, false)) return;
  --roll_.waiting;
  electorates_.StopWaiting(node.voter);
}

void Coordinator::Vacate(Node& node, Seat::State state) {
  if (node.seat < 0) return;
  seats_[node.seat].state = state;
  seats_[node.seat].session = 0;
  --roll_.present;
  if (node.waiting) --roll_.present_waiting;
  if (node.seat == 0) roll_.first_present = roll_.first_waiting = false;
  if (state == Seat::State::kExpected) ++roll_.expected;
  if (state == Seat::State::kLeft) --roll_.members;
  node.seat = -1;
}

void Coordinator::Remove(Nodes::iterator it, Seat::State seat) {
  Node& node = it->second;
  if (node.seat >= 0 && seat == Seat::State::kLost) lost_places_[PlaceName(node.info)] = node.info.node_id();
  Vacate(node, seat);
  StopWaiting(node);
  slots_ -= node.info.slots();
  by_id_.erase(node.info.node_id());
  by_given_rank_.erase(node.info.node_rank());
  nodes_.erase(it);
}

}  // namespace composer
