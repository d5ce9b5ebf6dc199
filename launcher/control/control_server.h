// Serves proto::Control from the supervisor's mailbox: each call becomes a request that the supervisor answers in its
// turn. It listens on a Unix socket that only this user can reach and, if requested, on TCP with the job's credentials.
// gRPC's threads call the handler, which must not block.
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

// The answer that a caller waits for. It is always given: a dropped one reports that the launcher is ending. May be
// used on any thread.
class ControlAnswer {
 public:
  // Gets kUnavailable if nobody was there to answer.
  using Receiver = std::function<void(absl::StatusOr<proto::JobStatus>)>;

  explicit ControlAnswer(Receiver receiver) : receiver_(std::move(receiver)) {}
  ~ControlAnswer();
  ControlAnswer(ControlAnswer&& other) noexcept : receiver_(std::exchange(other.receiver_, nullptr)) {}
  ControlAnswer& operator=(ControlAnswer&&) = delete;

  // Must be called at most once.
  void Give(proto::JobStatus status);

 private:
  Receiver receiver_;
};

struct ControlRequest {
  enum class Kind { kStatus, kSave, kProfile, kStacks, kDrain, kStop };
  Kind kind = Kind::kStatus;
  std::string who;  // who sends the request, for the message
  ControlAnswer answer;
};

class ControlServer {
 public:
  using Handler = std::function<void(ControlRequest)>;

  struct Options {
    std::string socket_path;
    int port = -1;                      // TCP port; 0 means any free one, -1 none
    std::string address = "127.0.0.1";  // for TCP
    Credentials credentials;            // for TCP; None is refused unless the address is loopback
    Handler handler;
    // Adds what the other nodes report to a status. Runs on a thread of its own and may take a second. Empty with one
    // node.
    std::function<void(proto::JobStatus&)> complete;
  };

  // Returns the errors of Listener::Open.
  static absl::StatusOr<std::unique_ptr<ControlServer>> Start(const Options& options);
  // Blocks for a bounded time: a server that still has an unanswered request after 3 s is abandoned.
  ~ControlServer();

  int port() const;  // of TCP; 0 if none

 private:
  class Service;

  ControlServer();

  std::unique_ptr<Service> service_;  // must outlive the server
  std::shared_ptr<grpc::Server> server_;
  std::unique_ptr<Listener> unix_;
  std::unique_ptr<Listener> tcp_;
};

}  // namespace composer
