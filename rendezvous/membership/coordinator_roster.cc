// What users see of the worlds: which node is where, and what the nodes report on request. No decision reads it.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "rendezvous/membership/coordinator.h"
#include "rendezvous/worlds/failure_cause.h"
#include "rendezvous/worlds/rank_layout.h"

namespace composer {
namespace {

constexpr int kMaxRosterPage = 1000;
constexpr size_t kMaxPhaseBytes = 64;
// A node is asked at most this often, however many users look.
constexpr absl::Duration kLookInterval = absl::Milliseconds(300);

}  // namespace

// Returns a page of the newest world's members: [begin, end).
std::pair<int64_t, int64_t> Coordinator::Page(int first_node_rank, int count) const {
  const int64_t size = static_cast<int64_t>(members_.size());
  const int64_t begin = std::clamp<int64_t>(first_node_rank, 0, size);
  return {begin, std::min<int64_t>(size, begin + std::clamp(count, 0, kMaxRosterPage))};
}

Coordinator::Outcome Coordinator::Look(int first_node_rank, int count, absl::Time now) {
  Outcome outcome;
  Later(now);
  auto look = std::make_shared<proto::CoordinatorMessage>();
  look->mutable_look();
  const auto [begin, end] = Page(first_node_rank, count);
  for (int64_t rank = begin; rank < end; ++rank) {
    if (members_[rank].session == 0) continue;
    Node& node = nodes_.at(members_[rank].session);
    if (now_ < node.looked + kLookInterval) continue;
    node.looked = now_;
    outcome.messages.push_back({members_[rank].session, look, false});
  }
  return outcome;
}

void Coordinator::Report(Session session, const proto::NodeReport& report, absl::Time now) {
  Later(now);
  const auto it = nodes_.find(session);
  if (it == nodes_.end() || report.ranks_size() > kMaxSlots) return;
  it->second.report = report;
  it->second.reported = now_;
  TidyText(*it->second.report.mutable_state(), kMaxPhaseBytes);
  TidyText(*it->second.report.mutable_last_cause(), kMaxCauseMessageBytes);
  for (proto::RankStatus& rank : *it->second.report.mutable_ranks()) TidyText(*rank.mutable_phase(), kMaxPhaseBytes);
}

proto::RosterReply Coordinator::Roster(int first_node_rank, int count) const {
  proto::RosterReply reply;
  reply.set_generation(roster_.last_generation);
  reply.set_running(roster_.running);
  reply.set_nodes(static_cast<int>(members_.size()));
  reply.set_waiting(roster_.waiting);
  reply.set_reason(reason_);
  reply.set_in_world(roster_.present - roster_.present_waiting + (roster_.running ? roster_.expected : 0));
  const auto [begin, end] = Page(first_node_rank, count);
  for (int64_t rank = begin; rank < end; ++rank) {
    proto::NodePlacement& member = *reply.add_members();
    member.set_node_rank(static_cast<int>(rank));
    member.set_base_rank(members_[rank].base_rank);
    member.set_connected(members_[rank].session != 0);
    if (members_[rank].session == 0) continue;
    const Node& node = nodes_.at(members_[rank].session);
    *member.mutable_node() = node.info;
    if (node.reported == absl::InfinitePast()) continue;
    *member.mutable_report() = node.report;
    member.set_report_age_seconds(absl::ToDoubleSeconds(now_ - node.reported));
  }
  return reply;
}

}  // namespace composer
