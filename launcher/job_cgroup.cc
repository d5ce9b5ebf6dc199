// SPDX-License-Identifier: Apache-2.0
#include "launcher/job_cgroup.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/file.h"

namespace composer {
namespace {

constexpr int64_t kMaxFileBytes = 64 << 10;
constexpr int kRemoveTries = 200;  // of 5 ms

bool IsUnified(const std::string& folder) { return PathExists(JoinPath(folder, "cgroup.subtree_control")); }

}  // namespace

std::optional<std::string> UnifiedCgroup(absl::string_view proc_self_cgroup) {
  for (absl::string_view line : absl::StrSplit(proc_self_cgroup, '\n')) {
    if (absl::ConsumePrefix(&line, "0::") && !line.empty() && line[0] == '/') return std::string(line);
  }
  return std::nullopt;
}

std::string MakeJobCgroup(const std::string& name) {
  const std::optional<std::string> ours = UnifiedCgroup(ReadFile("/proc/self/cgroup", kMaxFileBytes).value_or(""));
  if (!ours.has_value()) return "";
  for (const char* root : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
    const std::string above = absl::StrCat(root, *ours == "/" ? "" : *ours);
    // Of the cgroup above we must be able to move processes out.
    if (!IsUnified(above) || access(JoinPath(above, "cgroup.procs").c_str(), W_OK) != 0) continue;
    const std::string folder = JoinPath(above, name);
    if (mkdir(folder.c_str(), 0755) != 0) return "";
    if (access(JoinPath(folder, "cgroup.kill").c_str(), W_OK) == 0) return folder;
    rmdir(folder.c_str());
    return "";
  }
  return "";
}

bool KillCgroup(const std::string& folder) {
  if (folder.empty()) return false;
  const int fd = open(JoinPath(folder, "cgroup.kill").c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool written = write(fd, "1", 1) == 1;
  close(fd);
  return written;
}

void RemoveCgroup(const std::string& folder) {
  if (folder.empty()) return;
  for (int i = 0; i < kRemoveTries && rmdir(folder.c_str()) != 0 && errno == EBUSY; ++i) {
    const timespec pause = {0, 5'000'000};
    nanosleep(&pause, nullptr);
  }
}

}  // namespace composer
