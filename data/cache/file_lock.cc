// SPDX-License-Identifier: Apache-2.0
#include "data/cache/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file.h"

namespace composer {

absl::StatusOr<FileLock> FileLock::Try(const std::string& path, Mode mode) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return ErrnoStatus(errno, "open", path);
  FileLock lock(fd);
  int result;
  do {
    result = flock(fd, (mode == Mode::kShared ? LOCK_SH : LOCK_EX) | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  if (result == 0) return lock;
  if (errno == EWOULDBLOCK) return absl::UnavailableError(absl::StrCat(path, " is locked by another"));
  if (errno == ENOLCK || errno == ENOSYS || errno == EOPNOTSUPP) {
    return absl::UnimplementedError(absl::StrCat("the file system of ", DirName(path),
                                                 " has no flock, which the cache of shards needs; use a local disk"));
  }
  return ErrnoStatus(errno, "lock", path);
}

absl::StatusOr<FileLock> FileLock::Wait(const std::string& path, Mode mode, absl::Duration patience, Clock& clock) {
  const absl::Time deadline = clock.Now() + patience;
  for (absl::Duration pause = absl::Milliseconds(1);; pause = std::min(2 * pause, absl::Milliseconds(50))) {
    auto lock = Try(path, mode);
    if (!absl::IsUnavailable(lock.status())) return lock;
    if (clock.Now() >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("another process on this machine has held ", path, " for ", absl::FormatDuration(patience)));
    }
    clock.SleepFor(pause);
  }
}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

FileLock::~FileLock() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace composer
