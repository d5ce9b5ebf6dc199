// Waits for other processes in tests, with a time limit.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <fstream>
#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace composer {

// Polls every millisecond until `done` or the limit is over. Returns done().
inline bool WaitUntil(const std::function<bool()>& done, absl::Duration limit) {
  const absl::Time deadline = absl::Now() + limit;
  while (!done()) {
    if (absl::Now() > deadline) return false;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return true;
}

// Returns whether a process exists and is not a zombie.
inline bool IsAlive(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  std::string text;
  if (!std::getline(file, text)) return false;
  const size_t state = text.rfind(')');
  return state != std::string::npos && state + 2 < text.size() && text[state + 2] != 'Z' && text[state + 2] != 'X';
}

// Returns the number in a file that another process writes, or 0 when it does not appear within 5 s.
inline pid_t WaitForPidFile(const std::string& path) {
  pid_t pid = 0;
  WaitUntil(
      [&] {
        std::ifstream file(path);
        std::string line;
        return static_cast<bool>(std::getline(file, line)) && !file.eof() && (pid = std::atoi(line.c_str())) > 0;
      },
      absl::Seconds(5));
  return pid;
}

}  // namespace composer
