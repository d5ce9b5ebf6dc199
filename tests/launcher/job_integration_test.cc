// Runs the real binary with YAML jobs whose workers are played by fake_worker: recovery, drain, summary, locks.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "launcher/process/process_tree.h"
#include "tests/launcher/launched.h"

namespace composer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class JobTest : public testing::Test {
 protected:
  void SetUp() override {
    // composer starts the composer_worker in its own folder.
    std::filesystem::create_directory(dir_.Path("bin"));
    std::filesystem::copy(COMPOSER_BINARY, dir_.Path("bin/composer"));
    std::filesystem::copy(FAKE_WORKER_BINARY, dir_.Path("bin/composer_worker"));
    ASSERT_TRUE(AtomicWriteFile(dir_.Path("job.yaml"), kFakeJob).ok());
  }
  std::vector<std::string> Job(std::vector<std::string> settings, std::vector<std::string> flags = {"-n2"}) {
    flags.push_back("job.yaml");
    flags.insert(flags.end(), settings.begin(), settings.end());
    return flags;
  }
  std::string Binary() { return dir_.Path("bin/composer"); }
  std::string Run(const std::string& name) { return dir_.Path("runs/job/" + name); }
  nlohmann::json Summary() { return nlohmann::json::parse(ReadFile(Run("summary.json")).value_or("{}")); }
  bool Reached(int step) {
    return WaitUntil([&] { return std::atoi(ReadFile(Run("fake-checkpoint")).value_or("0").c_str()) >= step; },
                     absl::Seconds(10));
  }

  // Returns a process below the launcher with this name, or 0.
  static pid_t ChildOf(pid_t launcher, const std::string& name) {
    for (const pid_t pid : WithDescendants({launcher})) {
      if (ReadFile(absl::StrCat("/proc/", pid, "/comm")).value_or("") == name + "\n") return pid;
    }
    return 0;
  }
  // Returns the worker with this variable.
  static pid_t WorkerOf(pid_t launcher, const std::string& variable) {
    for (const pid_t pid : WithDescendants({launcher})) {
      const std::string environment = ReadFile(absl::StrCat("/proc/", pid, "/environ")).value_or("");
      if (absl::StrContains(absl::StrCat(std::string(1, '\0'), environment),
                            absl::StrCat(std::string(1, '\0'), variable, std::string(1, '\0')))) {
        return pid;
      }
    }
    return 0;
  }

  TempDir dir_;
};

TEST_F(JobTest, RunsToTheEnd) {
  Launched run(dir_, Binary(), Job({"steps=20"}));
  EXPECT_EQ(run.Wait(), 0) << run.err();
  const nlohmann::json summary = Summary();
  EXPECT_EQ(summary["exit_reason"], "done");
  EXPECT_EQ(summary["exit_code"], 0);
  EXPECT_EQ(summary["steps"], 20);
  EXPECT_EQ(summary["samples"], 640);
  EXPECT_EQ(summary["restarts"], 0);
  EXPECT_EQ(summary["world_size"], 2);
  EXPECT_EQ(summary["run_name"], "job");
  EXPECT_EQ(summary["last_checkpoint"], Run("fake-checkpoint"));
  EXPECT_EQ(summary["metrics"]["metrics/eval/Accuracy"], 0.5);
  ASSERT_EQ(summary["generations"].size(), 1u);
  EXPECT_EQ(summary["generations"][0]["end_step"], 20);
  EXPECT_EQ(summary["generations"][0]["ended"], "done");
  EXPECT_THAT(run.err(),
              AllOf(HasSubstr("done: 20 steps, 640 samples"), HasSubstr("run folder: " + dir_.Path("runs/job"))));
  EXPECT_TRUE(PathExists(Run("logs/gen-001/rank-00001.log")));
}

TEST_F(JobTest, RecoversFromAKill) {
  Launched run(dir_, Binary(), Job({"steps=30", "die_rank=1", "die_step=14", "die_how=9"}));
  EXPECT_EQ(run.Wait(), 0) << run.err();
  EXPECT_THAT(run.err(), AllOf(HasSubstr("rank 1 on "), HasSubstr("was killed by SIGKILL (9)"),
                               HasSubstr("| rank 1 is about to go: 9"), HasSubstr("gen-001/rank-00001.log"),
                               HasSubstr("restart 1 of 3")));
  const nlohmann::json summary = Summary();
  EXPECT_EQ(summary["restarts"], 1);
  EXPECT_EQ(summary["steps"], 30);
  ASSERT_EQ(summary["generations"].size(), 2u);
  const nlohmann::json &first = summary["generations"][0], &second = summary["generations"][1];
  EXPECT_EQ(first["ended"], "failed");
  EXPECT_THAT(first["cause"].get<std::string>(), HasSubstr("rank 1 was killed by SIGKILL (9)"));
  EXPECT_EQ(first["decision"], "restart 1 of 3");
  EXPECT_EQ(first["exits"][0]["role"], "first cause");
  EXPECT_THAT(first["exits"][1]["role"].get<std::string>(), HasSubstr("collateral"));
  EXPECT_EQ(second["start_step"], 10);
  EXPECT_EQ(second["start_checkpoint"], Run("fake-checkpoint"));
  EXPECT_EQ(second["recomputed_steps"], first["end_step"].get<int>() - 10);
  EXPECT_GE(first["end_step"], 14);
  EXPECT_GT(second["first_step_seconds"], 0.0);
  EXPECT_LT(second["first_step_seconds"], 10.0);  // benchmarks/ checks the time itself
}

TEST_F(JobTest, GivesUpWithoutProgress) {
  Launched run(dir_, Binary(), Job({"steps=30", "die_rank=0", "die_step=4", "die_how=70", "die_generations=99"}));
  EXPECT_EQ(run.Wait(), 93) << run.err();
  EXPECT_EQ(Summary()["exit_reason"], "budget_spent");
  EXPECT_EQ(Summary()["restarts"], 3);
}

TEST_F(JobTest, AUserErrorIsNotRetried) {
  Launched run(dir_, Binary(), Job({"die_rank=1", "die_step=0", "die_how=64"}));
  EXPECT_EQ(run.Wait(), 64);
  EXPECT_EQ(Summary()["exit_reason"], "user_error");
  EXPECT_EQ(Summary()["restarts"], 0);
  EXPECT_THAT(run.err(), AllOf(HasSubstr("| rank 1 is about to go: 64"), HasSubstr("not retried")));
}

TEST_F(JobTest, SigtermCheckpointsAndTheSameCommandGoesOn) {
  Launched run(dir_, Binary(), Job({"steps=200", "save=5"}));
  ASSERT_TRUE(Reached(5));
  run.Signal(SIGTERM);
  EXPECT_EQ(run.Wait(), 75) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("SIGTERM: the workers checkpoint and stop"));
  EXPECT_EQ(Summary()["exit_reason"], "preempted");
  const int stopped_at = Summary()["steps"];
  EXPECT_LT(stopped_at, 200);
  Launched again(dir_, Binary(), Job({"steps=200", "step_ms=1"}));
  EXPECT_EQ(again.Wait(), 0) << again.err();
  EXPECT_GE(Summary()["generations"][0]["start_step"], stopped_at - 1);  // the fake's ranks do not agree on a step
  EXPECT_EQ(Summary()["steps"], 200);
}

TEST_F(JobTest, ASecondSignalKills) {
  Launched run(dir_, Binary(), Job({"steps=100000", "stubborn=1"}));
  ASSERT_TRUE(Reached(1));
  run.Signal(SIGINT);
  ASSERT_TRUE(run.Says("again to kill them now"));
  run.Signal(SIGINT);
  EXPECT_EQ(run.Wait(absl::Seconds(1)), 130) << run.err();
  EXPECT_EQ(Summary()["exit_reason"], "killed");
}

TEST_F(JobTest, OneLauncherARunFolder) {
  Launched first(dir_, Binary(), Job({"steps=100000"}));
  ASSERT_TRUE(Reached(1));
  TempDir elsewhere;
  Launched second(elsewhere, Binary(), {"-n1", dir_.Path("job.yaml"), "run_folder=" + dir_.Path("runs/job")});
  EXPECT_EQ(second.Wait(), 64);
  EXPECT_THAT(second.err(),
              AllOf(HasSubstr(absl::StrCat("(pid ", first.pid(), ")")), HasSubstr(dir_.Path("runs/job"))));
}

TEST_F(JobTest, RunsAgainRightAfterASigkill) {
  Launched first(dir_, Binary(), Job({"steps=100000", "save=1"}));
  ASSERT_TRUE(Reached(3));
  first.Signal(SIGKILL);
  EXPECT_EQ(first.Wait(), 137);
  Launched second(dir_, Binary(), Job({"steps=5"}));
  EXPECT_EQ(second.Wait(), 0) << second.err();
  EXPECT_GE(Summary()["generations"][0]["start_step"], 3);
}

TEST_F(JobTest, RankZeroIsShownOthersGoToTheirLogs) {
  Launched run(dir_, Binary(), Job({"steps=3"}));
  EXPECT_EQ(run.Wait(), 0);
  EXPECT_THAT(run.err(), AllOf(HasSubstr("rank 0 starts\n"), Not(HasSubstr("rank 1 starts"))));
  for (const int rank : {0, 1}) {
    EXPECT_EQ(*ReadFile(Run(absl::StrCat("logs/gen-001/rank-0000", rank, ".log"))),
              absl::StrCat("rank ", rank, " starts\n"));
  }
}

TEST_F(JobTest, WordsAfterTheYamlMustBeSettings) {
  Launched run(dir_, Binary(), Job({"--nproc=2"}));
  EXPECT_EQ(run.Wait(), 64);
  EXPECT_THAT(run.err(), HasSubstr("flags come before the YAML file"));
}

TEST_F(JobTest, AStoppedWorkerIsFoundAndReplaced) {
  Launched run(dir_, Binary(), Job({"steps=30", "die_rank=1", "die_step=12", "die_how=hang"}));
  EXPECT_EQ(run.Wait(absl::Seconds(40)), 0) << run.err();
  EXPECT_THAT(run.err(), AllOf(HasSubstr("rank 1 on "), HasSubstr("hung: no heartbeat for 20s")));
  EXPECT_EQ(Summary()["restarts"], 1);
}

// It sends nothing for longer than the limit, and the other rank waits for it.
TEST_F(JobTest, AStarvedWorkerIsNotEnded) {
  if (!PathExists("/proc/self/schedstat")) GTEST_SKIP() << "this kernel keeps no schedstat";
  Launched run(dir_, Binary(), Job({"steps=30", "die_rank=1", "die_step=12", "die_how=starve"}));
  EXPECT_EQ(run.Wait(absl::Seconds(60)), 0) << run.err();
  EXPECT_THAT(run.err(), AllOf(HasSubstr("rank 1 is starved: it has had no heartbeat for 1"), Not(HasSubstr("hung"))));
  EXPECT_EQ(Summary()["restarts"], 0);
}

TEST_F(JobTest, AWorkerThatHangsInItsStartIsFoundInEachPhase) {
  const struct {
    const char* start;
    const char* limit;
    const char* said;
  } phases[] = {{"birth", "attach=2", "while attaching to its launcher (--startup-limits attach=2)"},
                {"group", "group=2", "while forming the process group (--startup-limits group=2)"},
                {"load", "load=2", "while loading the checkpoint (--startup-limits load=2)"}};
  for (const auto& phase : phases) {
    Launched run(
        dir_, Binary(),
        Job({absl::StrCat("start=", phase.start), "die_rank=1", "steps=5", absl::StrCat("run_name=", phase.start)},
            {"-n2", absl::StrCat("--startup-limits=", phase.limit)}));
    EXPECT_EQ(run.Wait(absl::Seconds(30)), 0) << run.err();
    EXPECT_THAT(run.err(), AllOf(HasSubstr("rank 1 on "), HasSubstr("hung: no progress for "), HasSubstr(phase.said),
                                 HasSubstr("its main thread waits in the kernel's"), HasSubstr("restart 1 of 3")))
        << phase.start;
  }
}

TEST_F(JobTest, AWorkerStoppedAtItsBirthIsFound) {
  Launched run(dir_, Binary(), Job({"start=birth", "die_rank=1", "steps=5"}));
  pid_t worker = 0;
  ASSERT_TRUE(WaitUntil([&] { return (worker = WorkerOf(run.pid(), "RANK=1")) != 0; }, absl::Seconds(10)));
  kill(worker, SIGSTOP);
  EXPECT_EQ(run.Wait(absl::Seconds(60)), 0) << run.err();
  EXPECT_THAT(run.err(), AllOf(HasSubstr("hung: stopped for 2"), HasSubstr("its process is stopped (SIGSTOP")));
}

TEST_F(JobTest, OneSigtermEndsAJobWhoseWorkersHangInTheirStart) {
  for (const char* start : {"birth", "group"}) {
    Launched run(dir_, Binary(), Job({absl::StrCat("start=", start), "die_rank=1", "steps=5"}));
    pid_t worker = 0;
    ASSERT_TRUE(WaitUntil([&] { return (worker = WorkerOf(run.pid(), "RANK=1")) != 0; }, absl::Seconds(10)));
    kill(worker, SIGSTOP);
    run.Signal(SIGTERM);
    EXPECT_EQ(run.Wait(absl::Seconds(20)), 75) << run.err();
    EXPECT_THAT(run.err(), HasSubstr("there is nothing to save"));
    EXPECT_FALSE(IsAlive(worker));
  }
}

TEST_F(JobTest, AStoppedSpawnerDoesNotKeepTheJobFromItsEnd) {
  Launched run(dir_, Binary(), Job({"steps=100000", "stubborn=1"}));
  ASSERT_TRUE(Reached(1));
  kill(ChildOf(run.pid(), "composer-spawn"), SIGSTOP);
  run.Signal(SIGINT);
  ASSERT_TRUE(run.Says("again to kill them now"));
  run.Signal(SIGINT);
  EXPECT_EQ(run.Wait(absl::Seconds(30)), 130) << run.err();
}

TEST_F(JobTest, AKilledSpawnerCostsARestart) {
  Launched run(dir_, Binary(), Job({"steps=200", "step_ms=10", "save=5"}));
  for (const int step : {10, 60}) {
    ASSERT_TRUE(Reached(step)) << run.err();
    kill(ChildOf(run.pid(), "composer-spawn"), SIGKILL);
  }
  EXPECT_EQ(run.Wait(absl::Seconds(40)), 0) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("was lost: composer-spawn, which starts the workers, was killed by SIGKILL (9)"));
  EXPECT_EQ(Summary()["restarts"], 2);
  EXPECT_EQ(Summary()["steps"], 200);
}

TEST_F(JobTest, NothingIsLeftOfALauncherThatIsKilledAfterItsSpawner) {
  Launched run(dir_, Binary(), Job({"steps=100000", "save=5"}));
  ASSERT_TRUE(Reached(10));
  kill(ChildOf(run.pid(), "composer-spawn"), SIGKILL);
  // The rendezvous, a child of the spawner, was killed with it: the new one takes 5 s to form the next world.
  ASSERT_TRUE(WaitUntil([&] { return WorkerOf(run.pid(), "TORCHELASTIC_RESTART_COUNT=1") != 0; }, absl::Seconds(30)));
  const std::vector<pid_t> family = WithDescendants({run.pid()});
  EXPECT_GE(family.size(), 5u);
  run.Signal(SIGKILL);
  for (const pid_t pid : family) EXPECT_TRUE(WaitUntil([&] { return !IsAlive(pid); }, absl::Seconds(2))) << pid;
}

TEST_F(JobTest, TheSameErrorAtTheSameStepIsNotTriedAgain) {
  Launched run(dir_, Binary(), Job({"steps=30", "die_rank=1", "die_step=14", "die_how=error", "die_generations=99"}));
  EXPECT_EQ(run.Wait(), 93) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("the same error at step 14 twice"));
  EXPECT_EQ(Summary()["restarts"], 1);
}

TEST_F(JobTest, AFullDiskIsWaitedForAtNoCost) {
  Launched run(
      dir_, Binary(),
      Job({"steps=30", "die_rank=1", "die_step=14", "die_how=full", "die_generations=3"}, {"-n2", "--max-restarts=1"}));
  EXPECT_EQ(run.Wait(absl::Seconds(40)), 0) << run.err();
  EXPECT_EQ(Summary()["restarts"], 3);
  const std::string err = run.err();
  EXPECT_THAT(err, HasSubstr("No space left on device: trying again, at no cost"));
  EXPECT_EQ(err.find("trying again, at no cost"), err.rfind("trying again, at no cost")) << "it is told once: " << err;
}

// Returns the rendezvous process of a launcher, or 0 when there is none now.
pid_t RendezvousOf(pid_t launcher) {
  for (const pid_t pid : WithDescendants({launcher})) {
    if (ReadFile(absl::StrCat("/proc/", pid, "/comm")).value_or("") == "composer-serve\n") return pid;
  }
  return 0;
}

TEST_F(JobTest, TrainingGoesOnWhileTheRendezvousIsKilledAgainAndAgain) {
  Launched run(dir_, Binary(), Job({"steps=250", "step_ms=20"}));
  pid_t killed = 0;
  for (int kills = 0; kills < 3; ++kills) {
    pid_t rendezvous = 0;
    ASSERT_TRUE(WaitUntil(
        [&] {
          rendezvous = RendezvousOf(run.pid());
          return rendezvous != 0 && rendezvous != killed && Reached(5 + 20 * kills);
        },
        absl::Seconds(15)))
        << run.err();
    killed = rendezvous;
    kill(killed, SIGKILL);
  }
  EXPECT_EQ(run.Wait(absl::Seconds(40)), 0) << run.err();
  EXPECT_EQ(Summary()["restarts"], 0) << run.err();
  EXPECT_EQ(Summary()["generations"].size(), 1u) << "no worker was started again";
  EXPECT_EQ(Summary()["steps"], 250);
  EXPECT_THAT(run.err(), HasSubstr("starting it again, the workers go on"));
}

TEST_F(JobTest, AWorkerThatDiesAfterTheRendezvousWasKilledIsReplaced) {
  Launched run(dir_, Binary(), Job({"steps=200", "step_ms=20", "die_rank=1", "die_step=150", "die_how=9"}));
  ASSERT_TRUE(Reached(5));
  kill(RendezvousOf(run.pid()), SIGKILL);
  EXPECT_EQ(run.Wait(absl::Seconds(30)), 0) << run.err();
  EXPECT_EQ(Summary()["restarts"], 1);
  EXPECT_EQ(Summary()["generations"].size(), 2u);
}

TEST_F(JobTest, AWorkerThatDiesWhileTheRendezvousIsAwayIsReplacedToo) {
  Launched run(dir_, Binary(), Job({"steps=60", "step_ms=20", "die_rank=1", "die_step=30", "die_how=9"}));
  ASSERT_TRUE(Reached(5));
  const pid_t rendezvous = RendezvousOf(run.pid());
  kill(rendezvous, SIGSTOP);  // it accepts connections but does not answer
  ASSERT_TRUE(run.Says("the rendezvous is away")) << run.err();
  ASSERT_TRUE(WaitUntil([&] { return WorkerOf(run.pid(), "RANK=1") == 0; }, absl::Seconds(10)));
  kill(rendezvous, SIGKILL);
  EXPECT_EQ(run.Wait(absl::Seconds(30)), 0) << run.err();
  EXPECT_EQ(Summary()["restarts"], 1) << run.err();
}

}  // namespace
}  // namespace composer
