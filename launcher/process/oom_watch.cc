// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/oom_watch.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/file.h"

namespace composer {
namespace {

constexpr int64_t kMaxKernelTextBytes = 1 << 20;
constexpr size_t kMaxKills = 1000;                         // per generation; the newest are kept
constexpr char kFirstPidNamespace[] = "pid:[4026531836]";  // the kernel's PROC_PID_INIT_INO

int64_t ReadNumber(const std::string& path) {
  const auto text = ReadFile(path, kMaxKernelTextBytes);
  int64_t value = -1;
  return text.ok() && absl::SimpleAtoi(absl::StripSuffix(*text, "\n"), &value) ? value : -1;
}

bool InFirstPidNamespace(const std::string& proc) {
  std::array<char, 64> target{};
  const ssize_t size = readlink(absl::StrCat(proc, "/self/ns/pid").c_str(), target.data(), target.size());
  return size > 0 && absl::string_view(target.data(), static_cast<size_t>(size)) == kFirstPidNamespace;
}

}  // namespace

OomWatch::OomWatch(Places places) : places_(std::move(places)), own_pids_(InFirstPidNamespace(places_.proc)) {
  log_fd_ = open(places_.kernel_log.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (log_fd_ >= 0) lseek(log_fd_, 0, SEEK_END);
  const auto membership = ReadFile(places_.proc + "/self/cgroup", kMaxKernelTextBytes);
  if (!membership.ok()) return;
  const auto cgroup = ParseMemoryCgroup(*membership);
  if (!cgroup.has_value()) return;
  v2_ = cgroup->v2;
  // A container sees its own cgroup as the root of the mount, whatever the path says.
  for (const std::string& root : {absl::StrCat(places_.cgroup, v2_ ? "" : "/memory"), places_.cgroup + "/unified"}) {
    for (const std::string& folder : {absl::StrCat(root, cgroup->path), root}) {
      if (!PathExists(folder + (v2_ ? "/memory.events" : "/memory.oom_control"))) continue;
      cgroup_folder_ = folder;
      return;
    }
  }
}

OomWatch::~OomWatch() {
  if (log_fd_ >= 0) close(log_fd_);
}

void OomWatch::Begin() {
  ReadKernelLog();
  kills_.clear();
  before_ = ReadOomKills();
}

KillEvidence OomWatch::Look(pid_t pid, const std::vector<pid_t>& workers) {
  ReadKernelLog();
  KillEvidence evidence;
  evidence.oom_kills_before = before_;
  evidence.oom_kills_now = ReadOomKills();
  evidence.kernel_log_read = log_fd_ >= 0 && own_pids_;
  evidence.available_bytes = ReadAvailable();
  if (!own_pids_) return evidence;
  for (const OomKill& kill : kills_) {
    if (kill.pid == pid) {
      evidence.named = kill;
    } else if (std::find(workers.begin(), workers.end(), kill.pid) == workers.end()) {
      evidence.other = kill;
    }
  }
  return evidence;
}

std::optional<int64_t> OomWatch::ReadOomKills() const {
  if (cgroup_folder_.empty()) return std::nullopt;
  const auto text = ReadFile(cgroup_folder_ + (v2_ ? "/memory.events" : "/memory.oom_control"), kMaxKernelTextBytes);
  return text.ok() ? ParseOomKills(*text) : std::nullopt;
}

int64_t OomWatch::ReadAvailable() const {
  const auto text = ReadFile(places_.proc + "/meminfo", kMaxKernelTextBytes);
  int64_t available = text.ok() ? ParseAvailableMemory(*text) : -1;
  if (cgroup_folder_.empty()) return available;
  const int64_t limit = ReadNumber(cgroup_folder_ + (v2_ ? "/memory.max" : "/memory.limit_in_bytes"));  // -1 for "max"
  const int64_t used = ReadNumber(cgroup_folder_ + (v2_ ? "/memory.current" : "/memory.usage_in_bytes"));
  if (limit > 0 && used >= 0) available = available < 0 ? limit - used : std::min(available, limit - used);
  return available;
}

void OomWatch::ReadKernelLog() {
  if (log_fd_ < 0) return;
  std::array<char, 8192> record;  // each read returns one record
  while (true) {
    const ssize_t size = read(log_fd_, record.data(), record.size());
    // EPIPE means that records were lost; the next read goes on.
    if (size < 0 && (errno == EPIPE || errno == EINTR)) continue;
    if (size <= 0) return;
    if (auto kill = ParseKernelRecord({record.data(), static_cast<size_t>(size)})) kills_.push_back(*std::move(kill));
    if (kills_.size() > kMaxKills) kills_.erase(kills_.begin());
  }
}

}  // namespace composer
