// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/failover/quorum_history.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/worlds/generation.h"
#include "rendezvous/worlds/rank_layout.h"

namespace composer {
namespace {

constexpr int kMaxElectorates = 8;
constexpr size_t kMaxRivals = 3;  // the newest ones, so that what follows them can still be told

int RankIn(const proto::Electorate& world, const Voter& voter) {
  for (const proto::Electorate& part : voter.parts) {
    if (part.generation() == world.generation() && part.world() == world.world()) return part.node_rank();
  }
  return -1;
}

// Returns "" when the voter is not one of them.
std::string NameIn(const proto::Electorate& world, const Voter& voter) {
  if (world.generation() == 0) return voter.node_id;
  const int rank = RankIn(world, voter);
  return rank >= 0 ? absl::StrCat(rank) : "";
}

bool IsSame(const proto::Electorate& a, const proto::Electorate& b) {
  return a.generation() == b.generation() && a.world() == b.world();
}

bool IsOneOf(const std::vector<proto::Electorate>& worlds, const proto::Electorate& world) {
  return std::any_of(worlds.begin(), worlds.end(),
                     [&](const proto::Electorate& other) { return IsSame(other, world); });
}

bool IsValidPart(const proto::Electorate& part) {
  return part.nodes() >= 1 && part.nodes() <= kMaxNodes && part.world().size() <= kMaxWorldIdBytes &&
         part.generation() <= kMaxGeneration;
}

}  // namespace

Voter VoterOf(const std::string& node_id, const proto::MembershipRecord& record) {
  Voter voter{node_id, {record.before().begin(), record.before().end()}};
  if (record.generation() == 0) return voter;
  proto::Electorate& newest = voter.parts.emplace_back();
  newest.set_generation(record.generation());
  newest.set_world(record.world());
  newest.set_nodes(record.nodes());
  newest.set_node_rank(record.node_rank());
  return voter;
}

bool QuorumHistory::IsValid(const Parts& parts) {
  return parts.size() <= kMaxElectorates && std::all_of(parts.begin(), parts.end(), IsValidPart);
}

void QuorumHistory::Learn(const Parts& parts) {
  Clear();
  for (const proto::Electorate& part : parts) Add(part);
}

void QuorumHistory::Follow(uint64_t generation, const std::string& world, int nodes) {
  std::vector<Electorate> kept;
  std::vector<Votes> votes;
  for (size_t i = 0; i < history_.size(); ++i) {
    if (IsPast(votes_[i])) continue;
    kept.push_back(std::move(history_[i]));
    kept.back().rival = false;  // the next world follows it
    votes.push_back(votes_[i]);
    votes.back().waiting = 0;
    votes.back().first_waiting = false;
  }
  history_ = std::move(kept);
  votes_ = std::move(votes);
  rival_ = 0;
  proto::Electorate last;
  last.set_generation(generation);
  last.set_world(world);
  last.set_nodes(nodes);
  Add(last);
}

void QuorumHistory::Clear() {
  history_.clear();
  votes_.clear();
  rival_ = 0;
}

void QuorumHistory::HeedRival(const Voter& voter) {
  const auto is_first = [](const Electorate& e) { return e.world.generation() == 0; };
  const auto is_ours = [&](const Electorate& e) { return !e.rival && IsOneOf(voter.parts, e.world); };
  if (voter.parts.empty() || std::none_of(history_.begin(), history_.end(), is_first) ||
      std::any_of(history_.begin(), history_.end(), is_ours)) {
    return;
  }
  const size_t count = std::min(voter.parts.size(), kMaxRivals);
  const std::vector<proto::Electorate> parts(voter.parts.end() - static_cast<std::ptrdiff_t>(count), voter.parts.end());
  const uint64_t newest = parts.back().generation();
  if (newest < rival_ || !std::all_of(parts.begin(), parts.end(), IsValidPart)) return;
  for (size_t i = history_.size(); i-- > 0;) {
    if (!history_[i].rival || IsOneOf(parts, history_[i].world)) continue;
    history_.erase(history_.begin() + static_cast<std::ptrdiff_t>(i));
    votes_.erase(votes_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  if (newest == std::exchange(rival_, newest)) return;
  for (const proto::Electorate& part : parts) {
    const auto is_it = [&](const Electorate& e) { return IsSame(e.world, part); };
    if (std::any_of(history_.begin(), history_.end(), is_it)) continue;
    Add(part);
    history_.back().rival = true;
  }
}

void QuorumHistory::Add(const proto::Electorate& world) {
  history_.push_back({world, {}});
  votes_.push_back({.of = world.nodes()});
}

void QuorumHistory::Count(const Voter& voter, int change) {
  for (size_t i = 0; i < history_.size(); ++i) {
    const proto::Electorate& world = history_[i].world;
    if (NameIn(world, voter).empty()) continue;
    votes_[i].waiting += change;
    if (world.generation() == 0) votes_[i].first_waiting = holds_tie_;
    if (world.generation() > 0 && RankIn(world, voter) == 0) votes_[i].first_waiting = change > 0;
  }
}

bool QuorumHistory::Hear(const Voter& voter) {
  if (history_.empty()) return false;
  for (size_t i = 0; i < history_.size(); ++i) {
    const proto::Electorate& world = history_[i].world;
    const std::string name = NameIn(world, voter);
    if (name.empty()) continue;
    history_[i].knowing.insert(name);
    votes_[i].knowing = static_cast<int>(history_[i].knowing.size());
    if (world.generation() == 0 ? holds_tie_ : RankIn(world, voter) == 0) votes_[i].first_knowing = true;
  }
  return std::all_of(votes_.begin(), votes_.end(), IsPast);
}

void QuorumHistory::Tell(const Voter& voter, Parts* parts) const {
  for (const Electorate& electorate : history_) {
    proto::Electorate& part = *parts->Add();
    part = electorate.world;
    part.set_node_rank(RankIn(part, voter));
  }
}

}  // namespace composer
