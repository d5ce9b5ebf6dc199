// SPDX-License-Identifier: Apache-2.0
#include "base/process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace composer {
namespace {

ExitStatus Reap(pid_t child) {
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return ExitStatus::FromWait(status);
}

TEST(ExitStatusTest, OfAProcessThatExits) {
  const pid_t child = fork();
  if (child == 0) _exit(3);
  const ExitStatus status = Reap(child);
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.ToString(), "exited with 3");
  EXPECT_EQ(status.ShellCode(), 3);
}

TEST(ExitStatusTest, OfAProcessThatIsKilled) {
  const pid_t child = fork();
  if (child == 0) {
    while (true) pause();
  }
  kill(child, SIGKILL);
  const ExitStatus status = Reap(child);
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.ToString(), "was killed by SIGKILL (9)");
  EXPECT_EQ(status.ShellCode(), 137);
}

TEST(ExitStatusTest, DefaultIsSuccess) { EXPECT_TRUE(ExitStatus().ok()); }

TEST(SignalNameTest, UnknownSignalsHaveANumber) {
  EXPECT_EQ(SignalName(SIGSEGV), "SIGSEGV");
  EXPECT_EQ(SignalName(99), "signal 99");
}

}  // namespace
}  // namespace composer
