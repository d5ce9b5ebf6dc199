// proto::Control over the supervisor's mailbox: each call becomes a request that the supervisor answers when it comes to it.
// On a Unix socket that only this user reaches, and on TCP with the job's credentials when asked.
// Threads: gRPC's own call the handler, which must not block.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "proto/control.pb.h"
#include "rendezvous/transport/credentials.h"

namespace grpc {
class Server;
}

namespace composer {

class Listener;

// Who asks waits for it, so it comes in any case: one that is dropped says that the launcher is ending. Any thread.
class ControlAnswer {
 public:
  // kUnavailable: nobody was there to answer.
  using Receiver = std::function<void(absl::StatusOr<proto::JobStatus>)>;

  explicit ControlAnswer(Receiver receiver) : receiver_(std::move(receiver)) {}
  ~ControlAnswer();
  ControlAnswer(ControlAnswer&& other) noexcept : receiver_(std::exchange(other.receiver_, nullptr)) {}
  ControlAnswer& operator=(ControlAnswer&&) = delete;

  // At most once.
  void Give(proto::JobStatus status);

 private:
  Receiver receiver_;
};

struct ControlRequest {
  enum class Kind { kStatus, kSave, kDrain, kStop };
  Kind kind = Kind::kStatus;
  std::string who;  // who asks, for the message
  ControlAnswer answer;
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
  // Bounded: a server that still has an unanswered request after 3 s is left behind.
  ~ControlServer();

  int port() const;  // of TCP; 0: none

 private:
  class Service;

  ControlServer();

  std::unique_ptr<Service> service_;  // outlives the server
  std::shared_ptr<grpc::Server> server_;
  std::unique_ptr<Listener> unix_;
  std::unique_ptr<Listener> tcp_;
};

}  // namespace composer
