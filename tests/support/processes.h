// Waits for other processes in tests, with a time limit.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <vector>

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

// Thirty times, starts two children that run `work` (which never returns, and exits when it sees something wrong) and
// kills both 2 to 12 ms later, so that a kill may hit anything. `seed` and the number given to `work` differ per child.
inline void KillPairs(unsigned seed, const std::function<void(unsigned child)>& work) {
  constexpr unsigned kRounds = 30;
  std::mt19937 random(seed);
  for (unsigned round = 0; round < kRounds; ++round) {
    std::vector<pid_t> children;
    for (unsigned c = 0; c < 2; ++c) {
      const pid_t child = fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        work(round * 2 + c);
        _exit(1);
      }
      children.push_back(child);
    }
    absl::SleepFor(absl::Microseconds(2000 + random() % 10000));
    for (const pid_t child : children) kill(child, SIGKILL);
    for (const pid_t child : children) {
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      EXPECT_TRUE(WIFSIGNALED(status)) << "a child read something wrong: " << WEXITSTATUS(status);
    }
  }
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
