// SPDX-License-Identifier: Apache-2.0
#include "net/sftp_link.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/printable.h"
#include "base/process.h"
#include "base/status_macros.h"
#include "net/network_facts.h"

namespace composer {
namespace {

constexpr size_t kMostInFlight = 64;

}  // namespace

absl::StatusOr<std::unique_ptr<SftpLink>> SftpLink::Start(const std::vector<std::string>& command,
                                                          const Environment& environment, absl::Duration patience) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return ErrnoStatus(errno, "make", "a socket pair");
  const int errors = memfd_create("sftp-errors", MFD_CLOEXEC);
  // A group of its own: a signal to the job must not end the connection over which its last checkpoint goes.
  const ProgramStart start = {
      .argv = command, .in = ends[1], .out = ends[1], .err = errors, .searches_path = true, .own_group = true};
  pid_t pid = 0;
  const int error = StartProgram(start, environment, &pid);
  close(ends[1]);
  if (error != 0) {
    close(ends[0]);
    close(errors);
    return ErrnoStatus(error, "cannot start", command[0]);
  }
  return std::unique_ptr<SftpLink>(new SftpLink(pid, ends[0], errors, patience));
}

absl::Status SftpLink::Greet() {
  RETURN_IF_ERROR(Send(SftpPacket(SftpRequest::kInit).Number(3).Finish()));
  ASSIGN_OR_RETURN(const std::string greeting, ReceivePacket());
  return CheckSftpVersion(greeting);
}

SftpLink::~SftpLink() {
  close(fd_);
  kill(pid_, SIGTERM);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) continue;
  close(errors_);
}

void SftpLink::Stop() { shutdown(fd_, SHUT_RDWR); }

absl::Status SftpLink::Lost(absl::string_view what) {
  std::string said(400, '\0');
  const ssize_t count = pread(errors_, said.data(), said.size(), 0);
  said.resize(static_cast<size_t>(std::max<ssize_t>(count, 0)));
  said = Printable(absl::StripAsciiWhitespace(said));
  Stop();  // an answer that comes later would be taken for another request's
  return absl::UnavailableError(
      absl::StrCat("the connection to the SFTP server is lost: ", said.empty() ? what : said));
}

absl::Status SftpLink::Send(const std::string& packet) {
  for (size_t done = 0; done < packet.size();) {
    if (!IsReadyBy(fd_, POLLOUT, absl::Now() + patience_)) return Lost("it takes nothing");
    const ssize_t sent = send(fd_, packet.data() + done, packet.size() - done, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno != EINTR && errno != EAGAIN) return Lost("it is closed");
    if (sent > 0) done += static_cast<size_t>(sent);
  }
  return absl::OkStatus();
}

absl::Status SftpLink::ReceiveExactly(size_t count, std::string* into) {
  into->resize(count);
  for (size_t done = 0; done < count;) {
    if (!IsReadyBy(fd_, POLLIN, absl::Now() + patience_)) return Lost("it does not answer");
    const ssize_t got = recv(fd_, into->data() + done, count - done, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) return Lost("it is closed");
    if (got > 0) done += static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> SftpLink::ReceivePacket() {
  std::string head, packet;
  RETURN_IF_ERROR(ReceiveExactly(4, &head));
  size_t size = 0;
  for (const char byte : head) size = size << 8 | static_cast<uint8_t>(byte);
  if (size == 0 || size > kMostSftpPacket) return Lost("it does not answer as an SFTP server");
  RETURN_IF_ERROR(ReceiveExactly(size, &packet));
  return packet;
}

absl::Status SftpLink::AskMany(size_t count, SftpRequest type, const std::function<void(size_t, SftpPacket&)>& rest,
                               const std::function<absl::Status(size_t, const SftpAnswer&)>& take) {
  const uint32_t first = next_id_;
  next_id_ += static_cast<uint32_t>(count);
  absl::Status status;
  size_t sent = 0, answered = 0;
  std::map<size_t, SftpAnswer> early;  // servers may answer in any order
  while (answered < sent || (status.ok() && sent < count)) {
    if (status.ok() && sent < count && sent - answered < kMostInFlight) {
      SftpPacket packet(type);
      packet.Number(first + static_cast<uint32_t>(sent));
      rest(sent++, packet);
      RETURN_IF_ERROR(Send(packet.Finish()));
      continue;
    }
    ASSIGN_OR_RETURN(const std::string packet, ReceivePacket());
    absl::StatusOr<SftpAnswer> answer = ParseSftpAnswer(packet);
    if (!answer.ok()) return Lost(answer.status().message());
    const size_t index = answer->id - first;
    if (index < answered || index >= sent || !early.emplace(index, *std::move(answer)).second)
      return Lost("it answers what nobody asked");
    for (auto next = early.find(answered); next != early.end(); next = early.find(answered)) {
      if (status.ok()) status = take(answered, next->second);
      early.erase(next);
      ++answered;
    }
  }
  return status;
}

absl::StatusOr<SftpAnswer> SftpLink::Ask(SftpRequest type, const std::function<void(SftpPacket&)>& rest) {
  SftpAnswer kept;
  RETURN_IF_ERROR(AskMany(
      1, type, [&](size_t, SftpPacket& packet) { rest(packet); },
      [&](size_t, const SftpAnswer& answer) {
        kept = answer;
        return StatusOfSftp(answer);
      }));
  return kept;
}

absl::Status SftpLink::Do(SftpRequest type, absl::string_view text) {
  return Ask(type, [text](SftpPacket& packet) { packet.Text(text); }).status();
}

}  // namespace composer
