// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/liveness.h"

#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "rendezvous/transport/listening_socket.h"

namespace composer {
namespace {

addrinfo* Resolve(const std::string& address, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  return getaddrinfo(address.c_str(), absl::StrCat(port).c_str(), &hints, &found) == 0 ? found : nullptr;
}

// Returns false when `fd` is not ready in time.
bool IsReadyBy(int fd, short events, absl::Time deadline) {
  const absl::Duration left = std::max(deadline - absl::Now(), absl::ZeroDuration());
  pollfd ready{fd, events, 0};
  return poll(&ready, 1, static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1))))) > 0;
}

bool Says(const addrinfo& at, const std::string& word, absl::Time deadline) {
  const int fd = socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  const absl::Cleanup close_fd = [fd] { close(fd); };
  if (connect(fd, at.ai_addr, at.ai_addrlen) != 0 && errno != EINPROGRESS) return false;
  std::string heard;
  while (heard.size() < word.size() && IsReadyBy(fd, POLLIN, deadline)) {
    char buffer[Liveness::kMaxWordBytes];
    const ssize_t count = recv(fd, buffer, sizeof(buffer), 0);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count <= 0) return false;
    heard.append(buffer, static_cast<size_t>(count));
  }
  return heard == word;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Liveness>> Liveness::Show(const std::string& address, const std::string& word) {
  auto fd = ListenOnTcp(address, 0);
  if (!fd.ok()) fd = ListenOnTcp("0.0.0.0", 0);
  if (!fd.ok()) return fd.status();
  return std::unique_ptr<Liveness>(new Liveness(*fd, PortOf(*fd), address, word.substr(0, kMaxWordBytes)));
}

Liveness::Liveness(int fd, int port, const std::string& address, const std::string& word)
    : fd_(fd), stop_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  place_.set_address(address);
  place_.set_port(port);
  place_.set_word(word);
  thread_ = std::thread([this] { Loop(); });
}

Liveness::~Liveness() {
  eventfd_write(stop_fd_, 1);
  thread_.join();
  close(fd_);
  close(stop_fd_);
}

void Liveness::Loop() const {
  while (true) {
    pollfd polls[2] = {{fd_, POLLIN, 0}, {stop_fd_, POLLIN, 0}};
    poll(polls, 2, -1);
    if (polls[1].revents != 0) return;
    const int fd = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
      pollfd stop{stop_fd_, POLLIN, 0};
      // The pending connection would wake us at once.
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) poll(&stop, 1, 20);
      continue;
    }
    // The send buffer of a new connection has room.
    send(fd, place_.word().data(), place_.word().size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    close(fd);
  }
}

bool SeesLife(const proto::Liveness& place, absl::Duration limit) {
  if (place.port() < 1 || place.port() > 65535 || place.word().empty() || place.word().size() > Liveness::kMaxWordBytes)
    return false;
  const absl::Time deadline = absl::Now() + limit;
  addrinfo* const found = Resolve(place.address(), place.port());
  if (found == nullptr) return false;
  const absl::Cleanup free_found = [found] { freeaddrinfo(found); };
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    if (Says(*at, place.word(), deadline)) return true;
  }
  return false;
}

}  // namespace composer
