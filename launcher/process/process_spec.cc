// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/process_spec.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"

namespace composer {
namespace {

constexpr char kBlocksSignals[] = "blocks_signals", kKeepsSession[] = "keeps_session";

void AppendList(const std::vector<std::string>& list, std::string& bytes) {
  absl::StrAppend(&bytes, list.size(), absl::string_view("\0", 1));
  for (const std::string& item : list) absl::StrAppend(&bytes, item, absl::string_view("\0", 1));
}

// Removes one NUL-terminated string from the front.
absl::StatusOr<std::string> TakeString(absl::string_view& bytes) {
  const size_t end = bytes.find('\0');
  if (end == absl::string_view::npos) return absl::InvalidArgumentError("process spec is cut off");
  std::string result(bytes.substr(0, end));
  bytes.remove_prefix(end + 1);
  return result;
}

absl::StatusOr<std::vector<std::string>> TakeList(absl::string_view& bytes) {
  ASSIGN_OR_RETURN(const std::string count_text, TakeString(bytes));
  size_t count = 0;
  if (!absl::SimpleAtoi(count_text, &count) || count > bytes.size()) {
    return absl::InvalidArgumentError("process spec has a wrong count");
  }
  std::vector<std::string> result;
  for (size_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(std::string item, TakeString(bytes));
    result.push_back(std::move(item));
  }
  return result;
}

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (const std::string& s : strings) result.push_back(const_cast<char*>(s.c_str()));
  result.push_back(nullptr);
  return result;
}

// Everything that the child needs, built before vfork, because between vfork and exec it may only make system calls.
struct ExecPlan {
  std::vector<char*> argv;
  std::vector<char*> environment;
  const char* folder;  // null means that the child stays in the current folder
  cpu_set_t cpus;
  bool bind;
  bool blocks_signals;
  bool keeps_session;
  int stdout_fd;
  int stderr_fd;
  pid_t parent;
};

// Runs in the child. Returns only on failure, with errno set.
void Exec(const ExecPlan& plan) {
  if (!plan.keeps_session) setsid();
  prctl(PR_SET_PDEATHSIG, plan.keeps_session ? SIGTERM : SIGKILL);
  if (getppid() != plan.parent) _exit(1);  // the parent died before prctl took effect
  if (plan.folder != nullptr && chdir(plan.folder) != 0) return;
  const int null_fd = open("/dev/null", O_RDONLY);
  if (null_fd < 0 || dup2(null_fd, 0) < 0) return;
  if (null_fd > 2) close(null_fd);
  if (dup2(plan.stdout_fd, 1) < 0 || dup2(plan.stderr_fd, 2) < 0) return;
  if (plan.bind) sched_setaffinity(0, sizeof(plan.cpus), &plan.cpus);  // best effort: a cgroup may have shrunk
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2}) {
    if (plan.blocks_signals) signal(number, SIG_IGN);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execve(plan.argv[0], plan.argv.data(), plan.environment.data());
}

}  // namespace

std::string EncodeProcessSpec(const ProcessSpec& spec) {
  std::string bytes;
  AppendList(spec.argv, bytes);
  AppendList(spec.environment, bytes);
  AppendList({spec.folder, spec.blocks_signals ? kBlocksSignals : "", spec.keeps_session ? kKeepsSession : ""}, bytes);
  std::vector<std::string> cpus;
  for (const int cpu : spec.cpus) cpus.push_back(absl::StrCat(cpu));
  AppendList(cpus, bytes);
  return bytes;
}

absl::StatusOr<ProcessSpec> DecodeProcessSpec(absl::string_view bytes) {
  ProcessSpec spec;
  ASSIGN_OR_RETURN(spec.argv, TakeList(bytes));
  ASSIGN_OR_RETURN(spec.environment, TakeList(bytes));
  ASSIGN_OR_RETURN(const std::vector<std::string> folder, TakeList(bytes));
  ASSIGN_OR_RETURN(const std::vector<std::string> cpus, TakeList(bytes));
  if (spec.argv.empty() || folder.size() != 3 || !bytes.empty()) {
    return absl::InvalidArgumentError("process spec has wrong fields");
  }
  spec.folder = folder[0];
  spec.blocks_signals = folder[1] == kBlocksSignals;
  spec.keeps_session = folder[2] == kKeepsSession;
  for (const std::string& text : cpus) {
    int cpu = 0;
    if (!absl::SimpleAtoi(text, &cpu) || cpu < 0 || cpu >= CPU_SETSIZE) {
      return absl::InvalidArgumentError(absl::StrCat("process spec has cpu `", text, "`"));
    }
    spec.cpus.push_back(cpu);
  }
  return spec;
}

absl::StatusOr<pid_t> SpawnProcess(const ProcessSpec& spec, int stdout_fd, int stderr_fd) {
  ExecPlan plan{.argv = Pointers(spec.argv),
                .environment = Pointers(spec.environment),
                .folder = spec.folder.empty() ? nullptr : spec.folder.c_str(),
                .bind = !spec.cpus.empty(),
                .blocks_signals = spec.blocks_signals,
                .keeps_session = spec.keeps_session,
                .stdout_fd = stdout_fd,
                .stderr_fd = stderr_fd,
                .parent = getpid()};
  CPU_ZERO(&plan.cpus);
  for (const int cpu : spec.cpus) CPU_SET(cpu, &plan.cpus);
  volatile int failure = 0;  // the child shares our memory until it execs or exits
  const pid_t child = vfork();
  if (child == 0) {
    Exec(plan);
    failure = errno;
    _exit(127);
  }
  if (child < 0) return ErrnoStatus(errno, "start", spec.argv[0]);
  // Its exit is reaped like that of any stray child.
  if (failure != 0) return ErrnoStatus(failure, "execute", spec.argv[0]);
  return child;
}

}  // namespace composer
