// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/liveness.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/cleanup/cleanup.h"
#include "absl/time/clock.h"
#include "net/network_facts.h"
#include "rendezvous/transport/listening_socket.h"

namespace composer {
namespace {

bool Says(const std::string& address, int port, const std::string& word, absl::Time deadline) {
  const int fd = ConnectTcp(address, port, deadline - absl::Now());
  if (fd < 0) return false;
  const absl::Cleanup close_fd = [fd] { close(fd); };
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
  const auto addresses = ResolveHost(place.address());
  return addresses.ok() && std::any_of(addresses->begin(), addresses->end(), [&](const std::string& address) {
           return Says(address, place.port(), place.word(), deadline);
         });
}

}  // namespace composer
