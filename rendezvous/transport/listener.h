// The listening socket of a gRPC server, opened and watched by us: bind errors carry their reason, the number of
// simultaneous connections is limited, and a Unix socket has mode 0600 and accepts only peers of our own user (as
// reported by the kernel, SO_PEERCRED). gRPC 1.51 has none of these; it gets the accepted connections.
//
//   Open -> builder: listener->AddTo(builder, credentials) -> BuildAndStart -> listener->Serve() -> …
//   -> destroy the listener, then the server
//
// Uses one thread of its own, which accepts.
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
  struct Options {
    std::string address = "127.0.0.1";  // host or numeric; `0.0.0.0` or `::`: all, IPv4 and IPv6
    int port = 0;                       // 0: any free one
    std::string unix_path;              // not empty: a Unix socket instead; at most kMaxUnixPath bytes
    int max_connections = 1024;
    // Beyond max_connections: true closes the oldest connection, so that whoever holds all of them cannot lock others
    // out; false closes the new one at once.
    bool oldest_goes = false;
    // Unix sockets: whose peers are served besides root's (for tests); -1: our own.
    uid_t only_user = static_cast<uid_t>(-1);
  };
  static constexpr size_t kMaxUnixPath = 100;  // sun_path holds 108

  // Returns a bound, listening socket; nobody is accepted yet. kAlreadyExists: in use. kInvalidArgument: the address
  // does not belong to this machine, or the path is too long. kPermissionDenied: a port below 1024, or a folder we may
  // not write.
  static absl::StatusOr<std::unique_ptr<Listener>> Open(const Options& options);
  // Stops accepting and removes the Unix socket; existing connections live on in the server.
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  int port() const { return port_; }

  // Must be called before BuildAndStart.
  void AddTo(grpc::ServerBuilder& builder, std::shared_ptr<grpc::ServerCredentials> credentials);
  // Must be called after BuildAndStart; starts accepting.
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
    ino_t inode;   // of its socket: the descriptor may have been reused by now
    uint64_t age;  // the lowest is the oldest
  };
  std::unordered_map<int, Connection> open_;  // by descriptor
  uint64_t accepted_ = 0;
  absl::Time swept_at_ = absl::InfinitePast();
  absl::Time told_at_ = absl::InfinitePast();
  std::thread thread_;
};

}  // namespace composer
