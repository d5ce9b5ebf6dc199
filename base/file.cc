// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "base/status_macros.h"

namespace composer {

absl::Status ErrnoStatus(int error_number, absl::string_view what, absl::string_view path) {
  const std::string message = absl::StrCat(what, " ", path, ": ", std::strerror(error_number));
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(message);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(message);
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return absl::ResourceExhaustedError(message);
    case EEXIST:
      return absl::AlreadyExistsError(message);
    default:
      return absl::InternalError(message);
  }
}

std::string JoinPath(absl::string_view a, absl::string_view b) {
  if (a.empty()) return std::string(b);
  if (b.empty()) return std::string(a);
  return absl::StrCat(a, absl::EndsWith(a, "/") ? "" : "/", b);
}

std::string BaseName(absl::string_view path) { return std::filesystem::path(std::string(path)).filename(); }
std::string Stem(absl::string_view path) { return std::filesystem::path(std::string(path)).stem(); }
std::string DirName(absl::string_view path) { return std::filesystem::path(std::string(path)).parent_path(); }

std::string AbsolutePath(absl::string_view path) {
  std::error_code error;
  const auto result = std::filesystem::absolute(std::string(path), error);
  return error ? std::string(path) : result.lexically_normal().string();
}

bool PathExists(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0;
}

bool IsDirectory(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, "cannot open", path);
  const absl::Cleanup close_file = [fd] { close(fd); };
  std::string content;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t count = read(fd, buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoStatus(errno, "cannot read", path);
    if (count == 0) return content;
    content.append(buffer, static_cast<size_t>(count));
    if (static_cast<int64_t>(content.size()) > max_bytes) {
      return absl::ResourceExhaustedError(absl::StrCat(path, " is larger than ", max_bytes, " bytes"));
    }
  }
}

absl::Status WriteAll(int fd, absl::string_view bytes, absl::string_view path) {
  while (!bytes.empty()) {
    const ssize_t count = write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoStatus(errno, "cannot write", path);
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

absl::Status AtomicWriteFile(const std::string& path, absl::string_view content, const AtomicWriteOptions& options) {
  const std::string temporary = absl::StrCat(path, ".tmp-", getpid(), "-", RandomHex(4));
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, options.mode);
  if (fd < 0) return ErrnoStatus(errno, "cannot create", temporary);
  absl::Status status = WriteAll(fd, content, path);
  if (status.ok() && options.sync && fsync(fd) != 0) status = ErrnoStatus(errno, "cannot sync", path);
  if (close(fd) != 0 && status.ok()) status = ErrnoStatus(errno, "cannot close", path);
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0)
    status = ErrnoStatus(errno, "cannot rename to", path);
  if (!status.ok()) unlink(temporary.c_str());
  if (!status.ok() || !options.sync) return status;
  const std::string folder = DirName(path);
  return SyncDir(folder.empty() ? "." : folder);
}

absl::Status MakeDirs(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return ErrnoStatus(error.value(), "cannot create folder", path);
  return absl::OkStatus();
}

absl::Status MakePrivateDir(const std::string& path) {
  RETURN_IF_ERROR(MakeDirs(DirName(path)));
  if (mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return absl::OkStatus();
  return ErrnoStatus(errno, "cannot create folder", path);
}

absl::Status SyncDir(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, "cannot open folder", path);
  const int result = fsync(fd);
  const int error = errno;
  close(fd);
  return result == 0 ? absl::OkStatus() : ErrnoStatus(error, "cannot sync folder", path);
}

absl::Status RemoveFile(const std::string& path) {
  if (unlink(path.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
  return ErrnoStatus(errno, "cannot remove", path);
}

absl::Status RemoveTree(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) return ErrnoStatus(error.value(), "cannot remove", path);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ListDir(const std::string& path) {
  std::error_code error;
  std::filesystem::directory_iterator it(path, error);
  std::vector<std::string> names;
  for (const std::filesystem::directory_iterator end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename());
  }
  if (error) return ErrnoStatus(error.value(), "cannot list", path);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace composer
