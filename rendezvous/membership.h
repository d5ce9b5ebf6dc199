// When a world forms, and of which nodes in which order. Pure: counts and times in, a decision and its reason out.
//
//   a world is running                           nothing: a late node waits for the next generation
//   fewer than min_nodes wait                    nothing: the next join decides again
//   max_nodes wait                               form
//   all surviving nodes of the last world wait   form: no last call for nodes that were just there
//   else                                         form when the last call, counted from the min_nodes-th join, is over;
//                                                a survivor that is still ending its workers is waited for
//                                                kSurvivorWait from the end of its world
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace composer {

// Longer than a launcher needs to end its workers by SIGKILL, so that a slow survivor is not left out of the next
// world.
inline constexpr absl::Duration kSurvivorWait = absl::Seconds(15);

struct MembershipPolicy {
  int min_nodes = 1;  // 1 <= min_nodes <= max_nodes
  int max_nodes = 1;
  absl::Duration last_call = absl::Seconds(1);
};

// Who is here, in numbers, so that a decision costs the same for 2 nodes and for 100,000.
struct RollCall {
  int waiting = 0;               // nodes that have joined and are in no running world
  absl::Time min_reached;        // when `waiting` last rose to min_nodes; read only when waiting >= min_nodes
  uint64_t last_generation = 0;  // 0: there was none
  bool running = false;          // the last generation is not over
  absl::Time ended;              // of the last generation; read only when it is over
  int survivors = 0;             // nodes of the last world that are still connected
  int survivors_waiting = 0;     // of these, the ones that have joined again
};

struct MembershipDecision {
  enum class Kind { kNothing, kWait, kForm };
  Kind kind = Kind::kNothing;
  absl::Time until;    // kWait only: decide again then, if nothing happened before
  std::string reason;  // one line for people
};

MembershipDecision DecideMembership(const RollCall& roll, const MembershipPolicy& policy, absl::Time now);

// A waiting node as the order sees it.
struct Candidate {
  uint64_t id = 0;         // the caller's handle
  int previous_rank = -1;  // node rank in the last world; -1: was not in it
  int given_rank = -1;     // as the user or the platform gave it; -1: not given
  int64_t arrival = 0;     // order of joining
};

// The handles of the next world's nodes, by node rank; at most max_nodes of them. Nodes of the last world are taken
// first, then by arrival. Order: the previous rank, else the given rank unless a node of the last world holds that one,
// else by arrival at the end. So a replacement takes the place of the node it replaces, and ranks close up, in order,
// over nodes that are gone.
std::vector<uint64_t> OrderNodes(std::vector<Candidate> candidates, int max_nodes);

}  // namespace composer
