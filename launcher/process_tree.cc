// SPDX-License-Identifier: Apache-2.0
#include "launcher/process_tree.h"

#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/file.h"

namespace composer {
namespace {

constexpr int64_t kMaxProcFileBytes = 1 << 20;

void AppendPids(const std::string& path, std::vector<pid_t>& pids) {
  const auto text = ReadFile(path, kMaxProcFileBytes);
  if (!text.ok()) return;  // the thread is gone
  for (const absl::string_view word : absl::StrSplit(*text, ' ', absl::SkipWhitespace())) {
    pid_t pid = 0;
    if (absl::SimpleAtoi(word, &pid) && pid > 0) pids.push_back(pid);
  }
}

// Reaps without waiting; a descendant that we did not start is nobody's concern but ours.
void Reap(const std::vector<pid_t>& pids) {
  for (const pid_t pid : pids) waitpid(pid, nullptr, WNOHANG);
}

}  // namespace

std::vector<pid_t> ChildrenOf(pid_t pid) {
  std::vector<pid_t> children;
  const std::string tasks = absl::StrCat("/proc/", pid, "/task");
  const auto threads = ListDir(tasks);
  if (!threads.ok()) return children;
  for (const std::string& thread : *threads) AppendPids(absl::StrCat(tasks, "/", thread, "/children"), children);
  return children;
}

std::vector<pid_t> WithDescendants(std::vector<pid_t> roots) {
  for (size_t i = 0; i < roots.size(); ++i) {
    const std::vector<pid_t> children = ChildrenOf(roots[i]);
    roots.insert(roots.end(), children.begin(), children.end());
  }
  return roots;
}

char ProcessState(pid_t pid) {
  const auto text = ReadFile(absl::StrCat("/proc/", pid, "/stat"), kMaxProcFileBytes);
  if (!text.ok()) return 0;
  const size_t end_of_name = text->rfind(") ");  // a name may hold anything
  return end_of_name == std::string::npos || end_of_name + 2 >= text->size() ? 0 : (*text)[end_of_name + 2];
}

std::string WaitChannel(pid_t pid) {
  const std::string name = ReadFile(absl::StrCat("/proc/", pid, "/wchan"), kMaxProcFileBytes).value_or("");
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) { return absl::ascii_isalnum(c) || c == '_'; });
  return plain ? name : "";
}

bool KillChildren(const std::function<bool(pid_t)>& doomed, absl::Duration limit) {
  const absl::Time deadline = absl::Now() + limit;
  while (true) {
    std::vector<pid_t> targets;
    for (const pid_t child : ChildrenOf(getpid())) {
      if (doomed(child)) targets.push_back(child);
    }
    if (targets.empty()) return true;
    if (absl::Now() > deadline) return false;
    for (const pid_t pid : WithDescendants(targets)) kill(pid, SIGKILL);
    Reap(targets);
    const timespec pause = {0, 500'000};
    nanosleep(&pause, nullptr);
  }
}

}  // namespace composer
