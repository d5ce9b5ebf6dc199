// The listening socket of a gRPC server, opened and watched by us: errors of bind with their reason, no more than a
// given number of connections at once, and on a Unix socket mode 0600 and only peers of our own user (the kernel's word,
// SO_PEERCRED). gRPC 1.51 has none of these; it gets the accepted connections.
//
//   Open -> builder: listener->AddTo(builder, credentials) -> BuildAndStart -> listener->Serve() -> … destroy, then the server
//
// Threads: one of its own, which accepts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <sys/types.h>

#include <memory>
#include <string>
#include <thread>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace composer {

class Listener {
 public:
  // For tests; -1: the kernel's word counts.
  struct Options {
    std::string address = "127.0.0.1";         // host or numeric address; 0.0.0.0 and :: are all, of both IPs
    int port = 0;                              // 0: any free one
    std::string unix_path;                     // not empty: a Unix socket instead; at most kMaxUnixPath bytes
    int max_connections = 1024;                // more are closed at once …
    bool oldest_goes = false;                  // … or the oldest in their place: who holds all cannot lock others out
    uid_t only_user = static_cast<uid_t>(-1);  // Unix sockets: whose peers are served besides root's; -1: our own
  };
  static constexpr size_t kMaxUnixPath = 100;  // sun_path holds 108

  // Bound and listening; nobody is accepted yet. kAlreadyExists: in use. kInvalidArgument: not an address of this
  // machine, or a path too long. kPermissionDenied: a port below 1024, a folder we may not write.
  static absl::StatusOr<std::unique_ptr<Listener>> Open(const Options& options);
  // Accepts no more and removes the Unix socket; connections live on in the server.
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  int port() const { return port_; }

  // Before BuildAndStart.
  void AddTo(grpc::ServerBuilder& builder, std::shared_ptr<grpc::ServerCredentials> credentials);
  // After it: accepts from here on.
  void Serve();

 private:
  Listener(const Options& options, int fd, int port);

  void Loop();
  void Accept();
  bool IsWelcome(int fd);
  bool HasRoom();
  // Forgets the connections that gRPC has closed.
  void Sweep();
  void EndOldest();

  const Options options_;
  const int fd_;
  const int port_;
  const int stop_fd_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  struct Connection {
    ino_t inode;   // of its socket: the descriptor may be another's by now
    uint64_t age;  // the lowest is the oldest
  };
  std::unordered_map<int, Connection> open_;  // by descriptor
  uint64_t accepted_ = 0;
  absl::Time swept_at_ = absl::InfinitePast();
  absl::Time told_at_ = absl::InfinitePast();
  std::thread thread_;
};

}  // namespace composer
