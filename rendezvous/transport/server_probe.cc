// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/transport/server_probe.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/strip.h"

namespace composer {
namespace {

// Returns 0 when connected, else errno.
int ConnectOnce(const addrinfo& to, absl::Duration limit) {
  const int fd = socket(to.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return errno;
  const absl::Cleanup close_fd = [fd] { close(fd); };
  if (connect(fd, to.ai_addr, to.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd writable{fd, POLLOUT, 0};
  if (poll(&writable, 1, static_cast<int>(absl::ToInt64Milliseconds(limit))) <= 0) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

}  // namespace

ServerState ProbeServer(const std::string& address, absl::Duration limit) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return ServerState::kSilent;
  absl::string_view host = absl::string_view(address).substr(0, colon);
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(std::string(host).c_str(), address.c_str() + colon + 1, &hints, &found) != 0)
    return ServerState::kSilent;
  const absl::Cleanup free_found = [&] { freeaddrinfo(found); };
  ServerState reach = ServerState::kSilent;
  for (const addrinfo* to = found; to != nullptr; to = to->ai_next) {
    const int error = ConnectOnce(*to, limit);
    if (error == 0) return ServerState::kServing;
    if (error == ECONNREFUSED) reach = ServerState::kRefused;
  }
  return reach;
}

}  // namespace composer
