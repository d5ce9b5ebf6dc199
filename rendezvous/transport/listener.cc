// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/transport/listener.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "net/endpoint.h"
#include "rendezvous/transport/listening_socket.h"

namespace composer {
namespace {

constexpr absl::Duration kSweepEvery = absl::Milliseconds(50);
constexpr absl::Duration kTellEvery = absl::Seconds(10);

std::string Where(const Listener::Options& options) {
  return options.unix_path.empty() ? Endpoint{options.address, options.port}.ToString() : options.unix_path;
}

absl::StatusOr<int> OpenUnix(const Listener::Options& options) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (options.unix_path.size() > Listener::kMaxUnixPath) {
    return absl::InvalidArgumentError(absl::StrCat("the path ", options.unix_path,
                                                   " is too long for a Unix socket (at most ", Listener::kMaxUnixPath,
                                                   " bytes): set TMPDIR to a shorter folder"));
  }
  std::memcpy(address.sun_path, options.unix_path.data(), options.unix_path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return ErrnoStatus(errno, "make a socket for", options.unix_path);
  fchmod(fd, 0600);  // Linux uses the socket's mode, less the umask, for the file: never open to others
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      chmod(options.unix_path.c_str(), 0600) != 0 || listen(fd, kListenBacklog) != 0) {
    const int error = errno;
    close(fd);
    return BindError(error, options.unix_path);
  }
  return fd;
}

// The kernel asks the peer's kernel for a sign of life: a lost host is noticed within 3 s, and the check costs no
// process any time, however many connections there are and however busy both ends are.
void PrepareTcp(int fd) {
  const int on = 1, idle_seconds = 1, interval_seconds = 1, probes = 2;
  const unsigned int unacknowledged_millis = 2500;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_seconds, sizeof(idle_seconds));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_seconds, sizeof(interval_seconds));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_millis, sizeof(unacknowledged_millis));
}

ino_t InodeOf(int fd) {
  struct stat info{};
  return fstat(fd, &info) == 0 ? info.st_ino : 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> Listener::Open(const Options& options) {
  ASSIGN_OR_RETURN(const int fd,
                   options.unix_path.empty() ? ListenOnTcp(options.address, options.port) : OpenUnix(options));
  return std::unique_ptr<Listener>(new Listener(options, fd, PortOf(fd)));
}

Listener::Listener(const Options& options, int fd, int port)
    : options_(options), fd_(fd), port_(port), stop_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Listener::~Listener() {
  eventfd_write(stop_fd_, 1);
  if (thread_.joinable()) thread_.join();
  close(fd_);
  close(stop_fd_);
  if (!options_.unix_path.empty()) unlink(options_.unix_path.c_str());
}

void Listener::AddTo(grpc::ServerBuilder& builder, std::shared_ptr<grpc::ServerCredentials> credentials) {
  acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, std::move(credentials));
}

void Listener::Serve() {
  thread_ = std::thread([this] { Loop(); });
}

void Listener::Loop() {
  while (true) {
    pollfd polls[2] = {{fd_, POLLIN, 0}, {stop_fd_, POLLIN, 0}};
    poll(polls, 2, -1);
    if (polls[1].revents != 0) return;
    if (polls[0].revents != 0) Accept();
  }
}

void Listener::Accept() {
  while (true) {
    const int fd = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        pollfd stop = {stop_fd_, POLLIN, 0};
        poll(&stop, 1, 20);  // the pending connection would wake us at once
      }
      return;
    }
    if (!IsWelcome(fd) || !HasRoom()) {
      close(fd);
      continue;
    }
    if (options_.unix_path.empty()) PrepareTcp(fd);
    open_[fd] = {InodeOf(fd), accepted_++};
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.listener_fd = fd_;
    connection.fd = fd;
    acceptor_->HandleNewConnection(&connection);
  }
}

bool Listener::IsWelcome(int fd) {
  if (options_.unix_path.empty()) return true;
  const uid_t ours = options_.only_user == static_cast<uid_t>(-1) ? geteuid() : options_.only_user;
  ucred peer{};
  socklen_t size = sizeof(peer);
  const bool known = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
  if (known && (peer.uid == ours || (peer.uid == 0 && ours == geteuid()))) return true;
  if (absl::Now() - told_at_ < kTellEvery) return false;
  told_at_ = absl::Now();
  LOG(WARNING) << "refused a connection of user " << (known ? absl::StrCat(peer.uid) : "unknown") << " to "
               << options_.unix_path;
  return false;
}

bool Listener::HasRoom() {
  const auto full = [this] { return open_.size() >= static_cast<size_t>(options_.max_connections); };
  if (full()) Sweep();
  if (full() && options_.oldest_goes) EndOldest();
  if (!full()) return true;
  if (absl::Now() - told_at_ > kTellEvery) {
    told_at_ = absl::Now();
    LOG(WARNING) << Where(options_) << ": more than " << options_.max_connections << " connections, refusing others";
  }
  return false;
}

void Listener::Sweep() {
  if (absl::Now() - swept_at_ < kSweepEvery) return;
  swept_at_ = absl::Now();
  for (auto it = open_.begin(); it != open_.end();)
    it = InodeOf(it->first) == it->second.inode ? std::next(it) : open_.erase(it);
}

// gRPC owns the descriptor and may close it at any time, and its number may then be reused: a copy whose inode was
// checked is safe.
void Listener::EndOldest() {
  const auto oldest = std::min_element(open_.begin(), open_.end(),
                                       [](const auto& a, const auto& b) { return a.second.age < b.second.age; });
  const int copy = fcntl(oldest->first, F_DUPFD_CLOEXEC, 0);
  if (copy >= 0 && InodeOf(copy) == oldest->second.inode) shutdown(copy, SHUT_RDWR);
  if (copy >= 0) close(copy);
  open_.erase(oldest);
}

}  // namespace composer
