// SPDX-License-Identifier: Apache-2.0
#include "views/read/line_follower.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"

namespace composer {
namespace {

constexpr int64_t kChecked = 256;

// Returns the check of the file's bytes before `offset`; 0 at its beginning or when they cannot be read.
uint64_t CheckBefore(int fd, int64_t offset) {
  char bytes[kChecked];
  const auto count = static_cast<size_t>(std::min(offset, kChecked));
  if (count == 0 || pread(fd, bytes, count, offset - static_cast<int64_t>(count)) != static_cast<ssize_t>(count))
    return 0;
  uint64_t hash = 0xcbf29ce484222325;
  for (size_t i = 0; i < count; ++i) hash = (hash ^ static_cast<unsigned char>(bytes[i])) * 0x100000001b3;
  return hash;
}

}  // namespace

size_t LineFollower::TakeLines(absl::string_view block, const std::function<void(absl::string_view)>& take) {
  size_t taken = 0;
  while (taken < block.size()) {
    const void* newline = std::memchr(block.data() + taken, '\n', block.size() - taken);
    if (newline == nullptr) break;
    const auto end = static_cast<size_t>(static_cast<const char*>(newline) - block.data());
    if (in_long_line_) {
      in_long_line_ = false;
    } else {
      take(block.substr(taken, end - taken));
    }
    taken = end + 1;
  }
  if (taken > 0 || block.size() < kMaxLine) return taken;
  if (!in_long_line_) ++long_lines_;
  in_long_line_ = true;
  return block.size();
}

absl::StatusOr<LineFollower::Progress> LineFollower::Read(int64_t max_bytes,
                                                          const std::function<void(absl::string_view)>& take) {
  const int fd = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return ErrnoStatus(errno, "cannot open", path_);
  const absl::Cleanup close_fd = [fd] { close(fd); };
  struct stat info{};
  if (fstat(fd, &info) != 0) return ErrnoStatus(errno, "cannot read", path_);
  if (!S_ISREG(info.st_mode)) return absl::FailedPreconditionError(absl::StrCat(path_, " is not a regular file"));
  if (cursor_.offset < 0 || info.st_size < cursor_.offset ||
      (cursor_.offset > 0 && CheckBefore(fd, cursor_.offset) != cursor_.check)) {
    cursor_ = {};
    in_long_line_ = false;
    return Progress{.rewound = true, .more = true};
  }
  const int64_t first = cursor_.offset;
  bool more = false;
  while (true) {
    if (cursor_.offset - first >= max_bytes) {
      more = cursor_.offset < info.st_size;
      break;
    }
    block_.resize(kMaxLine);
    const ssize_t count = pread(fd, block_.data(), block_.size(), cursor_.offset);
    if (count < 0) return ErrnoStatus(errno, "cannot read", path_);
    const size_t taken = TakeLines(absl::string_view(block_.data(), static_cast<size_t>(count)), take);
    cursor_.offset += static_cast<int64_t>(taken);
    if (taken == 0) break;
  }
  if (cursor_.offset != first) cursor_.check = CheckBefore(fd, cursor_.offset);
  return Progress{.more = more};
}

}  // namespace composer
