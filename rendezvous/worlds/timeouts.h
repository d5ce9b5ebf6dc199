// How often the ends of a job's connections send keepalives, and how long they wait for things, by the job's number of
// nodes. Pure.
//
// A server answers about a thousand small requests a second beside its work, whatever they are: pings, TCP probes,
// handshakes. Up to kUsualNodes nodes every wait is the shortest that is safe; beyond that, all of them grow with the
// number of nodes, so that the request rate stays constant. Otherwise 10,000 launchers that start together keep a
// server so busy that it answers none of them in time, all of them take it for dead, and they all come back at once.
//
// A host that is lost (power, cable) is still noticed within 3 s at any size: the kernels watch for that (listener.h).
// What takes longer in larger jobs is noticing a launcher that is frozen while its host is up, and a silent rendezvous.
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
  // A server sends a ping after this long without traffic.
  absl::Duration keepalive_time = absl::Seconds(1);
  // For clients this is a little later: a server's ping counts as traffic, so only the server pings on each connection.
  absl::Duration client_keepalive_time = absl::Milliseconds(1250);
  // How long to wait for a ping's answer; together with keepalive_time it stays under the 3 s for a lost node.
  absl::Duration keepalive_timeout = absl::Milliseconds(1650);
  // The limit of one connection attempt, handshakes included: a busy machine is slow to shake hands.
  absl::Duration connect_timeout = absl::Seconds(5);
  absl::Duration max_backoff = absl::Seconds(2);  // between two attempts
  absl::Duration look = absl::Milliseconds(200);  // between two probes for a rendezvous that is away
  absl::Duration answer = absl::Seconds(2);       // until its first message, once it accepts connections
  // How long the nodes of a running world may take to come to a rendezvous that was restarted, or to the next one on
  // the list: longer than the spread of the times at which they notice its loss.
  absl::Duration regather = absl::Seconds(5);
  absl::Duration handshake_timeout = absl::Seconds(10);  // a connection that sends nothing is closed
};

// `nodes` is the most that the job may have; at least 1.
Timeouts TimeoutsOf(int nodes);

}  // namespace composer
