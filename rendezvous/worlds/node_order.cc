// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/worlds/node_order.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <unordered_set>

namespace composer {
namespace {

constexpr int kLast = std::numeric_limits<int>::max();

// Where a node stands before ranks close up. `behind` orders the nodes at the same place: those placed by group follow
// the group's last one.
struct Place {
  int rank = kLast;
  bool behind = false;
  int64_t group_arrival = 0;
  int64_t arrival = 0;
  uint64_t id = 0;

  auto Key() const { return std::tie(rank, behind, group_arrival, arrival); }
};

void KeepBest(std::vector<Candidate>& candidates, int max_nodes) {
  if (static_cast<int>(candidates.size()) <= max_nodes) return;
  std::nth_element(candidates.begin(), candidates.begin() + max_nodes, candidates.end(),
                   [](const Candidate& a, const Candidate& b) {
                     return std::tuple(a.previous_rank < 0, a.arrival) < std::tuple(b.previous_rank < 0, b.arrival);
                   });
  candidates.resize(max_nodes);
}

}  // namespace

std::vector<uint64_t> OrderNodes(std::vector<Candidate> candidates, int max_nodes) {
  KeepBest(candidates, max_nodes);
  std::unordered_set<int> held;
  for (const Candidate& c : candidates) held.insert(c.previous_rank);
  const auto own_place = [&](const Candidate& c) {
    if (c.previous_rank >= 0) return c.previous_rank;
    return c.given_rank >= 0 && held.count(c.given_rank) == 0 ? c.given_rank : kLast;
  };
  struct Group {
    int last_rank = -1;  // the highest place that a node of the group holds
    int64_t arrival = std::numeric_limits<int64_t>::max();
  };
  std::map<absl::string_view, Group> groups;
  for (const Candidate& c : candidates) {
    if (c.group.empty()) continue;
    Group& group = groups[c.group];
    group.arrival = std::min(group.arrival, c.arrival);
    if (const int place = own_place(c); place != kLast) group.last_rank = std::max(group.last_rank, place);
  }
  std::vector<Place> places;
  places.reserve(candidates.size());
  for (const Candidate& c : candidates) {
    Place place{.rank = own_place(c), .group_arrival = c.arrival, .arrival = c.arrival, .id = c.id};
    if (place.rank == kLast && !c.group.empty()) {
      const Group& group = groups[c.group];
      place.group_arrival = group.arrival;
      if (group.last_rank >= 0) place.rank = group.last_rank, place.behind = true;
    }
    places.push_back(place);
  }
  std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) { return a.Key() < b.Key(); });
  std::vector<uint64_t> ids;
  ids.reserve(places.size());
  for (const Place& place : places) ids.push_back(place.id);
  return ids;
}

}  // namespace composer
