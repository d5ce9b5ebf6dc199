// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/init_process.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.h"

namespace composer {
namespace {

// The terminal's foreground goes to the work, so that Ctrl-C reaches it once and not a second time through us.
void LeadOwnGroup() {
  setpgid(0, 0);
  if (isatty(STDIN_FILENO) == 1) {
    signal(SIGTTOU, SIG_IGN);
    tcsetpgrp(STDIN_FILENO, getpgrp());
    signal(SIGTTOU, SIG_DFL);
  }
}

bool IsForInitOnly(int signal) {
  return signal == SIGCHLD || signal == SIGTTIN || signal == SIGTTOU || signal == SIGPIPE;
}

// Reaps everything that has ended. Returns the exit code of `child` if it was reaped.
std::optional<int> Reap(pid_t child) {
  std::optional<int> code;
  int status = 0;
  for (pid_t pid = waitpid(-1, &status, WNOHANG); pid > 0; pid = waitpid(-1, &status, WNOHANG)) {
    if (pid == child) code = ExitStatus::FromWait(status).ShellCode();
  }
  return code;
}

}  // namespace

std::optional<int> RunUnderInit() {
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  const pid_t child = fork();
  if (child <= 0) {
    if (child == 0) LeadOwnGroup();
    sigprocmask(SIG_SETMASK, &before, nullptr);
    return std::nullopt;
  }
  prctl(PR_SET_NAME, "composer-init");
  while (true) {
    int signal = 0;
    if (sigwait(&all, &signal) != 0) continue;
    if (!IsForInitOnly(signal)) kill(child, signal);
    if (const std::optional<int> code = Reap(child); code.has_value()) return code;
  }
}

}  // namespace composer
