// The spawner's own side: a small process, forked from the launcher before any thread exists, that starts every other
// process of the job on this node and ensures that none outlives the launcher.
//
// - It has one thread, which does all the spawning, so a worker's parent-death signal means "the spawner is gone".
// - It is a child subreaper: a descendant whose parent ends becomes its child, even across new sessions.
// - When the launcher's end of the socket closes (finished, crashed or killed with SIGKILL), it kills every descendant,
//   removes the launcher's temporary folder and exits.
// - It has a session of its own and blocks all signals, so that a Ctrl-C or SIGTERM to the whole job leaves the
//   decision to the launcher.
// It learns of exits through a signalfd and does not poll.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

namespace composer {

struct SpawnerProcessOptions {
  int socket;                         // connected to the launcher
  std::string temp_folder;            // removed at the end; "" if there is none
  std::string cgroup;                 // the cgroup that this process was born into; "" if there is none
  std::function<void()> early_child;  // runs in a child of its own, forked at once (not exec'd); may be empty
  int early_child_fd = -1;            // closed after that fork; -1 if there is none
  int early_child_tag = 0;
};

// Does not return. The caller must have blocked all signals.
[[noreturn]] void RunSpawnerProcess(const SpawnerProcessOptions& options);

}  // namespace composer
