// A connection to an SFTP server through a program that speaks with it on its standard streams: `ssh -s HOST sftp`, so
// that keys, agents, known hosts and jumps are those of the user's ssh; or a server itself.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/env.h"
#include "net/sftp_packets.h"

namespace composer {

// Not thread-safe, but for Stop. After kUnavailable it is of no more use: the connection is lost.
class SftpLink {
 public:
  // Starts the program.
  static absl::StatusOr<std::unique_ptr<SftpLink>> Start(const std::vector<std::string>& command,
                                                         const Environment& environment, absl::Duration patience);
  // Must be the first call. kUnavailable with what the program said, if it does not connect.
  absl::Status Greet();
  ~SftpLink();
  SftpLink(const SftpLink&) = delete;
  SftpLink& operator=(const SftpLink&) = delete;

  // Sends a request; `rest` appends what follows its id.
  absl::StatusOr<SftpAnswer> Ask(SftpRequest type, const std::function<void(SftpPacket&)>& rest);
  // Asks for a text only, as most requests do, and returns the answer's status.
  absl::Status Do(SftpRequest type, absl::string_view text);

  // Sends `count` requests, several at a time, and hands over their answers in order; the first error ends it, when all
  // that was asked is answered.
  absl::Status AskMany(size_t count, SftpRequest type, const std::function<void(size_t, SftpPacket&)>& rest,
                       const std::function<absl::Status(size_t, const SftpAnswer&)>& take);

  // Makes calls that wait, and all later ones, return kUnavailable soon. From any thread.
  void Stop();

 private:
  SftpLink(pid_t pid, int fd, int errors, absl::Duration patience)
      : pid_(pid), fd_(fd), errors_(errors), patience_(patience) {}
  absl::Status Send(const std::string& packet);
  absl::StatusOr<std::string> ReceivePacket();
  absl::Status ReceiveExactly(size_t count, std::string* into);
  absl::Status Lost(absl::string_view what);

  const pid_t pid_;
  const int fd_;      // a socket: the program's standard input and output
  const int errors_;  // a file in memory: its standard error
  const absl::Duration patience_;
  uint32_t next_id_ = 0;
};

}  // namespace composer
