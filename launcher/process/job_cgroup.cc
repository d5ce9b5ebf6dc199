// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/job_cgroup.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
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
constexpr int kRemoveTries = 200;  // every 5 ms

bool IsUnified(const std::string& folder) { return PathExists(JoinPath(folder, "cgroup.subtree_control")); }

}  // namespace

std::optional<std::string> UnifiedCgroup(absl::string_view proc_self_cgroup) {
  for (absl::string_view line : absl::StrSplit(proc_self_cgroup, '\n')) {
    if (absl::ConsumePrefix(&line, "0::") && !line.empty() && line[0] == '/') return std::string(line);
  }
  return std::nullopt;
}

std::string JobCgroupRoot() {
  const std::optional<std::string> ours = UnifiedCgroup(ReadFile("/proc/self/cgroup", kMaxFileBytes).value_or(""));
  if (!ours.has_value()) return "";
  for (const char* root : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
    const std::string above = absl::StrCat(root, *ours == "/" ? "" : *ours);
    // We must be able to move processes out of the parent cgroup.
    if (IsUnified(above) && access(JoinPath(above, "cgroup.procs").c_str(), W_OK) == 0) return above;
  }
  return "";
}

std::string MakeJobCgroup(const std::string& name) {
  const std::string above = JobCgroupRoot();
  if (above.empty()) return "";
  const std::string folder = JoinPath(above, name);
  if (mkdir(folder.c_str(), 0755) != 0) return "";
  if (access(JoinPath(folder, "cgroup.kill").c_str(), W_OK) == 0) return folder;
  rmdir(folder.c_str());
  return "";
}

pid_t ForkInto(std::string& folder) {
  if (folder.empty()) return fork();
  const int fd = open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  clone_args arguments = {};
  arguments.flags = CLONE_INTO_CGROUP;
  arguments.exit_signal = SIGCHLD;
  arguments.cgroup = static_cast<uint64_t>(fd);
  const auto child = fd < 0 ? -1 : static_cast<pid_t>(syscall(SYS_clone3, &arguments, sizeof(arguments)));
  if (fd >= 0) close(fd);
  if (child >= 0) return child;
  rmdir(folder.c_str());
  folder.clear();
  return fork();
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
