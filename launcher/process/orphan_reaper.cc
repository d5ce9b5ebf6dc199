// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/orphan_reaper.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "launcher/process/job_cgroup.h"

namespace composer {
namespace {

constexpr int64_t kMaxEnvironment = 16 << 20;
constexpr absl::Duration kReapLimit = absl::Seconds(30);  // SIGKILL can take that long in an uninterruptible wait

void KillAll(const std::string& needle) {
  const absl::Time deadline = absl::Now() + kReapLimit;
  for (int empty = 0; empty < 2 && absl::Now() < deadline;) {  // looks twice, because a fork may have been under way
    const std::vector<pid_t> found = ProcessesWithEnvironment(needle);
    for (const pid_t pid : found) kill(pid, SIGKILL);
    empty = found.empty() ? empty + 1 : 0;
    const timespec pause = {0, 5'000'000};
    nanosleep(&pause, nullptr);
  }
}

}  // namespace

std::vector<pid_t> ProcessesWithEnvironment(const std::string& needle) {
  std::vector<pid_t> found;
  const auto names = ListDir("/proc");
  if (!names.ok()) return found;
  for (const std::string& name : *names) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(name, &pid) || pid <= 1 || pid == getpid()) continue;
    const auto environment = ReadFile(absl::StrCat("/proc/", name, "/environ"), kMaxEnvironment);
    if (environment.ok() && absl::StrContains(*environment, needle)) found.push_back(pid);
  }
  return found;
}

OrphanReaper StartOrphanReaper(const std::string& temp_folder, const std::string& cgroup) {
  int ends[2];
  if (temp_folder.empty() || pipe2(ends, O_CLOEXEC) != 0) return {};
  const pid_t pid = fork();
  if (pid < 0) {
    close(ends[0]);
    close(ends[1]);
    return {};
  }
  if (pid > 0) {
    close(ends[0]);
    return {pid, ends[1]};
  }
  setsid();
  prctl(PR_SET_NAME, "launch-reaper");       // avoids "composer", which pkill may target
  for (int fd = 0; fd < 3; ++fd) close(fd);  // keeps nobody's terminal or pipe open
  open("/dev/null", O_RDWR);
  close_range(3, static_cast<unsigned>(ends[0]) - 1, 0);
  close_range(static_cast<unsigned>(ends[0]) + 1, ~0U, 0);
  char byte = 0;
  // EINTR cannot happen, because all signals are blocked; any error returns -1 and is retried.
  while (read(ends[0], &byte, 1) != 0) {
    const timespec pause = {0, 1'000'000};
    nanosleep(&pause, nullptr);
  }
  KillCgroup(cgroup);
  KillAll(absl::StrCat(temp_folder, "/"));
  RemoveCgroup(cgroup);
  RemoveTree(temp_folder).IgnoreError();
  _exit(0);
}

}  // namespace composer
