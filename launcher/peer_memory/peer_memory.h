// The memory of this node for snapshots of the training state, and the way to that of the other nodes.
//
// A crashed worker restarts from the last snapshot in its own node's memory; when a whole node is lost, its snapshot is
// in the memory of the next node. Workers write into the folder themselves; what crosses the network goes through the
// launchers, which outlive their workers and have the job's credentials:
//
//   worker --PeerRelay, Unix socket--> its launcher --PeerMemory, TCP--> another node's launcher
//
// The idea is that of Wang et al. 2023, "GEMINI: Fast Failure Recovery in Distributed Training with In-Memory
// Checkpoints". Thread-safe.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "rendezvous/transport/credentials.h"

namespace grpc {
class Server;
class Service;
}  // namespace grpc

namespace composer {

class Listener;

class PeerMemory {
 public:
  struct Options {
    std::string folder;       // in memory; see MemoryFolder
    std::string job;          // owner of the objects; other jobs are refused
    std::string address;      // of this node, as its peers reach it
    Credentials credentials;  // of the job; used on both sides
  };

  // Listens on a free port of the address. Returns the errors of Listener::Open.
  static absl::StatusOr<std::unique_ptr<PeerMemory>> Start(const Options& options);
  ~PeerMemory();

  // Returns "host:port" for peers.
  const std::string& address() const { return address_; }
  // Returns PeerRelay for this node's workers; register it with the server of their socket. It lives as long as this
  // object.
  grpc::Service* relay();

 private:
  class Server;
  class Relay;

  PeerMemory() = default;

  std::string address_;
  std::unique_ptr<Server> service_;  // must outlive the server
  std::unique_ptr<Relay> relay_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Listener> listener_;
};

}  // namespace composer
