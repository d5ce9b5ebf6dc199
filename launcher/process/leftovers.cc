// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/leftovers.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/strip.h"
#include "base/file.h"

namespace composer {
namespace {

constexpr absl::string_view kTempPrefix = "composer-";
constexpr size_t kTempRandom = 6;  // mkdtemp's random suffix

bool IsOurName(absl::string_view name) {
  return absl::ConsumePrefix(&name, kTempPrefix) && name.size() == kTempRandom &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)); });
}

// Matches "summary.json.tmp-4711", and the same with a suffix after the pid.
bool IsUnfinished(absl::string_view name) {
  const size_t at = name.rfind(".tmp-");
  return at != absl::string_view::npos && at + 5 < name.size() && absl::ascii_isdigit(name[at + 5]);
}

class LeftoverCleaner {
 public:
  LeftoverCleaner(absl::Duration untouched, absl::Time now) : untouched_(untouched), now_(now) {}

  void ClearTempFolder(const std::string& path) {
    if (!IsOld(path, S_IFDIR)) return;
    const int fd = open(JoinPath(path, kOwnerFile).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return;  // not a launcher's folder
    const absl::Cleanup close_fd = [fd] { close(fd); };
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && RemoveTree(path).ok()) removed_.push_back(path);
  }

  // rmdir fails if a process is in it.
  void ClearCgroup(const std::string& path) {
    if (IsOld(path, S_IFDIR) && rmdir(path.c_str()) == 0) removed_.push_back(path);
  }

  void ClearUnfinished(const std::string& path) {
    if (IsOld(path, S_IFREG) && unlink(path.c_str()) == 0) removed_.push_back(path);
  }

  std::vector<std::string> removed() { return std::move(removed_); }

 private:
  bool IsOld(const std::string& path, mode_t type) const {
    struct stat info;
    return lstat(path.c_str(), &info) == 0 && (info.st_mode & S_IFMT) == type && info.st_uid == geteuid() &&
           absl::TimeFromTimespec(info.st_mtim) <= now_ - untouched_;
  }

  const absl::Duration untouched_;
  const absl::Time now_;
  std::vector<std::string> removed_;
};

}  // namespace

absl::StatusOr<int> OwnTempFolder(const std::string& folder) {
  const std::string path = JoinPath(folder, kOwnerFile);
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return ErrnoStatus(errno, "cannot create", path);
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  const absl::Status status = ErrnoStatus(errno, "cannot lock", path);
  close(fd);
  return status;
}

std::vector<std::string> ClearLeftovers(const LeftoverPlaces& places, absl::Time now) {
  LeftoverCleaner cleaner(places.untouched, now);
  const auto names = [](const std::string& folder) { return ListDir(folder).value_or(std::vector<std::string>()); };
  for (const std::string& root : places.temp_roots) {
    for (const std::string& name : names(root)) {
      if (IsOurName(name)) cleaner.ClearTempFolder(JoinPath(root, name));
    }
  }
  if (!places.cgroup_root.empty()) {
    for (const std::string& name : names(places.cgroup_root)) {
      if (IsOurName(name)) cleaner.ClearCgroup(JoinPath(places.cgroup_root, name));
    }
  }
  if (!places.run_folder.empty()) {
    for (const std::string& name : names(places.run_folder)) {
      if (IsUnfinished(name)) cleaner.ClearUnfinished(JoinPath(places.run_folder, name));
    }
  }
  return cleaner.removed();
}

}  // namespace composer
