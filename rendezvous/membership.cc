// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/membership.h"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"

namespace composer {
namespace {

using Kind = MembershipDecision::Kind;

std::string Nodes(int count) { return absl::StrCat(count, count == 1 ? " node" : " nodes"); }

}  // namespace

MembershipDecision DecideMembership(const RollCall& roll, const MembershipPolicy& policy, absl::Time now) {
  if (roll.running) {
    return {Kind::kNothing, {}, absl::StrCat("generation ", roll.last_generation, " is running")};
  }
  if (roll.waiting < policy.min_nodes) {
    return {Kind::kNothing, {}, absl::StrCat(Nodes(roll.waiting), " here, at least ", policy.min_nodes, " needed")};
  }
  if (roll.waiting >= policy.max_nodes) {
    return {Kind::kForm, {}, absl::StrCat("all ", Nodes(policy.max_nodes), " are here")};
  }
  const bool survivors_missing = roll.survivors_waiting < roll.survivors;
  if (roll.survivors > 0 && !survivors_missing) {
    return {Kind::kForm,
            {},
            absl::StrCat("the ", Nodes(roll.survivors), " left of generation ", roll.last_generation, " are back")};
  }
  absl::Time deadline = roll.min_reached + policy.last_call;
  if (survivors_missing) deadline = std::max(deadline, roll.ended + kSurvivorWait);
  if (now >= deadline) {
    return {Kind::kForm,
            {},
            absl::StrCat(Nodes(roll.waiting), " of at most ", policy.max_nodes, " are here and the last call is over")};
  }
  return {Kind::kWait, deadline,
          survivors_missing
              ? absl::StrCat(roll.survivors - roll.survivors_waiting, " of the ", Nodes(roll.survivors),
                             " left of generation ", roll.last_generation, " not back yet")
              : absl::StrCat("last call: ", Nodes(roll.waiting), " of at most ", policy.max_nodes, " are here")};
}

std::vector<uint64_t> OrderNodes(std::vector<Candidate> candidates, int max_nodes) {
  constexpr int kLast = std::numeric_limits<int>::max();
  if (static_cast<int>(candidates.size()) > max_nodes) {
    std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
      return std::tuple(a.previous_rank < 0, a.arrival) < std::tuple(b.previous_rank < 0, b.arrival);
    });
    candidates.resize(max_nodes);
  }
  std::set<int> held;
  for (const Candidate& c : candidates) held.insert(c.previous_rank);
  const auto place = [&](const Candidate& c) {
    if (c.previous_rank >= 0) return c.previous_rank;
    return c.given_rank >= 0 && held.count(c.given_rank) == 0 ? c.given_rank : kLast;
  };
  std::sort(candidates.begin(), candidates.end(), [&](const Candidate& a, const Candidate& b) {
    return std::tuple(place(a), a.arrival) < std::tuple(place(b), b.arrival);
  });
  std::vector<uint64_t> ids;
  ids.reserve(candidates.size());
  for (const Candidate& c : candidates) ids.push_back(c.id);
  return ids;
}

}  // namespace composer
