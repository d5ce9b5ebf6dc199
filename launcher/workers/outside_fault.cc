// SPDX-License-Identifier: Apache-2.0
#include "launcher/workers/outside_fault.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/file.h"

namespace composer {
namespace {

constexpr std::array<int, 5> kOutsideErrors = {ENOSPC, EDQUOT, EROFS, EIO, ESTALE};
constexpr off_t kRoomBytes = 1 << 20;

bool IsOutsideError(int error) {
  for (const int fault : kOutsideErrors) {
    if (error == fault) return true;
  }
  return false;
}

// Returns the word that ends before `: <what>`, or else the quoted path after it.
std::string PathAround(absl::string_view before, absl::string_view after) {
  if (absl::ConsumeSuffix(&before, ": ")) {
    const size_t blank = before.find_last_of(" \n\t");
    const absl::string_view word = blank == absl::string_view::npos ? before : before.substr(blank + 1);
    if (absl::StartsWith(word, "/")) return std::string(word);
  }
  if (absl::ConsumePrefix(&after, ": '/")) return absl::StrCat("/", after.substr(0, after.find('\'')));
  return "";
}

}  // namespace

std::optional<OutsideFault> FindOutsideFault(absl::string_view text) {
  for (const int fault : kOutsideErrors) {
    const std::string what = std::strerror(fault);
    const size_t at = text.find(what);
    if (at == absl::string_view::npos) continue;
    return OutsideFault{what, PathAround(text.substr(0, at), text.substr(at + what.size()))};
  }
  return std::nullopt;
}

bool HasRoom(const std::string& path) {
  std::string folder = AbsolutePath(path);
  while (!IsDirectory(folder) && folder.size() > 1) folder = DirName(folder);
  const std::string probe = JoinPath(folder, absl::StrCat(".composer-room-", getpid()));
  const int fd = open(probe.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return !IsOutsideError(errno);
  const int error = posix_fallocate(fd, 0, kRoomBytes);
  close(fd);
  unlink(probe.c_str());
  return !IsOutsideError(error);
}

}  // namespace composer
