// Decides about nodes of a world whose connection broke without a farewell: lost, or only cut off from this process?
//
// Up to kProbers other nodes of the world are asked whether they reach the node's launcher:
//   one reaches it                          they are asked again kProbeInterval later
//   all that answer cannot reach it         it is lost: its process, its host or its network is gone
//   nobody is here who could be asked       it is waited for: all are cut off from us, and perhaps not from each other
//   it re-attaches                          nothing has happened
//   none of that for MembershipPolicy.blip  it is lost
//   a successor comes from its place        it is lost
// A prober that is itself lost or cut off gives no answer: after kAnswerLimit the others' answers count, or all are
// asked again. Beyond kMaxAbsences at a time nobody is asked, because then this process is the one that is cut off.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/membership/coordinator.h"
#include "rendezvous/worlds/failure_cause.h"

namespace composer {
namespace {

constexpr size_t kProbers = 3;
constexpr size_t kMaxMembersLookedAt = 64;  // members to look at for a prober
constexpr size_t kMaxAbsences = 64;
constexpr absl::Duration kProbeInterval = absl::Seconds(1);
constexpr absl::Duration kAnswerLimit = absl::Seconds(2);  // a busy node answers late, a lost one is noticed anyway

}  // namespace

void Coordinator::BeginAbsence(Nodes::iterator it, Outcome& outcome) {
  const int node_rank = it->second.node_rank;
  const absl::Time until = now_ + options_.policy.blip;
  roster_.expected_until = roster_.expected > 0 ? std::max(roster_.expected_until, until) : until;
  Absence absence{.info = it->second.info, .since = now_, .asked = {}, .next = absl::InfiniteFuture()};
  Remove(it, Member::State::kExpected);
  if (absences_.size() >= kMaxAbsences) return;
  Ask(node_rank, absences_[node_rank] = std::move(absence), outcome);
}

void Coordinator::Ask(int node_rank, Absence& absence, Outcome& outcome) {
  absence.asked.clear();
  absence.unreached = false;
  auto message = std::make_shared<proto::CoordinatorMessage>();
  message->mutable_probe()->set_node_id(absence.info.node_id());
  *message->mutable_probe()->mutable_life() = absence.info.life();
  const size_t size = members_.size();
  for (size_t i = 1; i < std::min(size, kMaxMembersLookedAt) && absence.asked.size() < kProbers; ++i) {
    const Session session = members_[(static_cast<size_t>(node_rank) + i) % size].session;
    if (session == 0) continue;
    absence.asked.insert(session);
    outcome.messages.push_back({session, message, false});
  }
  absence.next = now_ + (absence.asked.empty() ? kProbeInterval : kAnswerLimit);
}

Coordinator::Outcome Coordinator::Probed(Session session, const proto::Probed& probed, absl::Time now) {
  Outcome outcome;
  Later(now);
  for (auto& [node_rank, absence] : absences_) {
    if (absence.info.node_id() != probed.node_id() || absence.asked.erase(session) == 0) continue;
    absence.unreached = !probed.reached();
    if (!probed.reached()) continue;
    absence.asked.clear();
    absence.next = now_ + kProbeInterval;
  }
  Decide(outcome);
  return outcome;
}

bool Coordinator::Review(int node_rank, Absence& absence, Outcome& outcome) {
  if (members_[node_rank].state != Member::State::kExpected) return false;
  if (absence.unreached && (absence.asked.empty() || now_ >= absence.next)) {
    return LoseAbsent(node_rank, "and no other node reaches it", outcome), false;
  }
  if (now_ >= absence.since + options_.policy.blip) {
    LoseAbsent(node_rank, absl::StrCat("and was not back within ", absl::FormatDuration(options_.policy.blip)),
               outcome);
    return false;
  }
  const bool no_answer = absence.asked.empty() && absence.next > now_ + kProbeInterval;  // all probers are lost
  if (now_ >= absence.next || no_answer) Ask(node_rank, absence, outcome);
  return true;
}

void Coordinator::ReviewAbsences(Outcome& outcome) {
  for (auto it = absences_.begin(); it != absences_.end();)
    it = Review(it->first, it->second, outcome) ? std::next(it) : absences_.erase(it);
}

// If the generation is already over, this may be why.
void Coordinator::LoseAbsent(int node_rank, const std::string& why, Outcome& outcome) {
  const proto::NodeInfo& info = absences_.at(node_rank).info;
  members_[node_rank].state = Member::State::kLost;
  --roster_.expected;
  lost_places_[PlaceName(info)] = info.node_id();
  proto::FailureCause cause =
      NodeCause(info.node_id(),
                absl::StrCat(Describe(info, node_rank),
                             " was lost: its connection to the rendezvous ended without a farewell, ", why),
                now_);
  roster_.running ? EndGeneration(0, std::move(cause), outcome) : AmendCause(0, std::move(cause), outcome);
}

}  // namespace composer
