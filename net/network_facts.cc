// SPDX-License-Identifier: Apache-2.0
#include "net/network_facts.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"

namespace composer {
namespace {

std::string Numeric(const sockaddr* address, socklen_t size) {
  char text[NI_MAXHOST];
  if (getnameinfo(address, size, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) != 0) return "";
  return text;
}

struct FreeAddresses {
  void operator()(addrinfo* info) const { freeaddrinfo(info); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

absl::StatusOr<Addresses> Lookup(const std::string& host, int port, int flags) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), port < 0 ? nullptr : std::to_string(port).c_str(), &hints, &found);
  if (error != 0) return absl::NotFoundError(absl::StrCat("the name ", host, " has no address: ", gai_strerror(error)));
  return Addresses(found);
}

}  // namespace

std::vector<NetworkInterface> ListInterfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const absl::Cleanup free_list = [list] { freeifaddrs(list); };
  std::vector<NetworkInterface> result;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    const std::string address = Numeric(entry->ifa_addr, size);
    if (!address.empty()) result.push_back({entry->ifa_name, address, (entry->ifa_flags & IFF_LOOPBACK) != 0});
  }
  return result;
}

absl::StatusOr<std::vector<std::string>> ResolveHost(const std::string& host) {
  ASSIGN_OR_RETURN(const Addresses addresses, Lookup(host, -1, 0));
  std::vector<std::string> result;
  for (const addrinfo* entry = addresses.get(); entry != nullptr; entry = entry->ai_next) {
    const std::string text = Numeric(entry->ai_addr, entry->ai_addrlen);
    if (!text.empty() && std::find(result.begin(), result.end(), text) == result.end()) result.push_back(text);
  }
  return result;
}

std::string SourceAddress(const std::string& address) {
  // Any port will do: connecting a datagram socket sends nothing.
  const auto target = Lookup(address, 9, AI_NUMERICHOST);
  if (!target.ok()) return "";
  const int fd = socket((*target)->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const absl::Cleanup close_fd = [fd] { close(fd); };
  sockaddr_storage source = {};
  socklen_t size = sizeof(source);
  if (connect(fd, (*target)->ai_addr, (*target)->ai_addrlen) != 0) return "";
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&source), &size) != 0) return "";
  return Numeric(reinterpret_cast<sockaddr*>(&source), size);
}

bool IsReadyBy(int fd, short events, absl::Time deadline) {
  while (true) {
    const absl::Duration left =
        absl::Ceil(std::max(deadline - absl::Now(), absl::ZeroDuration()), absl::Milliseconds(1));
    pollfd ready = {fd, events, 0};
    const int count = poll(&ready, 1, static_cast<int>(std::min<int64_t>(absl::ToInt64Milliseconds(left), INT_MAX)));
    if (count >= 0 || errno != EINTR) return count > 0;
  }
}

int ConnectTcp(const std::string& address, int port, absl::Duration limit, const std::string& interface) {
  const absl::Time deadline = absl::Now() + limit;
  const auto target = Lookup(address, port, AI_NUMERICHOST);
  if (!target.ok()) return -EADDRNOTAVAIL;
  const int fd = socket((*target)->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -errno;
  if (!interface.empty() &&
      setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, interface.c_str(), static_cast<socklen_t>(interface.size())) != 0) {
    const int error = errno;
    close(fd);
    return -error;
  }
  int error = connect(fd, (*target)->ai_addr, (*target)->ai_addrlen) == 0 ? 0 : errno;
  socklen_t size = sizeof(error);
  if (error == EINPROGRESS && !IsReadyBy(fd, POLLOUT, deadline)) {
    error = ETIMEDOUT;
  } else if (error == EINPROGRESS && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
    error = errno;
  }
  if (error == 0) return fd;
  close(fd);
  return -error;
}

int TryConnect(const std::string& address, int port, absl::Duration limit, const std::string& interface) {
  const int fd = ConnectTcp(address, port, limit, interface);
  if (fd < 0) return -fd;
  close(fd);
  return 0;
}

bool PortIsFree(const std::string& address, int port) {
  const auto target = Lookup(address, port, AI_NUMERICHOST | AI_PASSIVE);
  if (!target.ok()) return false;
  const int fd = socket((*target)->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const absl::Cleanup close_fd = [fd] { close(fd); };
  const int on = 1;
  // Servers set this too: a closed connection does not block the port.
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  return bind(fd, (*target)->ai_addr, (*target)->ai_addrlen) == 0;
}

}  // namespace composer
