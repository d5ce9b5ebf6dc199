// The launcher's handle on its spawner (spawner_process.h): starts processes, signals them and reports their exits. Not
// thread-safe.
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

// An event in the life of a process that the spawner started.
struct SpawnerEvent {
  enum class Kind { kStarted, kSpawnFailed, kExited };
  Kind kind;
  int tag;  // as passed to Spawn
  pid_t pid = 0;
  ExitStatus exit;       // for kExited
  absl::Status failure;  // for kSpawnFailed: why, naming the path
};

class Spawner {
 public:
  struct Options {
    // The spawner removes this folder when the launcher ends, however that happens. Its path is in the environment of
    // every worker, and an orphan reaper kills what launcher and spawner leave. "" means no folder, no orphan reaper
    // and no cgroup (job_cgroup.h).
    std::string temp_folder;
    std::function<void()> early_child;  // runs in a process of its own from the very start; its tag is kEarlyChildTag
    int early_child_fd = -1;            // used by the early child alone: the spawner closes its copy
    std::vector<int> held;              // descriptors (locks) that must stay open while any process of the job lives
  };
  static constexpr int kEarlyChildTag = -1;

  // Forks. Must be called from main while the process has one thread. Makes the calling process a child subreaper, so
  // that it can clean up if the spawner dies.
  static absl::StatusOr<std::unique_ptr<Spawner>> Start(Options options);

  // Calls Finish.
  ~Spawner();
  Spawner(const Spawner&) = delete;
  Spawner& operator=(const Spawner&) = delete;

  // Requests a process. The result arrives as an event with this tag. The caller keeps the descriptors. Returns
  // kUnavailable when the spawner is gone.
  absl::Status Spawn(int tag, const ProcessSpec& spec, int stdout_fd, int stderr_fd);
  // Signals the process group of a process that the spawner started.
  void Kill(pid_t pid, int signal);
  // Kills what earlier workers left running (daemons, orphans).
  void Sweep();

  // Becomes readable when TakeEvents has something to return.
  int fd() const { return socket_; }
  // Returns all events so far, in the order they happened. Returns kUnavailable when the spawner is gone; call
  // KillLeftovers and then Restart.
  absl::StatusOr<std::vector<SpawnerEvent>> TakeEvents();

  // Kills all children of a dead spawner, which are now ours. Returns false if some remain in an uninterruptible wait.
  bool KillLeftovers();
  // Returns how the spawner ended; ok() when that was not observed. Must be called after KillLeftovers.
  ExitStatus exit() const { return exit_; }
  // Starts a new spawner in place of the one that is gone, without an early child. It is exec'd (RunRestartedSpawner),
  // since this process has threads by now.
  absl::Status Restart();
  // Returns whether the spawner is stopped, or waits for a child that was stopped before its exec. It then serves no
  // request.
  bool IsStuck() const;
  // Kills a stuck spawner; TakeEvents reports it.
  void KillStuck();

  // Kills every process of the job and ends the spawner; blocks until all are gone.
  void Finish();

 private:
  Spawner(int socket, pid_t pid, OrphanReaper reaper, std::string cgroup, Options options)
      : socket_(socket), pid_(pid), reaper_(reaper), cgroup_(std::move(cgroup)), options_(std::move(options)) {}

  void Reap();

  bool finished_ = false;
  int socket_;
  pid_t pid_;  // 0 after Finish and after the spawner's death
  ExitStatus exit_;
  OrphanReaper reaper_;
  std::string cgroup_;
  const Options options_;
};

// The main() of a spawner that Restart has exec'd, with kSpawnerCommand as argv[1]. Returns an exit code.
inline constexpr char kSpawnerCommand[] = "launch-spawner";
int RunRestartedSpawner(int argc, char** argv);

}  // namespace composer
