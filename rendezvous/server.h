// The rendezvous of one job: membership and key-value store on one port.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "rendezvous/membership/membership.h"
#include "rendezvous/transport/credentials.h"

namespace grpc {
class Server;
}

namespace composer {

class KeyValueService;
class Listener;
class RendezvousService;

class RendezvousServer {
 public:
  struct Options {
    std::string job;  // nodes and workers of another job are refused
    std::string bind_address = "127.0.0.1";
    int port = 0;  // 0: any free one, see port()
    int min_nodes = 1;
    int max_nodes = 1;
    absl::Duration last_call = absl::Seconds(1);
    GrowPolicy grow = GrowPolicy::kAtCheckpoint;
    bool quorum = false;  // see MembershipPolicy
    bool holds_tie = true;
    absl::Duration quorum_wait = kQuorumWait;
    absl::Duration grace = absl::Seconds(60);  // how long the nodes of a running world may take to come back
    absl::Duration blip = kBlip;               // how long a node that others reach may be cut off
    // For this long no world is formed unless nodes report one, because a world of an earlier coordinator may be
    // running.
    absl::Duration settle = absl::ZeroDuration();
    Credentials credentials;            // None: for a port that only this machine reaches, or when the user insists
    int max_connections = 2 * 100'000;  // more are closed at once; a launcher needs one
    Clock* clock = &RealClock::Get();   // must outlive the server
  };

  // kAlreadyExists: the port is in use. kInvalidArgument: the address does not belong to this machine, or an option is
  // out of range. kPermissionDenied: the port is below 1024 and the process lacks the right to it.
  static absl::StatusOr<std::unique_ptr<RendezvousServer>> Start(Options options);
  // Ends all streams and calls, then waits for them.
  ~RendezvousServer();

  int port() const { return port_; }

 private:
  RendezvousServer();

  int port_ = 0;
  std::unique_ptr<RendezvousService> rendezvous_;  // the services outlive the server
  std::unique_ptr<KeyValueService> key_value_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Listener> listener_;
};

}  // namespace composer
