// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/run_lock.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/status_macros.h"

namespace composer {
namespace {

// Returns the pid in the lock file; 0 if it contains none.
pid_t OwnerOf(int fd) {
  char text[32] = {};
  pid_t pid = 0;
  if (pread(fd, text, sizeof(text) - 1, 0) <= 0 || !absl::SimpleAtoi(text, &pid)) return 0;
  return pid;
}

bool IsRunning(pid_t pid) { return pid > 0 && (kill(pid, 0) == 0 || errno == EPERM); }

}  // namespace

absl::StatusOr<std::unique_ptr<RunLock>> RunLock::Take(const std::string& run_folder, absl::Duration patience) {
  RETURN_IF_ERROR(MakeDirs(run_folder));
  const std::string path = JoinPath(run_folder, ".lock");
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return ErrnoStatus(errno, "cannot open", path);
  std::unique_ptr<RunLock> lock(new RunLock(fd));
  const absl::Time deadline = absl::Now() + patience;
  while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return ErrnoStatus(errno, "cannot lock", path);
    const pid_t owner = OwnerOf(fd);
    if (IsRunning(owner) || absl::Now() > deadline) {
      return absl::FailedPreconditionError(absl::StrCat("another composer (pid ", owner, ") runs in ", run_folder,
                                                        "; wait for it, stop it, or choose another run_name"));
    }
    absl::SleepFor(absl::Milliseconds(5));
  }
  const std::string pid = absl::StrCat(getpid(), "\n");
  if (ftruncate(fd, 0) != 0 || pwrite(fd, pid.data(), pid.size(), 0) < 0)
    return ErrnoStatus(errno, "cannot write", path);
  return lock;
}

RunLock::~RunLock() { close(fd_); }

}  // namespace composer
