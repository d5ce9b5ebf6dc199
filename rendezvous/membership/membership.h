// Decides when a world forms, ends or grows. Pure: counts and times in, a decision and its reason out.
//
//   a world is running
//     all of its nodes are here                    nothing, or grow (below)
//     some are not back after a coordinator's      end it when their time is over
//     absence (Coordinator, "recovering")
//     nodes wait and it has fewer than max_nodes   resize kGrowSettle after the last of them came (GrowPolicy)
//   no world is running
//     this coordinator may have forgotten a world  wait until `settled`
//     the last world may go on where we can't see  wait for `grace` from its end, without a quorum kSurvivorWait
//                                                  longer: its launchers have given up then, and ended their workers
//     no quorum of the last world (if required)    wait; dissolve quorum_wait after its end; but form anew when all the
//                                                  job may have are here: most of them were started anew
//     fewer than min_nodes wait                    nothing: the next join decides again; where an earlier host of the
//                                                  list may serve others, dissolve after quorum_wait
//     max_nodes wait, no survivor is missing       form
//     all survivors of the last world wait         form: no last call for nodes that were just there
//     else                                         form after the last call, counted from the min_nodes-th join;
//                                                  survivors that still end their workers are waited for kSurvivorWait
//                                                  (kSurvivorPreference when max_nodes wait without them)
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "rendezvous/failover/quorum.h"

namespace composer {

// Longer than a launcher needs to end its workers by SIGKILL, so that a slow survivor is not left out of the next
// world.
inline constexpr absl::Duration kSurvivorWait = absl::Seconds(15);
// A survivor keeps its rank although a spare is quicker, if it comes within this time of the end of its world.
inline constexpr absl::Duration kSurvivorPreference = absl::Seconds(1);
inline constexpr absl::Duration kBlip = absl::Seconds(10);
// Nodes that are added together arrive within seconds of each other: one resize takes them all.
inline constexpr absl::Duration kGrowSettle = absl::Seconds(5);

// What happens to a running world that could have more nodes. A checkpoint costs seconds and loses no step; an
// immediate end throws away the steps since the last checkpoint; kNever waits for the next failure.
enum class GrowPolicy { kAtCheckpoint, kNow, kNever };

struct MembershipPolicy {
  int min_nodes = 1;  // 1 <= min_nodes <= max_nodes
  int max_nodes = 1;
  absl::Duration last_call = absl::Seconds(1);
  GrowPolicy grow = GrowPolicy::kAtCheckpoint;
  // More than half of the last world's nodes must be present to form the next one: for jobs in which another host could
  // serve as well (succession.h), so that the two sides of a partitioned network never both go on; see quorum.h. A
  // first world needs more than half of max_nodes, or half where the server `holds_tie`, which the first one on the
  // list does.
  bool quorum = false;
  bool holds_tie = true;
  absl::Duration quorum_wait = kQuorumWait;
  // How long the nodes of a running world may take to come back to a coordinator that was restarted.
  absl::Duration grace = absl::Seconds(60);
  // How long a node of a running world may be cut off from the rendezvous while other nodes reach its launcher
  // (Coordinator, "absent"). 0: a broken connection means a lost node.
  absl::Duration blip = kBlip;
};

// Who is present, in numbers, so that a decision costs the same for 2 nodes and for 100,000.
struct MemberRoster {
  int waiting = 0;               // nodes that have joined and are in no running world
  absl::Time min_reached;        // when `waiting` last rose to min_nodes; read only when waiting >= min_nodes
  uint64_t last_generation = 0;  // 0: there was none
  bool running = false;          // the last generation is not over
  absl::Time ended;              // end of the last generation; read only when it is over
  int members = 0;               // nodes of the last world, without those that said Leave
  bool done = false;             // one of those that said Leave was done: the others are about to be
  int present = 0;               // members that are connected
  bool first_present = false;    // node rank 0 is connected
  bool first_waiting = false;    // node rank 0 has joined again
  int present_waiting = 0;       // connected members that have joined again
  int expected = 0;              // members neither heard of since the coordinator began nor given up
  absl::Time expected_until;     // read only when expected > 0
  // A member of the last world is known to have ended its workers, or to be dead. If false, all of them may be cut off
  // from us together, and go on.
  bool broken = true;
  absl::Time settled = absl::InfinitePast();       // before it, a world may be running that nobody has reported
  absl::Time last_waiting = absl::InfinitePast();  // when the newest waiting node came
  bool resizing = false;                           // the running world was asked to end for growth
  // As many nodes as the job may have wait here, each with its own given node rank, and nobody else is connected: no
  // node is left to go on elsewhere, whatever was heard of an earlier world.
  bool all_here = false;
  std::vector<Votes> before;  // electorates of worlds before the last one, see quorum.h
};

struct MembershipDecision {
  enum class Kind {
    kNothing,
    kWait,      // decide again at `until` if nothing happens before
    kForm,      // form the next world from the waiting nodes
    kEnd,       // end the running world: members are missing
    kResize,    // ask the running world to end for growth
    kDissolve,  // send all waiting nodes to look elsewhere: no quorum, or too few
  };
  Kind kind = Kind::kNothing;
  absl::Time until;    // kWait only
  std::string reason;  // one line for the user
  bool anew = false;   // kForm: without the quorum of the last world, since all nodes are present
};

MembershipDecision DecideMembership(const MemberRoster& roster, const MembershipPolicy& policy, absl::Time now);

// Parses "checkpoint", "now" or "never"; returns false for anything else.
bool ParseGrowPolicy(const std::string& text, GrowPolicy* policy);

}  // namespace composer
