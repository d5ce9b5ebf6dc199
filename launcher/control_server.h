// proto::Control over the supervisor's mailbox: each call becomes a request that the supervisor answers when it comes to it.
// On a Unix socket that only this user reaches, and on TCP with the job's credentials when asked.
// Threads: gRPC's own call the handler, which must not block.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "proto/control.pb.h"
#include "rendezvous/credentials.h"

namespace grpc {
class Server;
}

namespace composer {

class Listener;

struct ControlRequest {
  enum class Kind { kStatus, kDrain, kStop };
  Kind kind = Kind::kStatus;
  std::string who;                                      // who asks, for the message
  std::function<void(const proto::JobStatus&)> answer;  // call it once, from any thread
};

class ControlServer {
 public:
  using Handler = std::function<void(ControlRequest)>;

  struct Options {
    std::string socket_path;
    int port = -1;                      // also on TCP; 0: any free one; -1: not
    std::string address = "127.0.0.1";  // for TCP
    Credentials credentials;            // for TCP; None is refused unless the address is the loopback device's
    Handler handler;
    // Adds what the other nodes report to a status, on a thread of its own; may take a second. Empty: one node.
    std::function<void(proto::JobStatus&)> complete;
  };

  // Errors as Listener::Open.
  static absl::StatusOr<std::unique_ptr<ControlServer>> Start(const Options& options);
  ~ControlServer();

  int port() const;  // of TCP; 0: none

 private:
  class Service;

  ControlServer();

  std::unique_ptr<Service> service_;  // outlives the server
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Listener> unix_;
  std::unique_ptr<Listener> tcp_;
};

}  // namespace composer
