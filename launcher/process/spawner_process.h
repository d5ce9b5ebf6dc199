// The spawner's own side: a small process, forked from the launcher before any thread exists, that starts every other
// process of the job on this node and sees to it that none outlives the launcher.
//
// - Its only thread does the spawning, so the parent-death signal of a worker means "the spawner is gone".
// - It is a child subreaper: a descendant whose parent ends becomes its child, whatever sessions were made in between.
// - When the launcher's end of the socket closes (finished, crashed or killed with SIGKILL) it kills every descendant,
//   removes the launcher's temporary folder and exits.
// - It has a session of its own and blocks all signals, so that Ctrl-C or a SIGTERM to the whole job leaves the
// decision
//   to the launcher.
// Exits are noticed by signalfd, not polled.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

namespace composer {

struct SpawnerProcessOptions {
  int socket;                         // to the launcher
  std::string temp_folder;            // removed at the end; "": none
  std::string cgroup;                 // that this process was born into; "": none
  std::function<void()> early_child;  // run in a child of its own, forked at once (not exec'd); empty: none
  int early_child_fd = -1;            // closed after that fork; -1: none
  int early_child_tag = 0;
};

// Does not return. The caller has blocked all signals.
[[noreturn]] void RunSpawnerProcess(const SpawnerProcessOptions& options);

}  // namespace composer
