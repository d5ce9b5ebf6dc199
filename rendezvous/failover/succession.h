// Who serves the rendezvous when the one that did does not answer, and when to give up. Pure.
//
// One known host (no list):
//   a node of the job ran it ("hosted"), and is silent       its host is lost, and with it a part of the world: give up
//                                                            kSilentHost after its connection was given up, which
//                                                            took up to 3 s of silence
//   hosted, accepts connections, but does not answer         frozen: give up after kLostHost
//   hosted, its host refuses connections, workers run        its launcher may start it again: wait for the grace
//   hosted, refuses, this node's workers have ended as well  the launcher is gone too: give up after kLostHost
//   it runs on its own (composer serve)                      wait for the grace
// While the launcher on the silent host is reached, only the way to the rendezvous is cut, and the others are not:
// nobody takes over or gives up before `blip` is over. Nor does a node whose workers run go to another server
// meanwhile, which would miss the rest of the world and end it.
// A list: the hosts serve in the order of the list, each when those before it have had kTakeover. A host on the list that
// does not answer is passed over. Given up when all have had their turn and the grace is over.
// Two sides of a cut network may both have a server then: MembershipPolicy.quorum lets at most one form worlds.
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
// More hosts than this need not be able to serve; those that can agree on who does the sooner the fewer they are.
inline constexpr int kMaxServers = 3;

enum class ServerState {
  kServing,       // accepts connections
  kRefused,       // its host is up, nobody listens
  kUnresponsive,  // accepts connections, but did not answer a moment ago: its host is up, the process or the host is frozen
  kSilent,        // no answer: lost or cut off
  kBackoff,  // accepts connections, but has sent us away a moment ago, for want of nodes: only if there is no other
};

struct SuccessionView {
  std::vector<ServerState> servers;  // of each server on the list, in its order, as just probed; at least one
  int self = -1;                     // this node's index in the list; -1: it is not on it
  bool hosted = true;                // the servers are run by nodes of the job
  bool served = true;                // there was a server once; false: this node has just been started
  absl::Time away_since;             // when the last server was lost, or this node began to look
  absl::Time broken_since = absl::InfiniteFuture();  // when this node's workers ended; InfiniteFuture: they run
  absl::Duration grace = absl::Seconds(60);
  int lives = -1;  // index of the server whose host's launcher has just shown that it lives; -1: none that we know of
  absl::Duration blip = absl::ZeroDuration();  // MembershipPolicy.blip
};

struct SuccessionDecision {
  enum class Kind {
    kAttach,  // to `server`
    kServe,   // this node is to start serving; then attach to it
    kWait,    // and probe again
    kGiveUp,
  };
  Kind kind = Kind::kWait;
  int server = -1;     // kAttach
  std::string reason;  // one line for people
};

SuccessionDecision DecideSuccession(const SuccessionView& view, const std::vector<std::string>& names, absl::Time now);

// How long a server without quorum keeps its nodes before it sends them to look for another: the earlier it is on the
// list the longer, so that the nodes of several servers come together at one.
absl::Duration QuorumWaitOf(int server, int num_servers);

}  // namespace composer
