// The launcher's handle on its keeper (keeper_process.h): start processes, signal them, hear of their ends.
// Threads: one at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/process.h"
#include "launcher/process/process_spec.h"
#include "launcher/process/warden.h"

namespace composer {

// Something that happened to a process which the keeper started.
struct KeeperEvent {
  enum class Kind { kStarted, kSpawnFailed, kExited };
  Kind kind;
  int tag;  // as given to Spawn
  pid_t pid = 0;
  ExitStatus exit;       // kExited
  absl::Status failure;  // kSpawnFailed: why, naming the path
};

class Keeper {
 public:
  struct Options {
    std::string temp_folder;  // the keeper removes it when the launcher ends, however that happens; its path is in the
        // environment of every worker, and a warden ends what launcher and keeper leave; "": none,
        // and no cgroup (job_cgroup.h) either
    std::function<void()> early_child;  // runs in a process of its own from the very start; its tag is kEarlyChildTag
    int early_child_fd = -1;            // for the early child alone: the keeper closes its copy
    std::vector<int> held;  // descriptors that must stay open for as long as a process of the job lives: locks
  };
  static constexpr int kEarlyChildTag = -1;

  // Forks. Call from main while the process has one thread. Makes the calling process a child subreaper, so that it can
  // clean up should the keeper die.
  static absl::StatusOr<std::unique_ptr<Keeper>> Start(Options options);

  // As Finish.
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  // The answer comes as an event with this tag. The descriptors stay the caller's. kUnavailable: the keeper is gone.
  absl::Status Spawn(int tag, const ProcessSpec& spec, int stdout_fd, int stderr_fd);
  // Signals the process group of a process that the keeper started.
  void Kill(pid_t pid, int signal);
  // Ends what earlier workers left running (daemons, orphans).
  void Sweep();

  // Readable when TakeEvents has something.
  int fd() const { return socket_; }
  // Everything there is now, in the order it happened. kUnavailable: the keeper is gone; call KillRemains, then Restart.
  absl::StatusOr<std::vector<KeeperEvent>> TakeEvents();

  // After the keeper's death its children are ours: ends them all. False: some are left, in an uninterruptible wait.
  bool KillRemains();
  // How the keeper ended; ok() when that was not seen. After KillRemains.
  ExitStatus exit() const { return exit_; }
  // A new keeper in place of the one that is gone, without an early child. It is executed anew (RunRestartedKeeper),
  // since this process has threads by now.
  absl::Status Restart();
  // A keeper that is stopped, or waits for a child that was stopped before its exec, does nothing of what it is asked.
  bool IsStuck() const;
  // Ends a keeper that is stuck: TakeEvents tells of it.
  void KillStuck();

  // Ends every process of the job and the keeper, and waits for that.
  void Finish();

 private:
  Keeper(int socket, pid_t pid, Warden warden, std::string cgroup, Options options)
      : socket_(socket), pid_(pid), warden_(warden), cgroup_(std::move(cgroup)), options_(std::move(options)) {}

  void Reap();

  bool finished_ = false;
  int socket_;
  pid_t pid_;  // 0 after Finish, and after the keeper's death
  ExitStatus exit_;
  Warden warden_;
  std::string cgroup_;
  const Options options_;
};

// main() of a keeper that Restart has executed: argv[1] is kKeeperCommand. Returns an exit code.
inline constexpr char kKeeperCommand[] = "launch-keeper";
int RunRestartedKeeper(int argc, char** argv);

}  // namespace composer
