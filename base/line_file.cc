// SPDX-License-Identifier: Apache-2.0
#include "base/line_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/file.h"

namespace composer {
namespace {

bool EndsInsideALine(int fd) {
  char last = '\n';
  const off_t size = lseek(fd, 0, SEEK_END);
  return size > 0 && pread(fd, &last, 1, size - 1) == 1 && last != '\n';
}

}  // namespace

absl::StatusOr<LineFile> LineFile::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return ErrnoStatus(errno, "cannot open", path);
  return LineFile(path, fd, EndsInsideALine(fd));
}

LineFile::LineFile(LineFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), torn_(other.torn_) {}

LineFile::~LineFile() {
  if (fd_ >= 0) close(fd_);
}

absl::Status LineFile::Append(absl::string_view line) {
  if (torn_) {
    if (write(fd_, "\n", 1) != 1) return ErrnoStatus(errno, "cannot write", path_);
    torn_ = false;
  }
  ssize_t written;
  do {
    written = write(fd_, line.data(), line.size());
  } while (written < 0 && errno == EINTR);
  if (written == static_cast<ssize_t>(line.size())) return absl::OkStatus();
  torn_ = written > 0;
  return ErrnoStatus(written < 0 ? errno : ENOSPC, "cannot write", path_);
}

absl::Status LineFile::Sync() {
  return fdatasync(fd_) == 0 ? absl::OkStatus() : ErrnoStatus(errno, "cannot sync", path_);
}

}  // namespace composer
