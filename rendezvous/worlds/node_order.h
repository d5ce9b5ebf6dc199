// Which waiting nodes form the next world, and in which order. Pure.
//
// Nodes of the last world are taken first, then the others by arrival; at most max_nodes. A node is placed by its
// previous rank, else by its given rank unless a node of the last world holds that one, else at the end by arrival. A
// replacement thus takes the place of the node it replaces, and ranks close up, in order, over nodes that are gone. A
// node with neither rank goes to the end of its group (Slurm's switch or block, --node-group), so that neighbours in
// the network are neighbours in rank; a first world of nodes without given ranks is ordered by group, groups by their
// first arrival.
// Takes O(n + m log m) for n candidates and m = min(n, max_nodes).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace composer {

// A waiting node as the ordering sees it.
struct Candidate {
  uint64_t id = 0;          // the caller's handle
  int previous_rank = -1;   // node rank in the last world; -1: was not in it
  int given_rank = -1;      // as the user or the platform gave it; -1: not given
  int64_t arrival = 0;      // order of joining
  absl::string_view group;  // network group; "": none
};

// Returns the handles of the next world's nodes, by node rank.
std::vector<uint64_t> OrderNodes(std::vector<Candidate> candidates, int max_nodes);

}  // namespace composer
