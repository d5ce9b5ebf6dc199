// SPDX-License-Identifier: Apache-2.0
#include "launcher/platform/command_output.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/process.h"
#include "net/network_facts.h"

namespace composer {
namespace {

// Reads to the end of the stream; returns false if the deadline came first.
bool ReadAll(int fd, absl::Time deadline, std::string& text) {
  while (true) {
    if (!IsReadyBy(fd, POLLIN, deadline)) return false;
    char buffer[4096];
    const ssize_t count = read(fd, buffer, sizeof(buffer));
    if (count == 0) return true;
    if (count > 0) text.append(buffer, std::min(static_cast<size_t>(count), kMaxCommandOutput - text.size()));
  }
}

}  // namespace

absl::StatusOr<std::string> CommandOutput(const std::vector<std::string>& argv, const Environment& environment,
                                          absl::Duration limit) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus(errno, "make", "a pipe");
  const absl::Cleanup close_read = [&] { close(ends[0]); };
  pid_t pid = 0;
  const int error = StartProgram({.argv = argv, .out = ends[1], .err = ends[1]}, environment, &pid);
  close(ends[1]);
  if (error != 0) return absl::UnavailableError(ErrnoStatus(error, "start", argv[0]).message());
  std::string text;
  const bool ended = ReadAll(ends[0], absl::Now() + limit, text);
  if (!ended) kill(pid, SIGKILL);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!ended) {
    return absl::UnavailableError(absl::StrCat(argv[0], " did not end within ", absl::FormatDuration(limit)));
  }
  if (const ExitStatus exit = ExitStatus::FromWait(status); !exit.ok()) {
    return absl::UnavailableError(
        absl::StrCat(argv[0], " ", exit.ToString(), ": ", text.substr(0, std::min(text.find('\n'), size_t{300}))));
  }
  return text;
}

}  // namespace composer
