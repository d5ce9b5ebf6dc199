// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/spawner_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <map>

#include "base/file.h"
#include "base/status_macros.h"
#include "launcher/process/job_cgroup.h"
#include "launcher/process/process_spec.h"
#include "launcher/process/process_tree.h"
#include "launcher/process/spawner_protocol.h"

namespace composer {
namespace {

constexpr absl::Duration kEndLimit = absl::Seconds(30);  // a process in an uninterruptible wait can outlast SIGKILL
constexpr absl::Duration kHuntLimit = absl::Milliseconds(400);  // beyond this, they fork faster than we can kill
constexpr absl::Duration kSweepLimit = absl::Seconds(1);

absl::StatusOr<ProcessSpec> ReadSpec(int fd) {
  struct stat info;
  if (fstat(fd, &info) != 0 || info.st_size <= 0 || info.st_size > static_cast<off_t>(kMaxProcessSpecBytes)) {
    return absl::InvalidArgumentError("the process spec is missing or too large");
  }
  std::string bytes(static_cast<size_t>(info.st_size), '\0');
  if (pread(fd, bytes.data(), bytes.size(), 0) != info.st_size)
    return absl::DataLossError("the process spec is cut off");
  return DecodeProcessSpec(bytes);
}

class SpawnerLoop {
 public:
  explicit SpawnerLoop(const SpawnerProcessOptions& options) : options_(options) {}

  void Run() {
    Isolate();
    StartEarlyChild();
    while (!launcher_gone_) Turn();
    const bool all_ended = KillChildren([](pid_t) { return true; }, options_.cgroup.empty() ? kEndLimit : kHuntLimit);
    if (!options_.temp_folder.empty()) RemoveTree(options_.temp_folder).IgnoreError();
    if (!all_ended) KillCgroup(options_.cgroup);  // kills us too; the launcher or the orphan reaper removes it
  }

 private:
  void Isolate() {
    setsid();
    prctl(PR_SET_NAME, "composer-spawn");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    sigset_t child_exits;
    sigemptyset(&child_exits);
    sigaddset(&child_exits, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child_exits, nullptr);
    exits_fd_ = signalfd(-1, &child_exits, SFD_CLOEXEC | SFD_NONBLOCK);
  }

  void StartEarlyChild() {
    if (!options_.early_child) return;
    const pid_t spawner = getpid();
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != spawner) _exit(1);
      close(options_.socket);
      close(exits_fd_);
      options_.early_child();
      _exit(0);
    }
    if (options_.early_child_fd >= 0) close(options_.early_child_fd);
    if (child < 0) return Notify({SpawnerNotice::kSpawnFailed, options_.early_child_tag, 0, 0, {"fork failed"}});
    tags_[child] = options_.early_child_tag;
    Notify({SpawnerNotice::kStarted, options_.early_child_tag, child, 0, {}});
  }

  // Waits for a request, an exit, or room for a notice.
  void Turn() {
    const short want_socket = notices_.empty() ? POLLIN : POLLIN | POLLOUT;
    pollfd polls[2] = {{options_.socket, want_socket, 0}, {exits_fd_, POLLIN, 0}};
    if (poll(polls, 2, -1) < 0) return;
    if (polls[1].revents != 0) ReapExits();
    if ((polls[0].revents & POLLOUT) != 0) FlushNotices();
    if ((polls[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0) HandleRequest();
  }

  void ReapExits() {
    signalfd_siginfo ignored;
    while (read(exits_fd_, &ignored, sizeof(ignored)) > 0) {
    }
    int status = 0;
    for (pid_t pid = waitpid(-1, &status, WNOHANG); pid > 0; pid = waitpid(-1, &status, WNOHANG)) {
      const auto it = tags_.find(pid);
      if (it == tags_.end()) continue;  // an orphan reparented to us
      Notify({SpawnerNotice::kExited, it->second, pid, status, {}});
      tags_.erase(it);
    }
  }

  void HandleRequest() {
    auto received = ReceiveRequest(options_.socket);
    if (!received.ok()) {
      launcher_gone_ = true;
      return;
    }
    const SpawnerRequest& request = received->request;
    switch (request.kind) {
      case SpawnerRequest::kSpawn:
        Spawn(*received);
        break;
      case SpawnerRequest::kKill:
        if (tags_.contains(request.pid) && kill(-request.pid, request.signal) != 0) kill(request.pid, request.signal);
        break;
      case SpawnerRequest::kSweep:
        KillChildren([this](pid_t pid) { return !tags_.contains(pid); }, kSweepLimit);
        break;
    }
    for (const int fd : received->descriptors) {
      if (fd >= 0) close(fd);
    }
  }

  static absl::StatusOr<pid_t> Start(const ReceivedRequest& received) {
    ASSIGN_OR_RETURN(const ProcessSpec spec, ReadSpec(received.descriptors[0]));
    return SpawnProcess(spec, received.descriptors[1], received.descriptors[2]);
  }

  void Spawn(const ReceivedRequest& received) {
    const absl::StatusOr<pid_t> pid = Start(received);
    SpawnerNotice notice = {SpawnerNotice::kStarted, received.request.tag, 0, 0, {}};
    if (pid.ok()) {
      notice.pid = *pid;
      tags_[*pid] = received.request.tag;
    } else {
      notice.kind = SpawnerNotice::kSpawnFailed;
      notice.value = static_cast<int32_t>(pid.status().code());
      const absl::string_view text = pid.status().message().substr(0, notice.text.size() - 1);
      std::copy(text.begin(), text.end(), notice.text.begin());
    }
    Notify(notice);
  }

  void Notify(const SpawnerNotice& notice) {
    notices_.push_back(notice);
    FlushNotices();
  }

  // Never blocks, because a busy launcher must not keep us from reaping or from noticing its end.
  void FlushNotices() {
    while (!notices_.empty()) {
      const SpawnerNotice& next = notices_.front();
      if (send(options_.socket, &next, sizeof(next), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) return;
      notices_.pop_front();
    }
  }

  const SpawnerProcessOptions& options_;
  int exits_fd_ = -1;
  bool launcher_gone_ = false;
  std::map<pid_t, int32_t> tags_;  // spawned by request and not yet reaped
  std::deque<SpawnerNotice> notices_;
};

}  // namespace

void RunSpawnerProcess(const SpawnerProcessOptions& options) {
  SpawnerLoop(options).Run();
  _exit(0);
}

}  // namespace composer
