// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/admission.h"
#include "rendezvous/failure_cause.h"
#include "rendezvous/node_order.h"
#include "rendezvous/rank_layout.h"

namespace composer {
namespace {

constexpr size_t kMaxWorldIdBytes = 256;
constexpr int kMaxRosterPage = 1000;

std::string Describe(const proto::NodeInfo& node, int node_rank) {
  return absl::StrCat("node ", node_rank, " (", node.hostname(), ")");
}

// Where a launcher of the job runs: another one there is its successor.
std::string PlaceName(const proto::NodeInfo& node) { return absl::StrCat(node.hostname(), "/", node.node_rank()); }

proto::FailureCause NodeCause(const std::string& node_id, std::string message, absl::Time now) {
  proto::FailureCause cause;
  cause.set_node_id(node_id);
  cause.set_rank(-1);
  cause.set_message(std::move(message));
  cause.set_unix_micros(absl::ToUnixMicros(now));
  return cause;
}

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
  Sit(session, node, join.last());
  GiveUpSeat(vacated, session, node.info, outcome);
  if (roll_.running && node.seat >= 0 && !roll_.regrouping) {
    EndGeneration(session,
                  NodeCause(node.info.node_id(), absl::StrCat(Describe(node.info, node.seat), " joined again"), now_),
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
        IsNewest(standing) ? over_because_
                           : absl::StrCat("generation ", standing.generation(),
                                          " went on without this node: the newest is ", roll_.last_generation),
        now_);
  }
  outcome.messages.push_back({session, std::move(answer), false});
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
  if (it == nodes_.end() || it->second.seat < 0 || it->second.waiting || generation != roll_.last_generation ||
      !roll_.running) {
    return outcome;
  }
  roll_.broken = true;
  EndGeneration(session, cause, outcome);
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
  if (!roll_.running || seat < 0) {
    Remove(it, Seat::State::kLost);
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
    EndGeneration(session,
                  NodeCause(info.node_id(),
                            absl::StrCat(Describe(info, seat),
                                         " was lost: its connection to the rendezvous ended without a farewell"),
                            now_),
                  outcome);
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
  EndGeneration(newcomer, NodeCause(info.node_id(), absl::StrCat(Describe(info, seat), " joined again"), now_),
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
  if (standing.generation() <= roll_.last_generation || standing.nodes() < 1 || standing.nodes() > kMaxNodes ||
      standing.node_rank() >= standing.nodes() || standing.world().empty() ||
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
  roll_.last_generation = standing.generation();
  roll_.running = true;
  roll_.regrouping = false;
  roll_.members = roll_.expected = standing.nodes();
  roll_.present = roll_.present_waiting = 0;
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
  return true;
}

void Coordinator::StartWaiting(Node& node) {
  node.waiting = true;
  node.arrival = num_arrivals_++;
  ++roll_.waiting;
  if (node.seat >= 0) ++roll_.present_waiting;
  if (roll_.waiting == options_.policy.min_nodes) roll_.min_reached = now_;
  roll_.last_waiting = now_;
}

void Coordinator::StopWaiting(Node& node) {
  if (std::exchange(node.waiting, false)) --roll_.waiting;
}

void Coordinator::Vacate(Node& node, Seat::State state) {
  if (node.seat < 0) return;
  seats_[node.seat].state = state;
  seats_[node.seat].session = 0;
  --roll_.present;
  if (node.waiting) --roll_.present_waiting;
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

void Coordinator::EndGeneration(Session reporter, proto::FailureCause cause, Outcome& outcome) {
  roll_.running = roll_.regrouping = keys_open_ = false;
  roll_.ended = now_;
  TidyCause(cause);
  over_because_ = cause.message();
  outcome.ended = roll_.last_generation;
  outcome.why_ended = over_because_;
  auto message = std::make_shared<proto::CoordinatorMessage>();
  message->mutable_generation_over()->set_generation(roll_.last_generation);
  *message->mutable_generation_over()->mutable_cause() = std::move(cause);
  for (const Seat& seat : seats_) {
    if (seat.session == 0 || seat.session == reporter || nodes_.at(seat.session).waiting) continue;
    outcome.messages.push_back({seat.session, message, false});
  }
}

// All have left, or have ended their workers for the world to grow: nobody needs to be told.
void Coordinator::EndIfAllHaveGone(Outcome& outcome) {
  if (!roll_.running || roll_.expected > 0 || roll_.present_waiting < roll_.present) return;
  roll_.broken = true;
  over_because_ = roll_.regrouping ? "the world grows" : "all nodes have left";
  roll_.running = roll_.regrouping = keys_open_ = false;
  roll_.ended = now_;
  outcome.ended = roll_.last_generation;
  outcome.why_ended = over_because_;
}

void Coordinator::ResumeIfAllAreBack(Outcome& outcome) {
  if (!roll_.running || roll_.expected > 0 || keys_open_) return;
  NumberRanks();
  keys_open_ = true;
  outcome.begun = roll_.last_generation;
  outcome.resumed = true;
}

void Coordinator::NumberRanks() {
  int base_rank = 0;
  for (Seat& seat : seats_) {
    seat.base_rank = base_rank;
    if (seat.session != 0) base_rank += nodes_.at(seat.session).info.slots();
  }
}

void Coordinator::Decide(Outcome& outcome) {
  MembershipDecision decision = DecideMembership(roll_, options_.policy, now_);
  using Kind = MembershipDecision::Kind;
  wake_at_ = decision.kind == Kind::kWait ? decision.until : absl::InfiniteFuture();
  reason_ = std::move(decision.reason);
  switch (decision.kind) {
    case Kind::kNothing:
    case Kind::kWait:
      return;
    case Kind::kForm:
      return Form(outcome);
    case Kind::kRegroup:
      return Regroup(outcome);
    case Kind::kDissolve:
      return Dissolve(outcome);
    case Kind::kEnd:
      for (Seat& seat : seats_) {
        if (seat.state == Seat::State::kExpected) seat.state = Seat::State::kLost;
      }
      roll_.expected = 0;
      roll_.broken = roll_.broken || !keys_open_;  // after a restart they have had the grace
      EndGeneration(0, NodeCause("rendezvous", reason_, now_), outcome);
      return Decide(outcome);  // once: nothing runs now
  }
}

void Coordinator::Form(Outcome& outcome) {
  std::vector<Candidate> candidates;
  for (auto& [session, node] : nodes_) {
    if (node.waiting)
      candidates.push_back({session, node.seat, node.info.node_rank(), node.arrival, node.info.node_group()});
    node.seat = -1;
  }
  const std::vector<Session> members = OrderNodes(std::move(candidates), options_.policy.max_nodes);
  std::vector<int> slots;
  for (const Session session : members) slots.push_back(nodes_.at(session).info.slots());
  const RankLayout layout(slots);
  const proto::NodeInfo& first = nodes_.at(members[0]).info;

  proto::CoordinatorMessage message;
  proto::World& world = *message.mutable_world();
  world.set_generation(++roll_.last_generation);
  world.set_id(world_ = absl::StrCat(options_.incarnation, "-", roll_.last_generation));
  world.set_world_size(layout.world_size());
  world.set_nodes(layout.num_nodes());
  world.set_master_address(first.address());
  world.set_master_port(first.free_port());
  world.set_reason(reason_);
  seats_.assign(members.size(), Seat());
  for (int rank = 0; rank < layout.num_nodes(); ++rank) {
    Node& node = nodes_.at(members[rank]);
    StopWaiting(node);
    node.seat = rank;
    node.told = roll_.last_generation;
    seats_[rank] = {Seat::State::kPresent, members[rank], layout.base_rank(rank)};
    world.set_node_rank(rank);
    world.set_base_rank(layout.base_rank(rank));
    world.set_slots(node.info.slots());
    world.set_node_address(node.info.address());
    outcome.messages.push_back({members[rank], std::make_shared<proto::CoordinatorMessage>(message), false});
  }
  roll_.running = keys_open_ = true;
  roll_.members = roll_.present = layout.num_nodes();
  roll_.present_waiting = roll_.expected = 0;
  roll_.broken = false;
  lost_places_.clear();
  roll_.min_reached = now_;  // for spares that wait already, should the rest be too few
  outcome.begun = roll_.last_generation;
  if (roll_.waiting == 0) return;
  for (const auto& [session, node] : nodes_) {
    if (node.waiting) TellSpare(session, outcome);
  }
}

void Coordinator::TellSpare(Session session, Outcome& outcome) const {
  auto message = std::make_shared<proto::CoordinatorMessage>();
  proto::Spare& spare = *message->mutable_spare();
  spare.mutable_newest()->set_generation(roll_.last_generation);
  spare.mutable_newest()->set_world(world_);
  spare.mutable_newest()->set_nodes(static_cast<int>(seats_.size()));
  spare.mutable_newest()->set_node_rank(-1);
  spare.set_reason(absl::StrCat("generation ", roll_.last_generation, " runs on ", roll_.members, " of at most ",
                                options_.policy.max_nodes, " nodes"));
  outcome.messages.push_back({session, std::move(message), false});
}

void Coordinator::Regroup(Outcome& outcome) {
  roll_.regrouping = true;
  auto message = std::make_shared<proto::CoordinatorMessage>();
  proto::Regroup& regroup = *message->mutable_regroup();
  regroup.set_generation(roll_.last_generation);
  regroup.set_checkpoint(options_.policy.grow == GrowPolicy::kAtCheckpoint);
  regroup.set_reason(reason_);
  regroup_ = message;
  for (const Seat& seat : seats_) {
    if (seat.session != 0) outcome.messages.push_back({seat.session, message, false});
  }
}

void Coordinator::Dissolve(Outcome& outcome) {
  auto message = std::make_shared<proto::CoordinatorMessage>();
  message->mutable_refusal()->set_field("quorum");
  message->mutable_refusal()->set_message(reason_);
  message->mutable_refusal()->set_passing(true);
  for (auto it = nodes_.begin(); it != nodes_.end();) {
    const auto next = std::next(it);
    if (it->second.waiting) {
      outcome.messages.push_back({it->first, message, /*last=*/true});
      Remove(it, Seat::State::kLost);
    }
    it = next;
  }
}

proto::RosterReply Coordinator::Roster(int first_node_rank, int count) const {
  proto::RosterReply reply;
  reply.set_generation(roll_.last_generation);
  reply.set_running(roll_.running);
  reply.set_nodes(static_cast<int>(seats_.size()));
  reply.set_waiting(roll_.waiting);
  reply.set_reason(reason_);
  const int64_t first = std::max(0, first_node_rank);
  const int64_t end = std::min<int64_t>(seats_.size(), first + std::clamp(count, 0, kMaxRosterPage));
  for (int64_t rank = first; rank < end; ++rank) {
    proto::NodePlacement& member = *reply.add_members();
    member.set_node_rank(static_cast<int>(rank));
    member.set_base_rank(seats_[rank].base_rank);
    member.set_connected(seats_[rank].session != 0);
    if (seats_[rank].session != 0) *member.mutable_node() = nodes_.at(seats_[rank].session).info;
  }
  return reply;
}

}  // namespace composer
