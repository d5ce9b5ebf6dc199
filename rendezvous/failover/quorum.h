// Whose presence the next world needs, so that no two coordinators that do not hear of each other both go on. Pure.
//
// A world follows the newest one that its nodes have heard of. Its electorate is that one's nodes: more than half of them
// must be there, or half of them with node rank 0. Two such sets have a node in common, so of the worlds that follow one
// world only one can have all that it takes.
//
// That is enough if the world before was known to all it was made of. It may not be: formed with nodes whose connection
// was dead already, it reached some, and the others may be a majority of the one before it, elsewhere. So a world keeps
// the electorates before it until a majority of each has answered that it knows of the world (WorldTaken): who forms a
// world of that majority's nodes will hear of it. Until then a majority of those must be there as well.
// Before the first world, every node is an elector, of max_nodes, by its name; also one that went on with another first
// world, which may have a smaller number and a majority's knowledge. That one must agree then too
// (QuorumHistory::HeedRival).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/time/time.h"

namespace composer {

// How long a server without a quorum keeps its nodes before it sends them to look for another.
inline constexpr absl::Duration kQuorumWait = absl::Seconds(10);

// Of one electorate.
struct Votes {
  int of = 0;                  // that count in all
  int waiting = 0;             // here, and free for the next world
  bool first_waiting = false;  // node rank 0 is one of them
  int knowing = 0;             // have heard of a world that follows
  bool first_knowing = false;
};

inline bool IsMajority(int count, int of, bool with_first) { return 2 * count > of || (2 * count == of && with_first); }
// Nobody can form a world of this electorate without hearing of what followed.
inline bool IsPast(const Votes& votes) { return IsMajority(votes.knowing, votes.of, votes.first_knowing); }
inline bool Agrees(const Votes& votes) {
  return IsPast(votes) || IsMajority(votes.waiting, votes.of, votes.first_waiting);
}

}  // namespace composer
