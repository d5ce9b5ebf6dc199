// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/spawner.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "base/file.h"
#include "contract/exit_code.h"
#include "launcher/process/job_cgroup.h"
#include "launcher/process/process_tree.h"
#include "launcher/process/spawner_process.h"
#include "launcher/process/spawner_protocol.h"

namespace composer {
namespace {

SpawnerEvent ToEvent(const SpawnerNotice& notice) {
  SpawnerEvent event{.kind = SpawnerEvent::Kind::kStarted, .tag = notice.tag, .pid = notice.pid};
  if (notice.kind == SpawnerNotice::kExited) {
    event.kind = SpawnerEvent::Kind::kExited;
    event.exit = ExitStatus::FromWait(notice.value);
  } else if (notice.kind == SpawnerNotice::kSpawnFailed) {
    event.kind = SpawnerEvent::Kind::kSpawnFailed;
    event.failure = absl::Status(static_cast<absl::StatusCode>(notice.value), notice.text.data());
  }
  return event;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Spawner>> Spawner::Start(Options options) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return ErrnoStatus(errno, "make", "socket pair");
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  sigset_t all, before;
  sigfillset(&all);
  // The orphan reaper and the spawner must never run without their signal mask.
  sigprocmask(SIG_SETMASK, &all, &before);
  std::string cgroup = options.temp_folder.empty() ? "" : MakeJobCgroup(BaseName(options.temp_folder));
  const OrphanReaper reaper = StartOrphanReaper(options.temp_folder, cgroup);
  const pid_t pid = ForkInto(cgroup);
  if (pid != 0) sigprocmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return ErrnoStatus(errno, "fork", "the spawner");
  if (pid == 0) {
    close(ends[0]);
    RunSpawnerProcess({.socket = ends[1],
                       .temp_folder = options.temp_folder,
                       .cgroup = cgroup,
                       .early_child = options.early_child,
                       .early_child_fd = options.early_child_fd,
                       .early_child_tag = kEarlyChildTag});
  }
  close(ends[1]);
  return std::unique_ptr<Spawner>(new Spawner(ends[0], pid, reaper, cgroup, std::move(options)));
}

Spawner::~Spawner() { Finish(); }

absl::Status Spawner::Spawn(int tag, const ProcessSpec& spec, int stdout_fd, int stderr_fd) {
  const std::string bytes = EncodeProcessSpec(spec);
  if (bytes.size() > kMaxProcessSpecBytes)
    return absl::ResourceExhaustedError("arguments and environment are too large");
  const int spec_fd = memfd_create("composer-process-spec", MFD_CLOEXEC);
  if (spec_fd < 0) return ErrnoStatus(errno, "make", "memory file");
  const absl::Cleanup close_spec = [spec_fd] { close(spec_fd); };
  if (write(spec_fd, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
    return ErrnoStatus(errno, "write", "memory file");
  }
  const std::array<int, kSpawnDescriptors> descriptors = {spec_fd, stdout_fd, stderr_fd};
  return SendRequest(socket_, {SpawnerRequest::kSpawn, tag, 0, 0}, &descriptors);
}

void Spawner::Kill(pid_t pid, int signal) {
  SendRequest(socket_, {SpawnerRequest::kKill, 0, pid, signal}, nullptr).IgnoreError();  // TakeEvents reports its death
}

void Spawner::Sweep() { SendRequest(socket_, {SpawnerRequest::kSweep, 0, 0, 0}, nullptr).IgnoreError(); }

absl::StatusOr<std::vector<SpawnerEvent>> Spawner::TakeEvents() {
  std::vector<SpawnerEvent> events;
  while (true) {
    SpawnerNotice notice;
    const ssize_t size = recv(socket_, &notice, sizeof(notice), MSG_DONTWAIT);
    if (size == static_cast<ssize_t>(sizeof(notice))) {
      events.push_back(ToEvent(notice));
    } else if (size < 0 && errno == EINTR) {
      continue;
    } else if ((size < 0 && errno == EAGAIN) || !events.empty()) {
      return events;  // the next call reports the closed socket
    } else {
      return absl::UnavailableError("the spawner process is gone");
    }
  }
}

bool Spawner::KillLeftovers() {
  KillCgroup(cgroup_);
  Reap();
  // The orphan reaper is spared: if we are killed next, say by `pkill -9 composer`, it is all that is left.
  return KillChildren([this](pid_t pid) { return pid != reaper_.pid; }, absl::Seconds(5));
}

// The spawner has ended or is about to, because its end of the socket is closed.
void Spawner::Reap() {
  int status = 0;
  pid_t reaped = 0;
  while (pid_ != 0 && (reaped = waitpid(pid_, &status, 0)) < 0 && errno == EINTR) {
  }
  if (reaped > 0) exit_ = ExitStatus::FromWait(status);
  pid_ = 0;
}

absl::Status Spawner::Restart() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return ErrnoStatus(errno, "make", "socket pair");
  if (!cgroup_.empty()) {  // some kernels kill whatever is born into a cgroup that was killed before
    const std::string name = BaseName(cgroup_);
    RemoveCgroup(cgroup_);
    cgroup_ = MakeJobCgroup(name);
  }
  std::vector<int> inherited = options_.held;
  if (reaper_.alive_fd >= 0) inherited.push_back(reaper_.alive_fd);
  const std::string socket = absl::StrCat(ends[1]), held = absl::StrJoin(inherited, ",");
  inherited.push_back(ends[1]);
  const std::array<const char*, 7> argv = {
      "composer",      kSpawnerCommand, socket.c_str(), options_.temp_folder.c_str(),
      cgroup_.c_str(), held.c_str(),    nullptr};
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  const pid_t pid = ForkInto(cgroup_);
  if (pid == 0) {  // system calls only, because other threads may hold any lock
    close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
    for (const int fd : inherited) fcntl(fd, F_SETFD, 0);
    execv("/proc/self/exe", const_cast<char**>(argv.data()));
    _exit(exit_code::kFailure);
  }
  const int error = errno;
  sigprocmask(SIG_SETMASK, &before, nullptr);
  close(ends[1]);
  if (pid < 0) {
    close(ends[0]);
    return ErrnoStatus(error, "fork", "the spawner");
  }
  close(socket_);
  socket_ = ends[0];
  pid_ = pid;
  exit_ = {};
  return absl::OkStatus();
}

bool Spawner::IsStuck() const {
  const char state = pid_ == 0 ? '\0' : ProcessState(pid_);
  return state == 'T' || state == 't' || state == 'D';
}

void Spawner::KillStuck() {
  if (pid_ != 0) kill(pid_, SIGKILL);
}

void Spawner::Finish() {
  if (finished_) return;
  finished_ = true;
  close(socket_);  // tells the spawner to end everything
  const char state = pid_ == 0 ? '\0' : ProcessState(pid_);
  if (state == 'T' || state == 't') {  // a stopped spawner does not notice
    KillStuck();
    KillLeftovers();
  }
  Reap();
  KillCgroup(cgroup_);
  RemoveCgroup(cgroup_);
  // Nothing is left for it to do.
  if (reaper_.pid > 0 && kill(reaper_.pid, SIGKILL) == 0) waitpid(reaper_.pid, nullptr, 0);
  if (reaper_.alive_fd >= 0) close(reaper_.alive_fd);
}

int RunRestartedSpawner(int argc, char** argv) {
  int socket = -1, type = 0;
  socklen_t size = sizeof(type);
  // It was not started by a launcher, so there is no job to manage and no folder to remove.
  if (argc != 6 || !absl::SimpleAtoi(argv[2], &socket) || getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &size) != 0 ||
      type != SOCK_SEQPACKET) {
    return exit_code::kUserError;
  }
  fcntl(socket, F_SETFD, FD_CLOEXEC);
  for (const absl::string_view word : absl::StrSplit(argv[5], ',', absl::SkipEmpty())) {
    int fd = -1;
    if (absl::SimpleAtoi(word, &fd)) fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
  SpawnerProcessOptions options;
  options.socket = socket;
  options.temp_folder = argv[3];
  options.cgroup = argv[4];
  RunSpawnerProcess(options);
}

}  // namespace composer
