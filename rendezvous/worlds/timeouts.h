// How often the ends of a job's connections ask for a life sign, and how long they wait for things, by the number of its
// nodes. Pure.
//
// A server answers about a thousand small questions a second beside its work, whatever they are: pings, TCP probes,
// handshakes. Up to kUsualNodes nodes every wait is the shortest that is sure; beyond, all of them grow with the number of
// nodes, so that the questions a second stay what they are. Else 10,000 launchers that start together keep a server so
// busy that it answers none of them in time, is taken for dead by all, and meets them all again.
//
// A host that is lost (power, cable) is still noticed within 3 s at any size: the kernels watch that (listener.h). What
// takes longer in larger jobs is to notice a launcher that is frozen while its host is up, and a silent rendezvous.
//
//   nodes      frozen launcher noticed after    silent rendezvous noticed after
//   <= 1,000   2.65 s                           2.9 s
//   10,000     26.5 s                           29 s
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/time/time.h"

namespace composer {

inline constexpr int kUsualNodes = 1000;

struct Timeouts {
  // Of a server: without traffic for so long, it pings.
  absl::Duration keepalive_time = absl::Seconds(1);
  // Of a client, a little later: a server's ping is traffic, so that one ping a connection is all, from the server.
  absl::Duration client_keepalive_time = absl::Milliseconds(1250);
  // For a ping's answer; with keepalive_time it stays under the 3 s for a lost node.
  absl::Duration keepalive_timeout = absl::Milliseconds(1650);
  // Of one attempt to connect, handshakes included: a busy machine is slow to shake hands.
  absl::Duration connect_timeout = absl::Seconds(5);
  absl::Duration max_backoff = absl::Seconds(2);  // between two attempts
  absl::Duration look = absl::Milliseconds(200);  // between two looks for a rendezvous that is away
  absl::Duration answer = absl::Seconds(2);       // for its first word, once it accepts connections
  // For the nodes of a running world to come to a rendezvous that was started again, or to the next of the list: longer than
  // the time by which they differ in noticing.
  absl::Duration regather = absl::Seconds(5);
  absl::Duration handshake_timeout = absl::Seconds(10);  // a connection that says nothing is closed
};

// nodes: the most that the job may have; at least 1.
Timeouts TimeoutsOf(int nodes);

}  // namespace composer
