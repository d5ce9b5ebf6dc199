// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/spawner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "launcher/process/job_cgroup.h"
#include "launcher/process/process_tree.h"
#include "tests/support/processes.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using ::testing::HasSubstr;

ProcessSpec Shell(const std::string& script) {
  return {.argv = {"/bin/sh", "-c", script}, .environment = {"PATH=/usr/bin:/bin"}};
}

// The worst kind of daemon: it has its own session, and its parent is gone. It writes its pid.
std::string Daemon(const std::string& pid_file) {
  return absl::StrCat("setsid sh -c 'echo $$ > ", pid_file, "; exec sleep 1000' & ");
}

// Returns the next event, waiting up to 5 s.
absl::StatusOr<SpawnerEvent> NextEvent(Spawner& spawner) {
  static std::vector<SpawnerEvent>& pending = *new std::vector<SpawnerEvent>();
  if (pending.empty()) {
    pollfd wait = {spawner.fd(), POLLIN, 0};
    poll(&wait, 1, 5000);
    auto events = spawner.TakeEvents();
    if (!events.ok()) return events.status();
    pending = *events;
  }
  if (pending.empty()) return absl::DeadlineExceededError("no event");
  SpawnerEvent event = pending.front();
  pending.erase(pending.begin());
  return event;
}

SpawnerEvent Expect(Spawner& spawner, SpawnerEvent::Kind kind) {
  auto event = NextEvent(spawner);
  EXPECT_TRUE(event.ok()) << event.status();
  if (!event.ok()) return {.kind = kind, .tag = -99};
  EXPECT_EQ(event->kind, kind);
  return *event;
}

TEST(SpawnerTest, TellsStartAndExit) {
  auto spawner = *Spawner::Start({});
  ASSERT_TRUE(spawner->Spawn(7, Shell("exit 3"), 1, 2).ok());
  const SpawnerEvent started = Expect(*spawner, SpawnerEvent::Kind::kStarted);
  EXPECT_EQ(started.tag, 7);
  const SpawnerEvent exited = Expect(*spawner, SpawnerEvent::Kind::kExited);
  EXPECT_EQ(exited.tag, 7);
  EXPECT_EQ(exited.pid, started.pid);
  EXPECT_EQ(exited.exit.code, 3);
}

TEST(SpawnerTest, SpawnFailureNamesThePath) {
#ifdef __has_feature
#if __has_feature(thread_sanitizer)
  GTEST_SKIP() << "the thread sanitizer makes a fork of vfork, so that the child cannot write into its parent's memory";
#endif
#endif
  auto spawner = *Spawner::Start({});
  ASSERT_TRUE(spawner->Spawn(1, {.argv = {"/no/such/program"}}, 1, 2).ok());
  const SpawnerEvent failed = Expect(*spawner, SpawnerEvent::Kind::kSpawnFailed);
  EXPECT_EQ(failed.failure.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(failed.failure.message()), HasSubstr("/no/such/program"));
}

TEST(SpawnerTest, ChildHasItsOutputFolderSessionAndCpus) {
  TempDir dir;
  auto spawner = *Spawner::Start({});
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ProcessSpec spec =
      Shell("pwd; ps -o sid= -p $$ | grep -q $$ && echo leader; grep Cpus_allowed_list /proc/self/status; cat");
  spec.folder = dir.path();
  spec.cpus = {0};
  ASSERT_TRUE(spawner->Spawn(0, spec, ends[1], ends[1]).ok());
  close(ends[1]);
  std::string output;
  char buffer[256];
  for (ssize_t n = 0; (n = read(ends[0], buffer, sizeof(buffer))) > 0;) output.append(buffer, static_cast<size_t>(n));
  close(ends[0]);
  EXPECT_EQ(output, absl::StrCat(dir.path(), "\nleader\nCpus_allowed_list:\t0\n"));
}

TEST(SpawnerTest, KillReachesTheWholeGroup) {
  TempDir dir;
  auto spawner = *Spawner::Start({});
  ASSERT_TRUE(
      spawner->Spawn(0, Shell(absl::StrCat("sh -c 'echo $$ > ", dir.Path("pid"), "; exec sleep 1000' & wait")), 1, 2)
          .ok());
  const SpawnerEvent started = Expect(*spawner, SpawnerEvent::Kind::kStarted);
  const pid_t grandchild = WaitForPidFile(dir.Path("pid"));
  ASSERT_GT(grandchild, 0);
  spawner->Kill(started.pid, SIGKILL);
  EXPECT_EQ(Expect(*spawner, SpawnerEvent::Kind::kExited).exit.signal, SIGKILL);
  EXPECT_TRUE(WaitUntil([&] { return !IsAlive(grandchild); }, absl::Seconds(1)));
}

TEST(SpawnerTest, SweepEndsWhatWorkersLeftBehindAndNothingElse) {
  TempDir dir;
  auto spawner = *Spawner::Start({});
  ASSERT_TRUE(spawner->Spawn(0, Shell("sleep 1000"), 1, 2).ok());
  const pid_t sleeper = Expect(*spawner, SpawnerEvent::Kind::kStarted).pid;
  ASSERT_TRUE(spawner->Spawn(1, Shell(Daemon(dir.Path("pid"))), 1, 2).ok());
  Expect(*spawner, SpawnerEvent::Kind::kStarted);
  Expect(*spawner, SpawnerEvent::Kind::kExited);
  const pid_t daemon = WaitForPidFile(dir.Path("pid"));
  ASSERT_TRUE(IsAlive(daemon));
  spawner->Sweep();
  EXPECT_TRUE(WaitUntil([&] { return !IsAlive(daemon); }, absl::Seconds(1)));
  EXPECT_TRUE(IsAlive(sleeper));
}

TEST(SpawnerTest, FinishLeavesNothing) {
  TempDir dir;
  const std::string temp = dir.Path("launcher");
  ASSERT_TRUE(MakeDirs(temp + "/deep").ok());
  auto spawner = *Spawner::Start({.temp_folder = temp});
  ASSERT_TRUE(
      spawner->Spawn(0, Shell(Daemon(dir.Path("pid")) + "trap '' TERM INT HUP; sleep 1000; sleep 1000"), 1, 2).ok());
  const pid_t worker = Expect(*spawner, SpawnerEvent::Kind::kStarted).pid;
  const pid_t daemon = WaitForPidFile(dir.Path("pid"));
  ASSERT_TRUE(IsAlive(worker) && IsAlive(daemon));
  spawner->Finish();
  EXPECT_FALSE(IsAlive(worker));
  EXPECT_FALSE(IsAlive(daemon));
  EXPECT_FALSE(PathExists(temp));
}

TEST(SpawnerTest, NothingOutlivesAKilledLauncher) {
  TempDir dir;
  const std::string temp = dir.Path("launcher");
  ASSERT_TRUE(MakeDirs(temp).ok());
  const pid_t launcher = fork();
  if (launcher == 0) {
    auto spawner = *Spawner::Start({.temp_folder = temp, .early_child = [] {
                                      while (true) pause();
                                    }});
    (void)spawner->Spawn(
        0, Shell(absl::StrCat(Daemon(dir.Path("daemon")), "echo $$ > ", dir.Path("worker"), "; sleep 1000; true")), 1,
        2);
    while (true) pause();
  }
  const pid_t worker = WaitForPidFile(dir.Path("worker"));
  const pid_t daemon = WaitForPidFile(dir.Path("daemon"));
  ASSERT_TRUE(IsAlive(worker) && IsAlive(daemon));
  const std::vector<pid_t> family = WithDescendants({launcher});
  EXPECT_GE(family.size(), 5u);  // launcher, spawner, early child, worker, its sleep, (daemon may hang elsewhere)
  kill(launcher, SIGKILL);
  waitpid(launcher, nullptr, 0);
  for (const pid_t pid : family) EXPECT_TRUE(WaitUntil([&] { return !IsAlive(pid); }, absl::Seconds(1))) << pid;
  EXPECT_TRUE(WaitUntil([&] { return !IsAlive(daemon); }, absl::Seconds(1)));
  EXPECT_FALSE(PathExists(temp));
}

// Same as after `pkill -9 composer`, or a kill by the OOM killer: nobody is left who could be informed.
TEST(SpawnerTest, NothingOutlivesLauncherAndSpawnerKilledTogether) {
  TempDir dir;
  const std::string temp = dir.Path("launcher");
  ASSERT_TRUE(MakeDirs(temp).ok());
  const pid_t launcher = fork();
  if (launcher == 0) {
    auto spawner = *Spawner::Start({.temp_folder = temp});
    ProcessSpec spec =
        Shell(absl::StrCat(Daemon(dir.Path("daemon")), "echo $$ > ", dir.Path("worker"), "; sleep 1000; true"));
    spec.environment.push_back(absl::StrCat("COMPOSER_HUB=unix:", temp, "/hub"));
    (void)spawner->Spawn(0, spec, 1, 2);
    while (true) pause();
  }
  const pid_t worker = WaitForPidFile(dir.Path("worker"));
  const pid_t daemon = WaitForPidFile(dir.Path("daemon"));
  ASSERT_TRUE(IsAlive(worker) && IsAlive(daemon));
  const std::vector<pid_t> family = WithDescendants({launcher});
  const std::vector<pid_t> children = ChildrenOf(launcher);
  ASSERT_EQ(children.size(), 2u) << "orphan reaper and spawner";
  kill(launcher, SIGSTOP);  // prevents each from seeing the other's end first
  kill(children[1], SIGKILL);
  kill(launcher, SIGKILL);
  waitpid(launcher, nullptr, 0);
  for (const pid_t pid : family) EXPECT_TRUE(WaitUntil([&] { return !IsAlive(pid); }, absl::Seconds(2))) << pid;
  EXPECT_TRUE(WaitUntil([&] { return !IsAlive(daemon); }, absl::Seconds(2)));
  EXPECT_TRUE(WaitUntil([&] { return !PathExists(temp); }, absl::Seconds(2)));
}

TEST(SpawnerTest, WhereTheHostGivesACgroupNothingElseIsNeededToFindAProcess) {
  TempDir dir;
  const std::string temp = dir.Path(absl::StrCat("composer-", getpid()));
  ASSERT_TRUE(MakeDirs(temp).ok());
  const std::string probe = MakeJobCgroup(absl::StrCat("composer-probe-", getpid()));
  if (probe.empty()) GTEST_SKIP() << "no cgroup v2 below ours can be made here (root, or a delegated subtree)";
  RemoveCgroup(probe);
  const std::string cgroup = JoinPath(DirName(probe), BaseName(temp));
  const pid_t launcher = fork();
  if (launcher == 0) {
    auto spawner = *Spawner::Start({.temp_folder = temp});
    // It has its own session, no parent, and no environment.
    (void)spawner->Spawn(
        0,
        Shell(absl::StrCat("env -i setsid sh -c 'echo $$ > ", dir.Path("daemon"), "; sleep 1000; true' & echo $$ > ",
                           dir.Path("worker"), "; sleep 1000; true")),
        1, 2);
    while (true) pause();
  }
  const pid_t worker = WaitForPidFile(dir.Path("worker"));
  const pid_t daemon = WaitForPidFile(dir.Path("daemon"));
  ASSERT_TRUE(IsAlive(worker) && IsAlive(daemon));
  for (const pid_t pid : {worker, daemon}) {
    EXPECT_THAT(*ReadFile(absl::StrCat("/proc/", pid, "/cgroup")), HasSubstr(absl::StrCat("/", BaseName(temp), "\n")));
  }
  const std::vector<pid_t> children = ChildrenOf(launcher);
  ASSERT_EQ(children.size(), 2u) << "orphan reaper and spawner";
  kill(launcher, SIGSTOP);
  kill(children[1], SIGKILL);
  kill(launcher, SIGKILL);
  waitpid(launcher, nullptr, 0);
  for (const pid_t pid : {worker, daemon}) EXPECT_TRUE(WaitUntil([&] { return !IsAlive(pid); }, absl::Seconds(2)));
  EXPECT_TRUE(WaitUntil([&] { return !PathExists(cgroup); }, absl::Seconds(5))) << cgroup;
}

TEST(JobCgroupTest, OurPlaceIsFoundInAnyKernelsWords) {
  EXPECT_EQ(UnifiedCgroup("0::/user.slice/session.scope\n"), "/user.slice/session.scope");
  EXPECT_EQ(UnifiedCgroup("9:name=systemd:/\n1:cpu:/a\n0::/\n"), "/");
  EXPECT_EQ(UnifiedCgroup("4:memory:/x\n"), std::nullopt);
  EXPECT_EQ(UnifiedCgroup(""), std::nullopt);
  EXPECT_EQ(UnifiedCgroup("0::relative\n"), std::nullopt);
}

TEST(SpawnerTest, TheLauncherCleansUpAfterAKilledSpawner) {
  TempDir dir;
  auto spawner = *Spawner::Start({});
  const pid_t spawner_pid = ChildrenOf(getpid()).back();
  ASSERT_TRUE(spawner->Spawn(0, Shell(Daemon(dir.Path("pid")) + "sleep 1000; true"), 1, 2).ok());
  const pid_t worker = Expect(*spawner, SpawnerEvent::Kind::kStarted).pid;
  const pid_t daemon = WaitForPidFile(dir.Path("pid"));
  kill(spawner_pid, SIGKILL);
  EXPECT_TRUE(WaitUntil([&] { return !IsAlive(worker); }, absl::Seconds(1)));
  EXPECT_EQ(NextEvent(*spawner).status().code(), absl::StatusCode::kUnavailable);
  spawner->KillLeftovers();
  EXPECT_FALSE(IsAlive(daemon));
  EXPECT_EQ(spawner->Spawn(1, Shell("true"), 1, 2).code(), absl::StatusCode::kUnavailable);
}

// The launcher may be killed right after its spawner: the orphan reaper must survive the cleanup in between.
TEST(SpawnerTest, CleaningUpAfterAKilledSpawnerSparesTheOrphanReaper) {
  TempDir dir;
  auto spawner = *Spawner::Start({.temp_folder = dir.Path("launch")});
  const std::vector<pid_t> children = ChildrenOf(getpid());
  ASSERT_EQ(children.size(), 2u) << "the orphan reaper and the spawner";
  kill(children[1], SIGKILL);
  EXPECT_TRUE(WaitUntil([&] { return ProcessState(children[1]) == 'Z'; }, absl::Seconds(1)));
  spawner->KillLeftovers();
  EXPECT_TRUE(IsAlive(children[0]));
}

TEST(SpawnerTest, SurvivesSignalsOfTheTerminal) {
  auto spawner = *Spawner::Start({});
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1}) kill(ChildrenOf(getpid()).back(), signal);
  ASSERT_TRUE(spawner->Spawn(0, Shell("kill -TERM $$"), 1, 2).ok());
  Expect(*spawner, SpawnerEvent::Kind::kStarted);
  EXPECT_EQ(Expect(*spawner, SpawnerEvent::Kind::kExited).exit.signal, SIGTERM);  // its children block none of them
}

}  // namespace
}  // namespace composer
