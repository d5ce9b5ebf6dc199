// Tests how the killer of a worker is determined: the verdict by table, the parsers on real and hostile text, and the
// reader on a fake host.
// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/kill_evidence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>

#include "base/file.h"
#include "launcher/process/oom_watch.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

KillEvidence Sigkill() { return {.status = {.signal = SIGKILL}}; }

struct EvidenceCase {
  const char* name;
  KillEvidence evidence;
  Killer killer;
  const char* says;
};

TEST(JudgeKillTest, Table) {
  KillEvidence ours = Sigkill();
  ours.sent_by_us = true;
  ours.oom_kills_before = 1, ours.oom_kills_now = 2;
  KillEvidence counter = Sigkill();
  counter.oom_kills_before = 1, counter.oom_kills_now = 2, counter.resident_bytes = int64_t{3} << 30;
  KillEvidence same = counter;
  same.oom_kills_now = 1;
  KillEvidence named = Sigkill();
  named.kernel_log_read = true;
  named.named = OomKill{.pid = 7, .command = "composer_worker", .anonymous_kib = 512 << 10, .cgroup = true};
  KillEvidence node = named;
  node.named->cgroup = false;
  KillEvidence shell = counter;
  shell.status = {.code = 137};
  KillEvidence helper = counter;
  helper.status = {.code = 1};
  helper.other = OomKill{.pid = 9, .command = "loader"};
  KillEvidence full = Sigkill();
  full.available_bytes = 20 << 20;
  KillEvidence roomy = Sigkill();
  roomy.available_bytes = int64_t{20} << 30;
  KillEvidence log_only = roomy;
  log_only.kernel_log_read = true;
  KillEvidence crash = same;
  crash.status = {.signal = SIGSEGV};
  KillEvidence done = counter;
  done.status = {};
  const std::vector<EvidenceCase> cases = {
      {"we sent it", ours, Killer::kOurs, ""},
      {"the counter rose", counter, Killer::kOutOfMemory, "it held 3.0 GiB (cgroup's oom_kill counter)"},
      {"the log names it", named, Killer::kOutOfMemory,
       "memory of its cgroup was used up, it held 512 MiB (kernel log)"},
      {"the node was full", node, Killer::kOutOfMemory, "memory of the node was used up"},
      {"a shell's child", shell, Killer::kOutOfMemory, "out of memory"},
      {"a helper died, the worker failed", helper, Killer::kHelperOutOfMemory, "the kernel had killed loader (pid 9)"},
      {"the counter stood still", same, Killer::kSomeone, "someone else sent it"},
      {"the log says nothing", log_only, Killer::kSomeone, "someone else sent it"},
      {"nothing to read, node full", full, Killer::kPerhapsOutOfMemory, "probably out of memory: 20 MiB are left"},
      {"nothing to read, node roomy", roomy, Killer::kUnknown, "does not show"},
      {"another signal", crash, Killer::kNobody, ""},
      {"it did not fail", done, Killer::kNobody, ""},
  };
  for (const EvidenceCase& c : cases) {
    const KillVerdict verdict = JudgeKill(c.evidence);
    EXPECT_EQ(verdict.killer, c.killer) << c.name << ": " << verdict.reason;
    EXPECT_THAT(verdict.reason, HasSubstr(c.says)) << c.name;
  }
}

TEST(ParseKernelRecordTest, RealLines) {
  const auto cgroup = ParseKernelRecord(
      "3,1021,83917222,-;Memory cgroup out of memory: Killed process 4711 (composer_worker) total-vm:98120kB, "
      "anon-rss:60332kB, file-rss:2048kB, shmem-rss:0kB, UID:0 pgtables:176kB oom_score_adj:0\n");
  ASSERT_TRUE(cgroup.has_value());
  EXPECT_EQ(cgroup->pid, 4711);
  EXPECT_EQ(cgroup->command, "composer_worker");
  EXPECT_EQ(cgroup->anonymous_kib, 60332);
  EXPECT_TRUE(cgroup->cgroup);
  const auto node = ParseKernelRecord("3,9,1,-;Out of memory: Killed process 12 (a) b) total-vm:1kB\n");
  ASSERT_TRUE(node.has_value());
  EXPECT_EQ(node->pid, 12);
  EXPECT_EQ(node->anonymous_kib, -1);
  EXPECT_FALSE(node->cgroup);
}

TEST(ParseKernelRecordTest, EverythingElse) {
  for (const char* text : {"", ";", "3,1,1,-;", "x,1,1,-;Out of memory: Killed process 1 (a)", "no semicolon",
                           "12,5,5,-;Out of memory: Killed process 77 (forged by a program)",  // facility 1: user
                           "-8,5,5,-;Out of memory: Killed process 77 (a)", "3,1,1,-;Killed process 77 (a)",
                           "3,1,1,-;Out of memory: Killed process -1 (a)",
                           "3,1,1,-;Out of memory: Killed process 99999999999999999999 (a)",
                           "6,1,1,-;oom_reaper: reaped process 77 (a), now anon-rss:0kB"}) {
    EXPECT_FALSE(ParseKernelRecord(text).has_value()) << text;
  }
}

TEST(ParseOomKillsTest, BothVersions) {
  EXPECT_EQ(ParseOomKills("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"), 3);
  EXPECT_EQ(ParseOomKills("low 0\nhigh 0\nmax 17\noom 2\noom_kill 1\noom_group_kill 0\n"), 1);
  EXPECT_EQ(ParseOomKills("oom_kill_disable 0\nunder_oom 0\n"), std::nullopt);  // v1 before 4.13
  EXPECT_EQ(ParseOomKills("oom_kill many\n"), std::nullopt);
  EXPECT_EQ(ParseOomKills(""), std::nullopt);
}

TEST(ParseMemoryCgroupTest, PrefersTheControllerOfVersionOne) {
  const auto v1 = ParseMemoryCgroup("9:name=systemd:/\n4:memory:/slurm/job_7/step_0\n0::/\n");
  ASSERT_TRUE(v1.has_value());
  EXPECT_FALSE(v1->v2);
  EXPECT_EQ(v1->path, "/slurm/job_7/step_0");
  const auto v2 = ParseMemoryCgroup("0::/user.slice/a:b\n");
  ASSERT_TRUE(v2.has_value());
  EXPECT_TRUE(v2->v2);
  EXPECT_EQ(v2->path, "/user.slice/a:b");
  EXPECT_FALSE(ParseMemoryCgroup("3:cpuset:/\nrubbish\n1:memory:relative\n").has_value());
}

TEST(ParseAvailableMemoryTest, Bytes) {
  EXPECT_EQ(ParseAvailableMemory("MemTotal:  9 kB\nMemAvailable:   20000 kB\n"), 20'480'000);
  EXPECT_EQ(ParseAvailableMemory("MemTotal: 9 kB\n"), -1);
  EXPECT_EQ(ParseAvailableMemory("MemAvailable: lots\n"), -1);
}

// A host with cgroup v2, made of files.
class OomWatchTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* folder : {"proc/self/ns", "sys/job"}) ASSERT_TRUE(MakeDirs(dir_.Path(folder)).ok());
    ASSERT_EQ(symlink("pid:[4026531836]", dir_.Path("proc/self/ns/pid").c_str()), 0);
    Write("proc/self/cgroup", "0::/job\n");
    Write("proc/meminfo", "MemAvailable: 1000 kB\n");
    Write("sys/job/memory.events", "oom_kill 4\n");
    Write("sys/job/memory.max", "max\n");
    Write("sys/job/memory.current", "123\n");
    Write("kmsg", "3,1,1,-;Out of memory: Killed process 70 (old) total-vm:1kB\n");
  }
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(dir_.Path(name), std::ios::trunc) << text;
  }
  OomWatch::Places Places() { return {dir_.Path("proc"), dir_.Path("sys"), dir_.Path("kmsg")}; }

  TempDir dir_;
};

TEST_F(OomWatchTest, SeesTheCounterAndTheLog) {
  OomWatch watch(Places());
  watch.Begin();
  EXPECT_FALSE(watch.Look(70, {70}).named.has_value()) << "of before";
  Write("sys/job/memory.events", "oom_kill 5\n");
  std::ofstream(dir_.Path("kmsg"), std::ios::app)
      << "3,2,2,-;Memory cgroup out of memory: Killed process 71 (w) anon-rss:8kB\n";
  const KillEvidence evidence = watch.Look(71, {70, 71});
  EXPECT_EQ(evidence.oom_kills_before, 4);
  EXPECT_EQ(evidence.oom_kills_now, 5);
  EXPECT_EQ(evidence.available_bytes, 1'024'000);
  EXPECT_TRUE(evidence.kernel_log_read);
  ASSERT_TRUE(evidence.named.has_value());
  EXPECT_EQ(evidence.named->command, "w");
  EXPECT_EQ(watch.Look(70, {70}).other->pid, 71);
  watch.Begin();
  EXPECT_EQ(watch.Look(71, {71}).oom_kills_before, 5);
}

TEST_F(OomWatchTest, InAContainerPidsOfTheLogAreNotOurs) {
  ASSERT_EQ(unlink(dir_.Path("proc/self/ns/pid").c_str()), 0);
  OomWatch watch(Places());
  watch.Begin();
  std::ofstream(dir_.Path("kmsg"), std::ios::app) << "3,2,2,-;Out of memory: Killed process 71 (w) anon-rss:8kB\n";
  EXPECT_FALSE(watch.Look(71, {71}).named.has_value());
  EXPECT_FALSE(watch.Look(71, {71}).kernel_log_read);
}

TEST_F(OomWatchTest, AHostThatShowsNothing) {
  OomWatch watch({dir_.Path("a"), dir_.Path("b"), dir_.Path("c")});
  watch.Begin();
  KillEvidence evidence = watch.Look(1, {1});
  EXPECT_FALSE(evidence.oom_kills_now.has_value());
  EXPECT_EQ(evidence.available_bytes, -1);
  evidence.status.signal = SIGKILL;
  EXPECT_EQ(JudgeKill(evidence).killer, Killer::kUnknown);
}

TEST_F(OomWatchTest, TheCgroupsLimitCounts) {
  Write("sys/job/memory.max", "1000\n");
  OomWatch watch(Places());
  EXPECT_EQ(watch.Look(1, {}).available_bytes, 877);
}

}  // namespace
}  // namespace composer
