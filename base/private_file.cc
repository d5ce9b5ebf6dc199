// SPDX-License-Identifier: Apache-2.0
#include "base/private_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"

namespace composer {

absl::Status WritePrivateFile(const std::string& path, absl::string_view content) {
  const std::string temporary = absl::StrCat(path, ".tmp-", getpid());
  unlink(temporary.c_str());  // left by an earlier process with this pid, with any mode
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return ErrnoStatus(errno, "cannot create", temporary);
  absl::Cleanup remove = [&] { unlink(temporary.c_str()); };
  const absl::Cleanup close_file = [fd] { close(fd); };
  while (!content.empty()) {
    const ssize_t count = write(fd, content.data(), content.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoStatus(errno, "cannot write", temporary);
    content.remove_prefix(static_cast<size_t>(count));
  }
  if (fsync(fd) != 0) return ErrnoStatus(errno, "cannot sync", temporary);
  if (std::rename(temporary.c_str(), path.c_str()) != 0) return ErrnoStatus(errno, "cannot rename to", path);
  std::move(remove).Cancel();
  return SyncDir(DirName(path));
}

absl::Status MakePrivateDir(const std::string& path) {
  RETURN_IF_ERROR(MakeDirs(DirName(path)));
  if (mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return absl::OkStatus();
  return ErrnoStatus(errno, "cannot create folder", path);
}

}  // namespace composer
