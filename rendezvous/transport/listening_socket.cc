// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/transport/listening_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "net/endpoint.h"

namespace composer {
namespace {

// Returns a new socket, bound and listening; -1 and errno on failure.
int ListenOn(const sockaddr* address, socklen_t size) {
  const int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  const int on = 1, off = 0;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (address->sa_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  if (bind(fd, address, size) == 0 && listen(fd, kListenBacklog) == 0) return fd;
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

// Listens on every address of IPv4 and IPv6; of IPv4 alone where the kernel has no IPv6.
int ListenOnAll(int port) {
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(static_cast<uint16_t>(port));
  const int fd = ListenOn(reinterpret_cast<const sockaddr*>(&v6), sizeof(v6));
  if (fd >= 0 || (errno != EAFNOSUPPORT && errno != EADDRNOTAVAIL)) return fd;
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(static_cast<uint16_t>(port));
  return ListenOn(reinterpret_cast<const sockaddr*>(&v4), sizeof(v4));
}

}  // namespace

absl::Status BindError(int error, const std::string& where) {
  if (error == EADDRINUSE) return absl::AlreadyExistsError(absl::StrCat(where, " is in use by another process"));
  const std::string message = absl::StrCat("cannot listen on ", where, ": ", std::strerror(error));
  return error == EACCES ? absl::PermissionDeniedError(message) : absl::InvalidArgumentError(message);
}

absl::StatusOr<int> ListenOnTcp(const std::string& address, int port) {
  const std::string where = Endpoint{address, port}.ToString();
  if (address == "0.0.0.0" || address == "::") {
    const int fd = ListenOnAll(port);
    if (fd < 0) return BindError(errno, where);
    return fd;
  }
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found); error != 0)
    return absl::InvalidArgumentError(absl::StrCat("cannot resolve ", where, ": ", gai_strerror(error)));
  const absl::Cleanup free_found = [found] { freeaddrinfo(found); };
  const int fd = ListenOn(found->ai_addr, found->ai_addrlen);
  if (fd < 0) return BindError(errno, where);
  return fd;
}

int PortOf(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  if (address.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  return 0;
}

}  // namespace composer
