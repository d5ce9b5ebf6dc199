// SPDX-License-Identifier: Apache-2.0
#include "storage/file_system.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"

namespace composer {
namespace {

// Small pieces are gathered up to this size; larger ones go straight to the kernel.
constexpr size_t kBufferBytes = size_t{1} << 20;

absl::Status WritePieces(int fd, absl::Span<const absl::string_view> pieces, const std::string& path) {
  std::string buffer;
  for (const absl::string_view piece : pieces) {
    if (buffer.size() + piece.size() > kBufferBytes) {
      RETURN_IF_ERROR(WriteAll(fd, buffer, path));
      buffer.clear();
    }
    if (piece.size() < kBufferBytes) {
      buffer.append(piece.data(), piece.size());
    } else {
      RETURN_IF_ERROR(WriteAll(fd, piece, path));
    }
  }
  RETURN_IF_ERROR(WriteAll(fd, buffer, path));
  return fsync(fd) == 0 ? absl::OkStatus() : ErrnoStatus(errno, "cannot sync", path);
}

absl::Status NotRegular(const std::string& path) {
  return absl::DataLossError(absl::StrCat(path, ": not a regular file"));
}

// Returns whether the file system does not know the call, as opposed to refusing this particular file.
bool IsUnknownCall(int error) {
  return error == EPERM || error == EOPNOTSUPP || error == ENOTSUP || error == ENOSYS || error == EINVAL ||
         error == EMLINK || error == EXDEV;
}

absl::Status ReserveAndRename(const std::string& from, const std::string& to) {
  const int fd = open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) return ErrnoStatus(errno, "cannot create", to);
  close(fd);
  if (rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
  const absl::Status status = ErrnoStatus(errno, "cannot rename to", to);
  unlink(to.c_str());
  return status;
}

class PosixFileSystem final : public FileSystem {
 public:
  absl::Status WriteNewFile(const std::string& path, absl::Span<const absl::string_view> pieces) override {
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0) return ErrnoStatus(errno, "cannot create", path);
    const absl::Status written = WritePieces(fd, pieces, path);
    if (close(fd) != 0 && written.ok()) return ErrnoStatus(errno, "cannot close", path);
    return written;
  }

  absl::Status Rename(const std::string& from, const std::string& to) override {
    return rename(from.c_str(), to.c_str()) == 0 ? absl::OkStatus() : ErrnoStatus(errno, "cannot rename to", to);
  }

  absl::Status Link(const std::string& from, const std::string& to) override { return TakeFreeName(from, to); }

  absl::Status Remove(const std::string& path) override {
    return std::remove(path.c_str()) == 0 || errno == ENOENT ? absl::OkStatus()
                                                             : ErrnoStatus(errno, "cannot remove", path);
  }

  absl::Status MakeFolder(const std::string& path) override {
    if (mkdir(path.c_str(), 0755) == 0) return absl::OkStatus();
    const int error = errno;
    if (error == EEXIST && IsDirectory(path)) return absl::OkStatus();
    // Not kAlreadyExists, which a caller takes for a file that somebody else has written first.
    return ErrnoStatus(error == EEXIST ? ENOTDIR : error, "cannot create folder", path);
  }

  absl::Status SyncFolder(const std::string& path) override { return SyncDir(path); }

  absl::StatusOr<int64_t> Size(const std::string& path) override {
    struct stat info;
    if (stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, "cannot stat", path);
    if (!S_ISREG(info.st_mode)) return NotRegular(path);
    return int64_t{info.st_size};
  }

  absl::Status Read(const std::string& path, int64_t offset, absl::Span<char> into) override {
    // Opening a FIFO would wait for a writer. Opening a device may have side effects, but that needs a device there.
    const int fd = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 && errno == ENXIO) return NotRegular(path);
    if (fd < 0) return ErrnoStatus(errno, "cannot open", path);
    const absl::Cleanup close_file = [fd] { close(fd); };
    struct stat info;
    if (fstat(fd, &info) != 0) return ErrnoStatus(errno, "cannot stat", path);
    if (!S_ISREG(info.st_mode)) return NotRegular(path);
    while (!into.empty()) {
      const ssize_t count = pread(fd, into.data(), into.size(), offset);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return ErrnoStatus(errno, "cannot read", path);
      if (count == 0)
        return absl::OutOfRangeError(absl::StrCat(path, " ends at ", offset, " bytes, ", into.size(), " too early"));
      offset += count;
      into.remove_prefix(static_cast<size_t>(count));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<Entry>> List(const std::string& path) override {
    std::error_code error;
    std::vector<Entry> entries;
    std::filesystem::directory_iterator it(path, error);
    for (const std::filesystem::directory_iterator end; !error && it != end; it.increment(error)) {
      std::error_code gone;  // an entry removed meanwhile does not count as a folder
      entries.push_back(
          {it->path().filename(), it->symlink_status(gone).type() == std::filesystem::file_type::directory});
    }
    if (error) return ErrnoStatus(error.value(), "cannot list", path);
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
    return entries;
  }
};

}  // namespace

absl::Status TakeFreeName(const std::string& from, const std::string& to, NameBy first) {
  if (first == NameBy::kLink) {
    if (link(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
    if (!IsUnknownCall(errno)) return ErrnoStatus(errno, "cannot create", to);
  }
  if (first != NameBy::kReserve) {
    if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return absl::OkStatus();
    if (!IsUnknownCall(errno)) return ErrnoStatus(errno, "cannot create", to);
  }
  return ReserveAndRename(from, to);
}

FileSystem& RealFileSystem() {
  static PosixFileSystem* const file_system = new PosixFileSystem;
  return *file_system;
}

}  // namespace composer
