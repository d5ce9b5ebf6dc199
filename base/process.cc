// SPDX-License-Identifier: Apache-2.0
#include "base/process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

namespace composer {
namespace {

std::vector<char*> SpawnStrings(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& text : strings) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

int StartProgram(const ProgramStart& start, const Environment& environment, pid_t* pid) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  const absl::Cleanup destroy = [&] {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  };
  if (start.in < 0) {
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  } else {
    posix_spawn_file_actions_adddup2(&actions, start.in, STDIN_FILENO);
  }
  posix_spawn_file_actions_adddup2(&actions, start.out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, start.err, STDERR_FILENO);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  const int group = start.own_group ? POSIX_SPAWN_SETPGROUP : 0;
  posix_spawnattr_setflags(&attributes, static_cast<short>(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | group));
  const std::vector<std::string> variables = environment.ToStrings();
  return (start.searches_path ? posix_spawnp : posix_spawn)(pid, start.argv[0].c_str(), &actions, &attributes,
                                                            SpawnStrings(start.argv).data(),
                                                            SpawnStrings(variables).data());
}

ExitStatus ExitStatus::FromWait(int wait_status) {
  ExitStatus result;
  if (WIFSIGNALED(wait_status)) {
    result.signal = WTERMSIG(wait_status);
  } else {
    result.code = WEXITSTATUS(wait_status);
  }
  return result;
}

std::string ExitStatus::ToString() const {
  if (signal != 0) return absl::StrCat("was killed by ", SignalName(signal), " (", signal, ")");
  return absl::StrCat("exited with ", code);
}

std::string SignalName(int signal) {
  const char* name = sigabbrev_np(signal);
  return name != nullptr ? absl::StrCat("SIG", name) : absl::StrCat("signal ", signal);
}

}  // namespace composer
