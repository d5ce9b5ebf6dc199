// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/membership/coordinator.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/membership/admission.h"
#include "rendezvous/worlds/failure_cause.h"
#include "rendezvous/worlds/rank_layout.h"

namespace composer {

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
  TakeNodeRank(session, node, join.last());
  Hear(session, join.last(), outcome);
  GiveUpNodeRank(vacated, session, node.info, outcome);
  // Others that still save their part of the checkpoint are not to be ended for it; they leave by themselves.
  if (roster_.running && node.node_rank >= 0 && !roster_.resizing && !join.checkpointed()) {
    EndGeneration(
        session,
        NodeCause(node.info.node_id(), absl::StrCat(Describe(node.info, node.node_rank), " joined again"), now_,
                  /*vague=*/true),
        outcome);
  }
  if (node.node_rank >= 0) roster_.broken = true;
  StartWaiting(node);
  EndIfAllHaveGone(outcome);
  if (roster_.running && node.node_rank < 0) TellSpare(session, outcome);
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
  const proto::MembershipRecord& record = reattach.record();
  Learn(record, outcome);
  Node& node = Admit(session, reattach.node());
  node.voter = VoterOf(node.info.node_id(), record);
  TakeNodeRank(session, node, record);
  GiveUpNodeRank(vacated, session, node.info, outcome);
  auto answer = std::make_shared<proto::CoordinatorMessage>();
  if (roster_.running && node.node_rank >= 0) {
    answer->mutable_reattached()->set_generation(roster_.last_generation);
    if (!keys_open_) outcome.restore = roster_.last_generation;
  } else {
    answer->mutable_generation_over()->set_generation(record.generation());
    *answer->mutable_generation_over()->mutable_cause() = NodeCause(
        "rendezvous",
        IsNewest(record) ? over_because_.message()
                         : absl::StrCat("generation ", record.generation(),
                                        " went on without this node: the newest is ", roster_.last_generation),
        now_);
  }
  outcome.messages.push_back({session, std::move(answer), false});
  Hear(session, record, outcome);
  if (roster_.resizing && node.node_rank >= 0) outcome.messages.push_back({session, resize_, false});  // perhaps missed
  ResumeIfAllAreBack(outcome);
  Decide(outcome);
  return outcome;
}

Coordinator::Outcome Coordinator::GenerationEnded(Session session, uint64_t generation,
                                                  const proto::FailureCause& cause, absl::Time now) {
  Outcome outcome;
  Later(now);
  const auto it = nodes_.find(session);
  if (it == nodes_.end() || it->second.node_rank < 0 || it->second.waiting || generation != roster_.last_generation)
    return outcome;
  roster_.broken = true;
  if (roster_.running) {
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
  if (it == nodes_.end() || it->second.told != generation || generation != roster_.last_generation) return outcome;
  proto::MembershipRecord record;
  record.set_generation(generation);
  record.set_world(world_);
  quorum_history_.Tell(it->second.voter, record.mutable_before());
  Hear(session, record, outcome);
  Decide(outcome);
  return outcome;
}

Coordinator::Outcome Coordinator::Leave(Session session, bool done, absl::Time now) {
  Outcome outcome;
  Later(now);
  const auto it = nodes_.find(session);
  if (it == nodes_.end()) return outcome;
  const bool was_member = it->second.node_rank >= 0 && !it->second.waiting;
  if (done && was_member) roster_.done = true;
  Remove(it, Member::State::kLeft);
  EndIfAllHaveGone(outcome);
  if (done && was_member && !roster_.running && roster_.present == 0) {
    proto::Refusal refusal;
    refusal.set_done(true);
    refusal.set_message("the job is done");
    SendAway(refusal, outcome);
  }
  Decide(outcome);
  return outcome;
}

Coordinator::Outcome Coordinator::Lost(Session session, absl::Time now) {
  Outcome outcome;
  Later(now);
  const auto it = nodes_.find(session);
  if (it == nodes_.end()) return outcome;
  const int node_rank = it->second.node_rank;
  const auto was_lost = [&](const proto::NodeInfo& info) {
    return NodeCause(
        info.node_id(),
        absl::StrCat(Describe(info, node_rank), " was lost: its connection to the rendezvous ended without a farewell"),
        now_);
  };
  if (!roster_.running || node_rank < 0) {
    const bool explains = !roster_.running && node_rank >= 0 && !it->second.waiting && now_ >= stalled_until_;
    const proto::NodeInfo info = it->second.info;
    Remove(it, Member::State::kLost);
    if (explains) AmendCause(session, was_lost(info), outcome);
  } else if (it->second.waiting) {
    // Its workers ended in good order, for the world to grow; it may come back for its node rank.
    Remove(it, Member::State::kLost);
    EndIfAllHaveGone(outcome);
  } else if (now_ < stalled_until_) {
    roster_.expected_until = roster_.expected > 0 ? std::max(roster_.expected_until, stalled_until_) : stalled_until_;
    Remove(it, Member::State::kExpected);
  } else if (options_.policy.blip > absl::ZeroDuration() && it->second.info.life().port() > 0) {
    BeginAbsence(it, outcome);
  } else {
    const proto::NodeInfo info = it->second.info;
    Remove(it, Member::State::kLost);
    EndGeneration(session, was_lost(info), outcome);
  }
  Decide(outcome);
  return outcome;
}

void Coordinator::Stalled(absl::Time now) {
  const bool was_settling = now_ < roster_.settled;
  stalled_until_ = Later(now) + kStallAllowance;
  for (auto& [node_rank, absence] : absences_) {  // answers, and the nodes themselves, may be on their way
    absence.since = now_;
    absence.next = stalled_until_;
    roster_.expected_until = std::max(roster_.expected_until, now_ + options_.policy.blip);
  }
  if (roster_.running && roster_.expected > 0)
    roster_.expected_until = std::max(roster_.expected_until, stalled_until_);
  if (was_settling) roster_.settled = std::max(roster_.settled, stalled_until_);
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
  // At most one connected node has this node_id, so at least one of the first two is another node.
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

}  // namespace composer
