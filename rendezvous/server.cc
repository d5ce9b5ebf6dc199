// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server.h"

#include <arpa/inet.h>
#include <grpcpp/server.h>
#include <netdb.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "rendezvous/grpc_settings.h"
#include "rendezvous/key_value_service.h"
#include "rendezvous/rank_layout.h"
#include "rendezvous/service.h"

namespace composer {
namespace {

std::string HostPort(const RendezvousServer::Options& options) {
  const bool is_v6 = options.bind_address.find(':') != std::string::npos;
  return is_v6 ? absl::StrCat("[", options.bind_address, "]:", options.port)
               : absl::StrCat(options.bind_address, ":", options.port);
}

absl::Status CheckOptions(const RendezvousServer::Options& options) {
  if (options.job.empty()) return absl::InvalidArgumentError("rendezvous: job is empty");
  if (options.port < 0 || options.port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("rendezvous: port is ", options.port, ", allowed are 0 (any) to 65535"));
  }
  if (options.min_nodes < 1 || options.max_nodes < options.min_nodes || options.max_nodes > kMaxNodes) {
    return absl::InvalidArgumentError(absl::StrCat("rendezvous: nodes are ", options.min_nodes, ":", options.max_nodes,
                                                   ", they must be min:max with 1 <= min <= max <= ", kMaxNodes));
  }
  return absl::OkStatus();
}

// gRPC only says "failed to bind"; the kernel knows why.
absl::Status WhyNotBound(const RendezvousServer::Options& options) {
  const std::string where = HostPort(options);
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(options.bind_address.c_str(), std::to_string(options.port).c_str(), &hints, &found);
      error != 0) {
    return absl::InvalidArgumentError(absl::StrCat("rendezvous: cannot resolve ", where, ": ", gai_strerror(error)));
  }
  const absl::Cleanup free_found = [&] { freeaddrinfo(found); };
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const absl::Cleanup close_fd = [&] { close(fd); };
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const bool bound = bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, 1) == 0;
  const int error = bound ? EADDRINUSE : errno;  // bound now: whoever had it has just gone
  if (error == EADDRINUSE)
    return absl::AlreadyExistsError(absl::StrCat("rendezvous: ", where, " is in use by another process"));
  const std::string message = absl::StrCat("rendezvous: cannot listen on ", where, ": ", std::strerror(error));
  return error == EACCES ? absl::PermissionDeniedError(message) : absl::InvalidArgumentError(message);
}

std::string RandomName() {
  uint64_t bits = 0;
  if (getrandom(&bits, sizeof(bits), 0) != sizeof(bits)) bits = static_cast<uint64_t>(absl::GetCurrentTimeNanos());
  return absl::StrCat(absl::Hex(bits, absl::kZeroPad16));
}

Coordinator::Options CoordinatorOptions(const RendezvousServer::Options& options) {
  return {
      .job = options.job,
      .incarnation = RandomName(),
      .policy = {.min_nodes = options.min_nodes,
                 .max_nodes = options.max_nodes,
                 .last_call = options.last_call,
                 .grow = options.grow,
                 .quorum = options.quorum,
                 .holds_tie = options.holds_tie,
                 .quorum_wait = options.quorum_wait,
                 .grace = options.grace},
      .settled = options.settle > absl::ZeroDuration() ? options.clock->Now() + options.settle : absl::InfinitePast()};
}

}  // namespace

RendezvousServer::RendezvousServer() = default;

absl::StatusOr<std::unique_ptr<RendezvousServer>> RendezvousServer::Start(Options options) {
  if (absl::Status status = CheckOptions(options); !status.ok()) return status;
  auto store = std::make_shared<KeyValueStore>();
  std::unique_ptr<RendezvousServer> server(new RendezvousServer);
  server->rendezvous_ = std::make_unique<RendezvousService>(CoordinatorOptions(options), options.clock, store);
  server->key_value_ = std::make_unique<KeyValueService>(options.job, store);
  grpc::ServerBuilder builder;
  ApplyServerSettings(builder);
  builder.AddListeningPort(HostPort(options), grpc::InsecureServerCredentials(), &server->port_);
  builder.RegisterService(server->rendezvous_.get());
  builder.RegisterService(server->key_value_.get());
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr || server->port_ == 0) return WhyNotBound(options);
  return server;
}

RendezvousServer::~RendezvousServer() {
  rendezvous_->Stop();
  if (server_ != nullptr) server_->Shutdown(DeadlineAfter(absl::Milliseconds(100)));
}

}  // namespace composer
