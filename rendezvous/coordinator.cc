// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/admission.h"
#include "rendezvous/failure_cause.h"
#include "rendezvous/rank_layout.h"

namespace composer {
namespace {

std::string Describe(const proto::NodeInfo& node, int node_rank) {
  return absl::StrCat("node ", node_rank, " (", node.hostname(), ")");
}

proto::FailureCause NodeCause(const proto::NodeInfo& node, std::string message, absl::Time now) {
  proto::FailureCause cause;
  cause.set_node_id(node.node_id());
  cause.set_rank(-1);
  cause.set_message(std::move(message));
  cause.set_unix_micros(absl::ToUnixMicros(now));
  return cause;
}

}  // namespace

Coordinator::Outcome Coordinator::Join(Session session, const proto::Caller& caller, const proto::NodeInfo& info,
                                       absl::Time now) {
  Outcome outcome;
  if (auto refusal = Check(caller, info)) {
    auto message = std::make_shared<proto::CoordinatorMessage>();
    *message->mutable_refusal() = std::move(*refusal);
    outcome.messages.push_back({session, std::move(message), /*last=*/true});
    return outcome;
  }
  const auto old = by_id_.find(info.node_id());
  if (old != by_id_.end() && old->second != session) {
    const Session replaced = old->second;
    outcome = Lost(replaced, now);
    outcome.replaced.push_back(replaced);
  }
  Node& node = Admit(session, info);
  if (node.waiting) return outcome;
  if (roll_.running && node.previous_rank >= 0) {
    EndGeneration(session, NodeCause(info, absl::StrCat(Describe(info, node.previous_rank), " joined again"), now), now,
                  outcome);
  }
  StartWaiting(node, now);
  Decide(now, outcome);
  return outcome;
}

Coordinator::Outcome Coordinator::GenerationEnded(Session session, uint64_t generation,
                                                  const proto::FailureCause& cause, absl::Time now) {
  Outcome outcome;
  const auto it = nodes_.find(session);
  if (it == nodes_.end() || it->second.previous_rank < 0 || generation != roll_.last_generation || !roll_.running)
    return outcome;
  EndGeneration(session, cause, now, outcome);
  Decide(now, outcome);
  return outcome;
}

Coordinator::Outcome Coordinator::Leave(Session session, absl::Time now) {
  Outcome outcome;
  const auto it = nodes_.find(session);
  if (it == nodes_.end()) return outcome;
  const proto::NodeInfo info = it->second.info;
  Remove(it);
  if (roll_.running && roll_.survivors == 0)
    EndGeneration(session, NodeCause(info, "all nodes have left", now), now, outcome);
  Decide(now, outcome);
  return outcome;
}

Coordinator::Outcome Coordinator::Lost(Session session, absl::Time now) {
  Outcome outcome;
  const auto it = nodes_.find(session);
  if (it == nodes_.end()) return outcome;
  const Node node = it->second;
  Remove(it);
  if (roll_.running && node.previous_rank >= 0) {
    const std::string message = absl::StrCat(Describe(node.info, node.previous_rank),
                                             " was lost: its connection to the rendezvous ended without a farewell");
    EndGeneration(session, NodeCause(node.info, message, now), now, outcome);
  }
  Decide(now, outcome);
  return outcome;
}

Coordinator::Outcome Coordinator::Tick(absl::Time now) {
  Outcome outcome;
  Decide(now, outcome);
  return outcome;
}

std::optional<proto::Refusal> Coordinator::Check(const proto::Caller& caller, const proto::NodeInfo& info) const {
  AdmissionTerms terms{.job = job_};
  const auto is_other = [&](const Node& node) { return node.info.node_id() != info.node_id(); };
  // At most one connected node has this node_id, so one of the first two is another.
  for (auto it = nodes_.begin(); it != nodes_.end() && terms.example == nullptr; ++it) {
    if (is_other(it->second)) terms.example = &it->second.info;
  }
  const auto same = by_given_rank_.find(info.node_rank());
  if (same != by_given_rank_.end() && is_other(nodes_.at(same->second)))
    terms.same_rank = &nodes_.at(same->second).info;
  const auto refusal = CheckAdmission(caller.job(), info, terms);
  if (!refusal.has_value()) return std::nullopt;
  proto::Refusal message;
  message.set_field(refusal->field);
  message.set_message(refusal->message);
  return message;
}

// What a node said of itself at its first Join holds for its stream.
Coordinator::Node& Coordinator::Admit(Session session, const proto::NodeInfo& info) {
  const auto [it, is_new] = nodes_.try_emplace(session);
  if (is_new) {
    it->second.info = info;
    by_id_[info.node_id()] = session;
    if (info.node_rank() >= 0) by_given_rank_[info.node_rank()] = session;
  }
  return it->second;
}

void Coordinator::StartWaiting(Node& node, absl::Time now) {
  node.waiting = true;
  node.arrival = num_arrivals_++;
  ++roll_.waiting;
  if (node.previous_rank >= 0) ++roll_.survivors_waiting;
  if (roll_.waiting == policy_.min_nodes) roll_.min_reached = now;
}

void Coordinator::Remove(Nodes::iterator it) {
  const Node& node = it->second;
  if (node.waiting) --roll_.waiting;
  if (node.previous_rank >= 0) {
    --roll_.survivors;
    if (node.waiting) --roll_.survivors_waiting;
  }
  by_id_.erase(node.info.node_id());
  by_given_rank_.erase(node.info.node_rank());
  nodes_.erase(it);
}

void Coordinator::EndGeneration(Session reporter, proto::FailureCause cause, absl::Time now, Outcome& outcome) {
  roll_.running = false;
  roll_.ended = now;
  TidyCause(cause);
  outcome.ended = roll_.last_generation;
  outcome.why_ended = cause.message();
  auto message = std::make_shared<proto::CoordinatorMessage>();
  message->mutable_generation_over()->set_generation(roll_.last_generation);
  *message->mutable_generation_over()->mutable_cause() = std::move(cause);
  for (const auto& [session, node] : nodes_) {
    if (session != reporter && node.previous_rank >= 0) outcome.messages.push_back({session, message, false});
  }
}

void Coordinator::Decide(absl::Time now, Outcome& outcome) {
  MembershipDecision decision = DecideMembership(roll_, policy_, now);
  wake_at_ = decision.kind == MembershipDecision::Kind::kWait ? decision.until : absl::InfiniteFuture();
  reason_ = std::move(decision.reason);
  if (decision.kind == MembershipDecision::Kind::kForm) Form(now, outcome);
}

void Coordinator::Form(absl::Time now, Outcome& outcome) {
  std::vector<Candidate> candidates;
  for (auto& [session, node] : nodes_) {
    if (node.waiting) candidates.push_back({session, node.previous_rank, node.info.node_rank(), node.arrival});
    node.previous_rank = -1;
  }
  const std::vector<Session> members = OrderNodes(std::move(candidates), policy_.max_nodes);
  std::vector<int> slots;
  for (const Session session : members) slots.push_back(nodes_[session].info.slots());
  const RankLayout layout(slots);

  auto message = std::make_shared<proto::CoordinatorMessage>();
  proto::World& world = *message->mutable_world();
  world.set_generation(++roll_.last_generation);
  world.set_world_size(layout.world_size());
  world.set_reason(reason_);
  for (size_t rank = 0; rank < members.size(); ++rank) {
    Node& node = nodes_[members[rank]];
    node.waiting = false;
    node.previous_rank = static_cast<int>(rank);
    proto::NodePlacement& placement = *world.add_nodes();
    *placement.mutable_node() = node.info;
    placement.set_node_rank(node.previous_rank);
    placement.set_base_rank(layout.base_rank(node.previous_rank));
    outcome.messages.push_back({members[rank], message, false});
  }
  roll_.running = true;
  roll_.waiting -= static_cast<int>(members.size());
  roll_.survivors = static_cast<int>(members.size());
  roll_.survivors_waiting = 0;
  roll_.min_reached = now;  // for spares that wait already, should the rest be too few
  outcome.begun = roll_.last_generation;
}

}  // namespace composer
