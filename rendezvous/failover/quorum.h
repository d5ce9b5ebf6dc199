// Decides whose presence the next world needs, so that two coordinators that do not hear of each other never both go
// on. Pure.
//
// A world follows the newest one that its nodes have heard of. The nodes of that one are its electorate: more than half
// of them must be present, or half of them including node rank 0. Two such sets have a node in common, so of the worlds
// that follow one world only one can reach a quorum.
//
// That suffices if all members of the previous world knew of it, which is not certain: formed with nodes whose
// connection was already dead, it reached only some, and the others may be a majority of the world before it,
// elsewhere. A world therefore keeps the electorates before it until a majority of each has confirmed that it knows of
// the world (WorldTaken): whoever forms a world of that majority's nodes will hear of it. Until then a majority of
// those electorates must be present as well.
// Before the first world, the electorate is all of the job's max_nodes nodes, by name. This includes a node that went
// on with another first world, which may have a smaller number and be known to a majority. That world must then agree
// too (QuorumHistory::HeedRival).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/time/time.h"

namespace composer {

// How long a server without a quorum keeps its nodes before it sends them to look for another server.
inline constexpr absl::Duration kQuorumWait = absl::Seconds(10);

// The state of one electorate.
struct Votes {
  int of = 0;                  // electors in total
  int waiting = 0;             // connected, and free for the next world
  bool first_waiting = false;  // node rank 0 is one of them
  int knowing = 0;             // electors that have heard of a world that follows
  bool first_knowing = false;
};

inline bool IsMajority(int count, int of, bool with_first) { return 2 * count > of || (2 * count == of && with_first); }
// True when nobody can form a world of this electorate without hearing of what followed.
inline bool IsPast(const Votes& votes) { return IsMajority(votes.knowing, votes.of, votes.first_knowing); }
inline bool Agrees(const Votes& votes) {
  return IsPast(votes) || IsMajority(votes.waiting, votes.of, votes.first_waiting);
}

}  // namespace composer
