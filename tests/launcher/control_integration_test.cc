// Runs composer status, drain, stop and logs with the real binary; fake_worker plays the workers.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/format/json.h"
#include "launcher/control/control_client.h"
#include "tests/launcher/launched.h"

namespace composer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct Output {
  int code;
  std::string out;
  std::string err;
};

class ControlTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(dir_.Path("bin"));
    std::filesystem::copy(COMPOSER_BINARY, dir_.Path("bin/composer"));
    std::filesystem::copy(FAKE_WORKER_BINARY, dir_.Path("bin/composer_worker"));
    ASSERT_TRUE(AtomicWriteFile(dir_.Path("job.yaml"), kFakeJob).ok());
  }
  std::string Binary() { return dir_.Path("bin/composer"); }
  std::vector<std::string> LongJob(std::vector<std::string> flags = {}) {
    flags.insert(flags.end(), {"-n2", "job.yaml", "steps=100000", "step_ms=2", "save=5"});
    return flags;
  }
  bool Stepping() {
    return WaitUntil([&] { return PathExists(dir_.Path("runs/job/fake-checkpoint")); }, absl::Seconds(15));
  }
  // Runs a command beside the job, with its own folder for its output.
  Output Command(std::vector<std::string> words, std::map<std::string, std::string> variables = {}) {
    TempDir folder;
    words.insert(words.begin(), absl::StrCat("COMPOSER_RUNTIME_DIR=", dir_.Path("runtime")));
    words.insert(words.begin() + 1, Binary());
    for (const auto& [name, value] : variables) words.insert(words.begin(), absl::StrCat(name, "=", value));
    Launched run(folder, "/usr/bin/env", words);
    const int code = run.Wait();
    return {code, run.out(), run.err()};
  }
  // Returns the control socket of the only job.
  std::string RunSocket() {
    const std::string file = JoinPath(dir_.Path("runtime"), ListDir(dir_.Path("runtime"))->at(0));
    return nlohmann::json::parse(*ReadFile(file))["socket"];
  }
  static int ConnectTo(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    return fd;
  }
  // Returns the text after `marker` on the launcher's stderr.
  static std::string Told(const Launched& run, const std::string& marker) {
    std::string found;
    WaitUntil(
        [&] {
          for (const absl::string_view line : absl::StrSplit(run.err(), '\n')) {
            if (const size_t at = line.find(marker); at != line.npos)
              found = std::string(line.substr(at + marker.size()));
          }
          return !found.empty();
        },
        absl::Seconds(10));
    return found;
  }

  TempDir dir_;
};

TEST_F(ControlTest, StatusTellsHowTheJobIsDoing) {
  Launched run(dir_, Binary(), LongJob());
  ASSERT_TRUE(Stepping());
  nlohmann::json status;
  ASSERT_TRUE(WaitUntil(
      [&] {
        const Output output = Command({"status", "--json"});
        EXPECT_EQ(output.code, 0) << output.err;
        status = ParseJson(output.out);
        return status.is_object() && status["step"] > 5 && status["steps_per_second"] > 0 && status["goodput"] > 0;
      },
      absl::Seconds(15)))
      << status;
  EXPECT_EQ(status["job"], "job");
  EXPECT_EQ(status["run_folder"], dir_.Path("runs/job"));
  EXPECT_EQ(status["state"], "running");
  EXPECT_EQ(status["world_size"], 2);
  EXPECT_EQ(status["restarts"], 0);
  EXPECT_EQ(status["max_restarts"], 3);
  EXPECT_EQ(status["pid"], run.pid());
  ASSERT_EQ(status["ranks"].size(), 2u);
  EXPECT_EQ(status["ranks"][1]["rank"], 1);
  EXPECT_GT(status["ranks"][1]["step"], 0);
  EXPECT_LE(status["goodput"], 1.0);
  for (const std::string& name : {std::string("job"), dir_.Path("runs/job/"), absl::StrCat(run.pid())}) {
    const Output text = Command({"status", name});
    EXPECT_EQ(text.code, 0) << text.err;
    EXPECT_THAT(text.out, AllOf(HasSubstr("job: running for"), HasSubstr("2 ranks on 1 node"), HasSubstr("steps/s")));
  }
  const Output wrong = Command({"status", "jbo"});
  EXPECT_EQ(wrong.code, 69);
  EXPECT_THAT(wrong.err, AllOf(HasSubstr("no job `jbo`"), HasSubstr("did you mean `job`?"),
                               HasSubstr(absl::StrCat("pid ", run.pid()))));
}

TEST_F(ControlTest, DrainCheckpointsAndStops) {
  Launched run(dir_, Binary(), LongJob());
  ASSERT_TRUE(Stepping());
  EXPECT_EQ(Command({"drain", "job", "--wait"}).code, 0);
  EXPECT_EQ(run.Wait(absl::Seconds(2)), 75) << run.err();
  EXPECT_THAT(run.err(), AllOf(HasSubstr("asked by composer drain (user"), HasSubstr("checkpoint and stop")));
  // The job has ended, but its summary is still shown.
  const Output after = Command({"status", dir_.Path("runs/job")});
  EXPECT_EQ(after.code, 0);
  EXPECT_THAT(after.out, HasSubstr("\"exit_reason\": \"preempted\""));
  EXPECT_THAT(after.err, HasSubstr("not running on this machine"));
  EXPECT_EQ(Command({"drain", "job"}).code, 69);
}

TEST_F(ControlTest, StopEndsNow) {
  Launched run(dir_, Binary(), {"-n2", "job.yaml", "steps=100000", "stubborn=1", "step_ms=2", "save=5"});
  ASSERT_TRUE(Stepping());
  EXPECT_EQ(Command({"stop", "job", "--wait"}).code, 0);
  EXPECT_EQ(run.Wait(absl::Seconds(2)), 143) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("asked by composer stop"));
}

TEST_F(ControlTest, AKilledLauncherLeavesAStaleFileThatIsToldApart) {
  Launched run(dir_, Binary(), LongJob());
  ASSERT_TRUE(Stepping());
  ASSERT_EQ(ListDir(dir_.Path("runtime"))->size(), 1u);
  run.Signal(SIGKILL);
  run.Wait();
  EXPECT_EQ(ListDir(dir_.Path("runtime"))->size(), 1u);
  const Output status = Command({"status"});
  EXPECT_EQ(status.code, 69);
  EXPECT_THAT(status.err, HasSubstr("no job of yours runs on this machine"));
  EXPECT_EQ(ListDir(dir_.Path("runtime"))->size(), 0u);
}

TEST_F(ControlTest, SeveralJobsMustBeTold) {
  Launched one(dir_, Binary(), {"-n1", "-c", "sleep", "60"});
  TempDir other;
  Launched two(other, "/usr/bin/env",
               {absl::StrCat("COMPOSER_RUNTIME_DIR=", dir_.Path("runtime")), Binary(), "-n1", "-c", "sleep", "60"});
  ASSERT_TRUE(WaitUntil([&] { return ListDir(dir_.Path("runtime")).value_or(std::vector<std::string>()).size() == 2; },
                        absl::Seconds(10)));
  const Output status = Command({"status"});
  EXPECT_EQ(status.code, 64);
  EXPECT_THAT(status.err, HasSubstr("2 jobs of yours run here: say which"));
  EXPECT_EQ(Command({"stop", absl::StrCat(one.pid()), "--wait"}).code, 0);
  EXPECT_NE(one.Wait(), -1);
  EXPECT_EQ(Command({"stop", "--all", "--wait"}).code, 0);
  EXPECT_NE(two.Wait(), -1);
}

TEST_F(ControlTest, WhatChangesAJobNeverGuessesWhich) {
  Launched run(dir_, Binary(), LongJob());
  ASSERT_TRUE(Stepping());
  const std::string name = absl::StrCat("job (pid ", run.pid(), ")");
  for (const std::string command : {"stop", "drain", "save", "profile", "stacks"}) {
    const Output unnamed = Command({command});
    EXPECT_EQ(unnamed.code, 64) << command;
    EXPECT_THAT(unnamed.err, AllOf(HasSubstr("say which job, by name or pid, or --all"), HasSubstr(name)));
    EXPECT_EQ(Command({command, "job", "--all"}).code, 64) << command;
    EXPECT_EQ(Command({command, "jbo"}).code, 69) << command;
  }
  EXPECT_EQ(Command({"status"}).code, 0) << "it still runs";
  const Output drained = Command({"drain", "--all", "--wait"});
  EXPECT_EQ(drained.code, 0) << drained.err;
  EXPECT_THAT(drained.out, AllOf(HasSubstr("draining " + name + ": its workers save a checkpoint and stop\n"),
                                 HasSubstr(name + " has ended at step "), HasSubstr("runs/job/fake-checkpoint\n")));
  EXPECT_EQ(run.Wait(), 75) << run.err();
  EXPECT_EQ(Command({"drain", "--all"}).code, 69);
}

TEST_F(ControlTest, SaveSaysWhereAndWaits) {
  Launched run(dir_, Binary(), {"-n2", "job.yaml", "steps=100000", "step_ms=2", "save=1000000"});
  ASSERT_TRUE(WaitUntil([&] { return absl::StrContains(Command({"status"}).out, "steps/s"); }, absl::Seconds(15)));
  const Output asked = Command({"save", "job"});
  EXPECT_EQ(asked.code, 0) << asked.err;
  EXPECT_THAT(asked.out, HasSubstr("save a checkpoint after the next step and go on; the newest so far: none"));
  const Output saved = Command({"save", "job", "--wait"});
  EXPECT_EQ(saved.code, 0) << saved.err;
  EXPECT_THAT(saved.out, HasSubstr("saved " + dir_.Path("runs/job/fake-checkpoint")));
  const Output stopped = Command({"stop", "job", "--wait"});
  EXPECT_THAT(stopped.out, AllOf(HasSubstr("are killed now, without a checkpoint"), HasSubstr("has ended at step ")));
  EXPECT_EQ(run.Wait(), 143);
}

TEST_F(ControlTest, ProfileAndStacksReachEachRank) {
  Launched run(dir_, Binary(), LongJob());
  ASSERT_TRUE(Stepping());
  const std::string folder = dir_.Path("runs/job");
  const Output profile = Command({"profile", "job"});
  EXPECT_EQ(profile.code, 0) << profile.err;
  EXPECT_THAT(profile.out, HasSubstr("its ranks profile the next batches and go on; traces and verdicts: " + folder));
  const Output stacks = Command({"stacks", "job"});
  EXPECT_EQ(stacks.code, 0) << stacks.err;
  EXPECT_THAT(stacks.out, HasSubstr(folder + "/logs/stacks-rank-*.txt"));
  for (const std::string rank : {"0", "1"}) {
    const auto log = [&] { return Command({"logs", folder, "--rank=" + rank}).out; };
    EXPECT_TRUE(
        WaitUntil([&] { return absl::StrContains(log(), "is to write " + folder + "/logs"); }, absl::Seconds(15)));
    EXPECT_THAT(log(), HasSubstr("rank " + rank + " is to profile"));
  }
  EXPECT_EQ(Command({"stop", "job", "--wait"}).code, 0);
  EXPECT_EQ(run.Wait(), 143);
  EXPECT_THAT(run.err(), HasSubstr("asked by composer stacks"));
}

TEST_F(ControlTest, AProgramHasNothingToProfile) {
  Launched run(dir_, Binary(), {"-n1", "-c", "sleep", "60"});
  ASSERT_TRUE(WaitUntil([&] { return Command({"status"}).code == 0; }, absl::Seconds(15)));
  for (const std::string command : {"profile", "stacks"}) {
    const Output refused = Command({command, "--all"});
    EXPECT_EQ(refused.code, 64) << command;
    EXPECT_THAT(refused.err, HasSubstr("is not a YAML job: a program cannot be asked to"));
  }
  EXPECT_EQ(Command({"stop", "--all", "--wait"}).code, 0);
  run.Wait();
}

TEST_F(ControlTest, LogsOfARankAcrossGenerations) {
  Launched run(dir_, Binary(), {"-n2", "job.yaml", "steps=200", "step_ms=5", "die_rank=1", "die_step=40", "die_how=9"});
  ASSERT_TRUE(Stepping());
  const Output followed = Command({"logs", "--rank=1", "--follow"});
  EXPECT_EQ(followed.code, 0) << followed.err;
  EXPECT_EQ(run.Wait(), 0);
  EXPECT_THAT(followed.out, AllOf(HasSubstr("rank 1 starts"), HasSubstr("rank 1 is about to go: 9")));
  const std::string folder = dir_.Path("runs/job");
  EXPECT_EQ(Command({"logs", folder, "-r1", "-g1", "-n1"}).out, "rank 1 is about to go: 9\n");
  EXPECT_THAT(Command({"logs", folder, "-r1"}).out, AllOf(HasSubstr("rank 1 starts"), Not(HasSubstr("about to go"))));
  const Output none = Command({"logs", folder, "--rank=7"});
  EXPECT_EQ(none.code, 69);
  EXPECT_THAT(none.err, HasSubstr("rank 7 has no log under"));
}

// A pipe in place of a terminal after Ctrl-S: it is full, and nobody reads.
class BlockedTerminal {
 public:
  BlockedTerminal() {
    EXPECT_EQ(pipe(fds_), 0);
    const int flags = fcntl(fds_[1], F_GETFL);
    fcntl(fds_[1], F_SETFL, flags | O_NONBLOCK);
    while (write(fds_[1], "x", 1) == 1) ++filled_;
    fcntl(fds_[1], F_SETFL, flags);
  }
  ~BlockedTerminal() {
    close(fds_[0]);
    close(fds_[1]);
  }
  // Returns a shell command that runs its arguments with both streams there.
  std::string Command() const { return absl::StrCat("exec \"$0\" \"$@\" >&", fds_[1], " 2>&", fds_[1]); }
  // Returns what was written since, until the last writer has exited.
  std::string Read() {
    close(std::exchange(fds_[1], -1));
    std::string text;
    char buffer[4096];
    for (ssize_t count; (count = read(fds_[0], buffer, sizeof(buffer))) > 0;)
      text.append(buffer, static_cast<size_t>(count));
    return text.substr(filled_);
  }

 private:
  int fds_[2];
  size_t filled_ = 0;
};

TEST_F(ControlTest, ABlockedTerminalStopsNeitherSupervisionNorTheEnd) {
  BlockedTerminal terminal;
  std::vector<std::string> words = {"-c", terminal.Command(), Binary()};
  for (const std::string& word : LongJob()) words.push_back(word);
  words.insert(words.end(), {"die_rank=1", "die_step=40", "die_how=9"});
  Launched run(dir_, "/bin/sh", words);
  ASSERT_TRUE(Stepping());
  ASSERT_TRUE(
      WaitUntil([&] { return PathExists(dir_.Path("runs/job/logs/gen-002/rank-00000.log")); }, absl::Seconds(15)))
      << "a dead rank is seen, its cause told and the world formed again";
  const Output drained = Command({"drain", "job", "--wait"});
  EXPECT_EQ(drained.code, 0) << drained.err;
  EXPECT_EQ(run.Wait(absl::Seconds(2)), 75);
  EXPECT_THAT(*ReadFile(dir_.Path("runs/job/summary.json")), HasSubstr("\"exit_code\": 75"));
}

TEST_F(ControlTest, NothingIsLostAtTheEndForALateReader) {
  BlockedTerminal terminal;
  Launched run(dir_, "/bin/sh", {"-c", terminal.Command(), Binary(), "-n1", "-c", "seq", "300000"});  // 2 MB
  absl::SleepFor(absl::Seconds(1));
  const std::string shown = terminal.Read();
  EXPECT_EQ(run.Wait(), 0);
  EXPECT_EQ(std::count(shown.begin(), shown.end(), '\n'), 300'000);
  EXPECT_THAT(shown, testing::EndsWith("299999\n300000\n"));
}

// Each request is answered, including those that arrive while the job ends: a launcher that waits for one would never
// end.
TEST_F(ControlTest, RequestsDuringTheEndDoNotHoldItUp) {
  Launched run(dir_, Binary(), {"-n1", "job.yaml", "steps=300", "step_ms=2", "save=5"});
  ASSERT_TRUE(Stepping());
  std::atomic<bool> ended = false;
  std::vector<std::thread> askers;
  const std::string socket = RunSocket();
  for (int i = 0; i < 16; ++i) {
    askers.emplace_back([&] {
      auto client = ControlClient::Open(absl::StrCat("unix:", socket), Credentials());
      while (client.ok() && !ended) {
        if (const auto status = client->Status(); !status.ok()) {
          EXPECT_THAT(std::string(status.status().message()), Not(HasSubstr("does not answer")));
          break;
        }
      }
    });
  }
  EXPECT_EQ(run.Wait(), 0) << run.err();
  ended = true;
  for (std::thread& asker : askers) asker.join();
}

TEST_F(ControlTest, ConnectionsThatAreHeldLockNobodyOut) {
  Launched run(dir_, Binary(), LongJob());
  ASSERT_TRUE(Stepping());
  // A gRPC client's connection begins like this and sends no more: such a connection lasts as long as both sides live.
  const std::string preface = std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") + std::string("\0\0\0\4\0\0\0\0\0", 9);
  std::vector<int> held;
  for (int i = 0; i < 80; ++i) {
    held.push_back(ConnectTo(RunSocket()));
    EXPECT_EQ(send(held.back(), preface.data(), preface.size(), MSG_NOSIGNAL), static_cast<ssize_t>(preface.size()));
  }
  const Output status = Command({"status"});
  EXPECT_EQ(status.code, 0) << status.err;
  EXPECT_EQ(Command({"drain", "job", "--wait"}).code, 0);
  EXPECT_EQ(run.Wait(), 75) << run.err();
  for (const int fd : held) close(fd);
}

TEST_F(ControlTest, OverTcpOnlyWithTheToken) {
  const std::map<std::string, std::string> right = {{"COMPOSER_TOKEN", "a token for this test"}};
  ASSERT_TRUE(AtomicWriteFile(dir_.Path("token"), "a token for this test\n").ok());
  std::filesystem::permissions(dir_.Path("token"), std::filesystem::perms(0600));
  Launched run(dir_, Binary(), LongJob({"--control-port=0", "--token-file=token"}));
  const std::string at = absl::StrCat("--at=127.0.0.1:", Told(run, "control port "));
  ASSERT_TRUE(Stepping());
  const Output good = Command({"status", at}, right);
  EXPECT_EQ(good.code, 0) << good.err;
  EXPECT_THAT(good.out, HasSubstr("job: running"));
  const Output wrong = Command({"stop", at}, {{"COMPOSER_TOKEN", "another token, as long"}});
  EXPECT_EQ(wrong.code, 64);
  EXPECT_THAT(wrong.err, HasSubstr("another token"));
  const Output none = Command({"stop", at});
  EXPECT_EQ(none.code, 64);
  EXPECT_THAT(none.err, HasSubstr("this side has none"));
  EXPECT_EQ(Command({"status", at}, right).code, 0);  // the job still runs
  EXPECT_EQ(Command({"drain", at, "--wait"}, right).code, 0);
  EXPECT_EQ(run.Wait(), 75) << run.err();
}

TEST_F(ControlTest, WorkersDoNotGetTheToken) {
  ASSERT_TRUE(AtomicWriteFile(dir_.Path("token"), "a token for this test\n").ok());
  std::filesystem::permissions(dir_.Path("token"), std::filesystem::perms(0600));
  Launched run(dir_, "/usr/bin/env",
               {"COMPOSER_TOKEN=another token of the test", Binary(), "--token-file=token", "-n2", "-c", "env"});
  EXPECT_EQ(run.Wait(), 0) << run.err();
  EXPECT_THAT(run.out(),
              AllOf(HasSubstr("WORLD_SIZE=2"), Not(HasSubstr("COMPOSER_TOKEN")), Not(HasSubstr("token for this"))));
}

}  // namespace
}  // namespace composer
