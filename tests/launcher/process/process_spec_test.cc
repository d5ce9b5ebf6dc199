// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/process_spec.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.h"

namespace composer {
namespace {

TEST(ProcessSpecTest, SurvivesTheJourney) {
  const ProcessSpec spec = {.argv = {"/bin/x", "", "a b\nc"},
                            .environment = {"A=1", "B="},
                            .folder = "/tmp",
                            .cpus = {0, 5},
                            .blocks_signals = true,
                            .keeps_session = true};
  const auto copy = DecodeProcessSpec(EncodeProcessSpec(spec));
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_EQ(copy->argv, spec.argv);
  EXPECT_EQ(copy->environment, spec.environment);
  EXPECT_EQ(copy->folder, spec.folder);
  EXPECT_EQ(copy->cpus, spec.cpus);
  EXPECT_TRUE(copy->blocks_signals);
  EXPECT_TRUE(copy->keeps_session);
  EXPECT_FALSE(DecodeProcessSpec(EncodeProcessSpec({.argv = {"/bin/x"}}))->blocks_signals);
}

TEST(ProcessSpecTest, ADeafProcessOutlivesPoliteSignals) {
  const int null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
  const std::string script = "for s in TERM INT HUP USR1 USR2; do kill -$s $$; done; exit 7";
  for (const bool blocks_signals : {false, true}) {
    const auto pid =
        SpawnProcess({.argv = {"/bin/sh", "-c", script}, .blocks_signals = blocks_signals}, null_fd, null_fd);
    ASSERT_TRUE(pid.ok()) << pid.status();
    int status = 0;
    ASSERT_EQ(waitpid(*pid, &status, 0), *pid);
    EXPECT_EQ(ExitStatus::FromWait(status).ToString(), blocks_signals ? "exited with 7" : "was killed by SIGTERM (15)");
  }
  close(null_fd);
}

TEST(ProcessSpecTest, AProcessHasASessionOfItsOwnUnlessItKeepsTheCallers) {
  for (const bool keeps_session : {false, true}) {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    const auto pid = SpawnProcess(
        {.argv = {"/bin/sh", "-c", "echo && exec sleep 1000"}, .keeps_session = keeps_session}, ends[1], ends[1]);
    ASSERT_TRUE(pid.ok()) << pid.status();
    close(ends[1]);
    // The thread sanitizer makes a fork of vfork, so that only what the process writes shows that it runs.
    char byte;
    ASSERT_EQ(read(ends[0], &byte, 1), 1);
    EXPECT_EQ(getsid(*pid) == getsid(0), keeps_session);
    kill(*pid, SIGKILL);
    ASSERT_EQ(waitpid(*pid, nullptr, 0), *pid);
    close(ends[0]);
  }
}

TEST(ProcessSpecTest, RefusesWhatEncodeDidNotMake) {
  const std::string good = EncodeProcessSpec({.argv = {"/bin/x"}, .environment = {"A=1"}});
  for (size_t cut = 0; cut < good.size(); ++cut) EXPECT_FALSE(DecodeProcessSpec(good.substr(0, cut)).ok()) << cut;
  EXPECT_FALSE(DecodeProcessSpec(good + "x").ok());
  EXPECT_FALSE(DecodeProcessSpec(EncodeProcessSpec({})).ok());  // nothing to run
  EXPECT_FALSE(DecodeProcessSpec(std::string("99999999999\0x\0", 14)).ok());
  EXPECT_FALSE(DecodeProcessSpec(EncodeProcessSpec({.argv = {"/bin/x"}, .cpus = {-1}})).ok());
  EXPECT_FALSE(DecodeProcessSpec(EncodeProcessSpec({.argv = {"/bin/x"}, .cpus = {1 << 20}})).ok());
}

}  // namespace
}  // namespace composer
