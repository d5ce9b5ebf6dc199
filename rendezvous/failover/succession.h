// Decides who serves the rendezvous when the previous server does not answer, and when to give up. Pure.
//
// One known host (no list):
//   a node of the job ran it ("hosted"), and is silent       its host is lost, and with it a part of the world: give up
//                                                            kSilentHost after its connection was given up, which
//                                                            took up to 3 s of silence
//   hosted, accepts connections, but does not answer         it is frozen: give up after kLostHost
//   hosted, its host refuses connections, workers run        its launcher may start it again: wait for the grace
//   hosted, refuses, this node's workers have ended as well  the launcher is gone too: give up after kLostHost
//   it runs on its own (composer serve)                      wait for the grace
// While the launcher on the silent host can be reached, only the path to the rendezvous is cut, and other nodes still
// have theirs: nobody takes over or gives up before `blip` is over. Nor does a node whose workers run go to another
// server meanwhile, because that server would miss the rest of the world and end it.
// With a list, the hosts serve in the order of the list, each after those before it have had kTakeover. A host on the
// list that does not answer is passed over. The node gives up when all hosts have had their turn and the grace is over.
// Both sides of a partitioned network may have a server then: MembershipPolicy.quorum lets at most one of them form
// worlds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace composer {

inline constexpr absl::Duration kTakeover = absl::Seconds(4);
inline constexpr absl::Duration kLostHost = absl::Seconds(4);
inline constexpr absl::Duration kSilentHost = absl::Milliseconds(1200);
// More servers than this are not needed; the fewer hosts can serve, the sooner they agree on one.
inline constexpr int kMaxServers = 3;

enum class ServerState {
  kServing,  // accepts connections
  kRefused,  // its host is up, but nobody listens
  // Accepts connections, but did not answer a moment ago: its host is up, and the process or the host is frozen.
  kUnresponsive,
  kSilent,  // does not answer: lost or cut off
  // Accepts connections, but sent us away a moment ago for lack of nodes: used only if there is no other.
  kBackoff,
};

struct SuccessionView {
  std::vector<ServerState> servers;  // each server on the list, in its order, as just probed; at least one
  int self = -1;                     // this node's index in the list; -1: it is not on it
  bool hosted = true;                // the servers are run by nodes of the job
  bool served = true;                // a server has existed before; false: this node has just been started
  absl::Time away_since;             // when the last server was lost, or this node began to look
  absl::Time broken_since = absl::InfiniteFuture();  // when this node's workers ended; InfiniteFuture: they run
  absl::Duration grace = absl::Seconds(60);
  // Index of the server whose host's launcher has just proved that it is alive; -1: none known.
  int lives = -1;
  absl::Duration blip = absl::ZeroDuration();  // MembershipPolicy.blip
};

struct SuccessionDecision {
  enum class Kind {
    kAttach,  // attach to `server`
    kServe,   // start serving on this node, then attach to it
    kWait,    // probe again later
    kGiveUp,
  };
  Kind kind = Kind::kWait;
  int server = -1;     // kAttach
  std::string reason;  // one line for the user
};

SuccessionDecision DecideSuccession(const SuccessionView& view, const std::vector<std::string>& names, absl::Time now);

// Returns how long a server without a quorum keeps its nodes before it sends them to look for another one. The earlier
// the server is on the list, the longer it keeps them, so that the nodes of several servers gather at one.
absl::Duration QuorumWaitOf(int server, int num_servers);

}  // namespace composer
