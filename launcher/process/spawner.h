// The launcher's handle on its spawner (spawner_process.h): start processes, signal them, hear of their ends.
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
#include "launcher/process/orphan_reaper.h"
#include "launcher/process/process_spec.h"

namespace composer {

// Something that happened to a process which the spawner started.
struct SpawnerEvent {
  enum class Kind { kStarted, kSpawnFailed, kExited };
  Kind kind;
  int tag;  // as given to Spawn
  pid_t pid = 0;
  ExitStatus exit;       // kExited
  absl::Status failure;  // kSpawnFailed: why, naming the path
};

class Spawner {
 public:
  struct Options {
    std::string temp_folder;  // the spawner removes it when the launcher ends, however that happens; its path is in the
        // environment of every worker, and a orphan reaper ends what launcher and spawner leave; "": none,
        // and no cgroup (job_cgroup.h) either
    std::function<void()> early_child;  // runs in a process of its own from the very start; its tag is kEarlyChildTag
    int early_child_fd = -1;            // for the early child alone: the spawner closes its copy
    std::vector<int> held;  // descriptors that must stay open for as long as a process of the job lives: locks
  };
  static constexpr int kEarlyChildTag = -1;

  // Forks. Call from main while the process has one thread. Makes the calling process a child subreaper, so that it can
  // clean up should the spawner die.
  static absl::StatusOr<std::unique_ptr<Spawner>> Start(Options options);

  // As Finish.
  ~Spawner();
  Spawner(const Spawner&) = delete;
  Spawner& operator=(const Spawner&) = delete;

  // The answer comes as an event with this tag. The descriptors stay the caller's. kUnavailable: the spawner is gone.
  absl::Status Spawn(int tag, const ProcessSpec& spec, int stdout_fd, int stderr_fd);
  // Signals the process group of a process that the spawner started.
  void Kill(pid_t pid, int signal);
  // Ends what earlier workers left running (daemons, orphans).
  void Sweep();

  // Readable when TakeEvents has something.
  int fd() const { return socket_; }
  // Everything there is now, in the order it happened. kUnavailable: the spawner is gone; call KillLeftovers, then Restart.
  absl::StatusOr<std::vector<SpawnerEvent>> TakeEvents();

  // After the spawner's death its children are ours: ends them all. False: some are left, in an uninterruptible wait.
  bool KillLeftovers();
  // How the spawner ended; ok() when that was not seen. After KillLeftovers.
  ExitStatus exit() const { return exit_; }
  // A new spawner in place of the one that is gone, without an early child. It is executed anew (RunRestartedSpawner),
  // since this process has threads by now.
  absl::Status Restart();
  // A spawner that is stopped, or waits for a child that was stopped before its exec, does nothing of what it is asked.
  bool IsStuck() const;
  // Ends a spawner that is stuck: TakeEvents tells of it.
  void KillStuck();

  // Ends every process of the job and the spawner, and waits for that.
  void Finish();

 private:
  Spawner(int socket, pid_t pid, OrphanReaper reaper, std::string cgroup, Options options)
      : socket_(socket), pid_(pid), reaper_(reaper), cgroup_(std::move(cgroup)), options_(std::move(options)) {}

  void Reap();

  bool finished_ = false;
  int socket_;
  pid_t pid_;  // 0 after Finish, and after the spawner's death
  ExitStatus exit_;
  OrphanReaper reaper_;
  std::string cgroup_;
  const Options options_;
};

// main() of a spawner that Restart has executed: argv[1] is kSpawnerCommand. Returns an exit code.
inline constexpr char kSpawnerCommand[] = "launch-spawner";
int RunRestartedSpawner(int argc, char** argv);

}  // namespace composer
