// Tests how jobs are found.
// SPDX-License-Identifier: Apache-2.0
#include "launcher/control/run_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "launcher/workers/log_follower.h"
#include "launcher/workers/worker_group.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const RunFile kRun = {"mnist", "/runs/mnist", 42, 4711, "/tmp/x/control", 1'700'000'000};

TEST(RunFile, ReadsWhatItWrites) {
  EXPECT_EQ(*ParseRunFile(RunFileJson(kRun)), kRun);
  RunFile odd = kRun;
  odd.job = "a \"b\" \\ c\n";
  EXPECT_EQ(*ParseRunFile(RunFileJson(odd)), odd);
}

TEST(RunFile, RefusesAnythingElse) {
  std::string deep;
  for (int i = 0; i < 20'000; ++i) deep += '[';
  for (const std::string& text : {std::string(), std::string("[]"), std::string("{}"), std::string("{\"job\":1}"), deep,
                                  RunFileJson(kRun).substr(0, 60), std::string(70'000, ' ')}) {
    EXPECT_EQ(ParseRunFile(text).status().code(), absl::StatusCode::kInvalidArgument) << text.substr(0, 50);
  }
  for (const char* pid : {"-1", "0", "4711000000000", "1.5", "\"1\""}) {
    EXPECT_FALSE(
        ParseRunFile(
            absl::StrCat(
                "{\"job\":\"a\",\"run_folder\":\"\",\"socket\":\"s\",\"pid_start\":1,\"started\":1,\"pid\":", pid, "}"))
            .ok())
        << pid;
  }
}

TEST(RunFile, TheStartOfAProcess) {
  EXPECT_EQ(StartOf("12 (a b) c)) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 987654 20 21"), 987654u);
  EXPECT_EQ(StartOf("12 (dead) Z 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 987654 20"), 0u);
  EXPECT_EQ(StartOf(""), 0u);
  EXPECT_EQ(StartOf("12 (x) S 1 2"), 0u);
}

TEST(RunFile, TheLivingAreListedTheDeadRemoved) {
  TempDir dir;
  {
    const auto registered = RegisteredRun::Make(dir.path(), {.job = "alive", .socket = "s"}).value();
    RunFile dead = kRun;
    dead.pid = getpid();  // another process than the one that wrote the file now has the pid
    ASSERT_TRUE(AtomicWriteFile(dir.Path("1.json"), RunFileJson(dead)).ok());
    ASSERT_TRUE(AtomicWriteFile(dir.Path("2.json"), "garbage").ok());
    const std::vector<RunFile> runs = ListRuns(dir.path());
    ASSERT_EQ(runs.size(), 1u);
    EXPECT_EQ(runs[0].job, "alive");
    EXPECT_EQ(runs[0].pid, getpid());
    EXPECT_THAT(*ListDir(dir.path()), ElementsAre(absl::StrCat(getpid(), ".json")));
  }
  EXPECT_TRUE(ListDir(dir.path())->empty());
}

TEST(RunFile, LaunchersOfOneJobAreOneMatch) {
  RunFile first = kRun, second = kRun;
  second.pid = first.pid + 1;
  const auto found = FindRun({first, second}, first.job);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->pid, first.pid);
  EXPECT_EQ(FindRun({first, second}, absl::StrCat(second.pid))->pid, second.pid);
  second.run_folder = "/elsewhere";
  EXPECT_EQ(FindRun({first, second}, first.job).status().code(), absl::StatusCode::kInvalidArgument);
  first.run_folder = second.run_folder = "";
  EXPECT_FALSE(FindRun({first, second}, first.job).ok()) << "programs have no folder that tells them apart";
}

TEST(RunFile, OfAnotherProcessNamespaceNothingIsSaid) {
  TempDir dir;
  RunFile elsewhere = kRun;
  elsewhere.pid_namespace = "pid:[1]";
  ASSERT_TRUE(AtomicWriteFile(dir.Path("42.json"), RunFileJson(elsewhere)).ok());
  EXPECT_TRUE(ListRuns(dir.path()).empty());
  EXPECT_TRUE(PathExists(dir.Path("42.json"))) << "its launcher may live in another container";
}

TEST(RunFile, TheFolderMustBeOurs) {
  TempDir dir;
  Environment environment({{"COMPOSER_RUNTIME_DIR", dir.Path("r")}});
  EXPECT_EQ(*RegistryFolder(environment), dir.Path("r"));
  EXPECT_EQ(*RegistryFolder(environment), dir.Path("r"));
  ASSERT_EQ(chmod(dir.Path("r").c_str(), 0777), 0);
  EXPECT_EQ(RegistryFolder(environment).status().code(), absl::StatusCode::kPermissionDenied);
  ASSERT_EQ(symlink(dir.path().c_str(), dir.Path("link").c_str()), 0);
  environment.Set("COMPOSER_RUNTIME_DIR", dir.Path("link"));
  EXPECT_EQ(RegistryFolder(environment).status().code(), absl::StatusCode::kPermissionDenied);
}

TEST(FindRun, ByNamePidAndFolder) {
  TempDir dir;
  RunFile a = kRun, b = kRun;
  b.job = "bert";
  b.pid = 43;
  b.run_folder = dir.path();
  for (const std::string& wanted : {std::string("bert"), std::string("43"), dir.path(), dir.path() + "/",
                                    dir.path() + "/../" + BaseName(dir.path())}) {
    EXPECT_EQ(FindRun({a, b}, wanted)->job, "bert") << wanted;
  }
  EXPECT_EQ(FindRun({a}, "")->job, "mnist");
  EXPECT_THAT(std::string(FindRun({a, b}, "").status().message()),
              AllOf(HasSubstr("2 jobs"), HasSubstr("mnist (pid 42)")));
  EXPECT_THAT(std::string(FindRun({a, b}, "brt").status().message()), HasSubstr("did you mean `bert`?"));
  EXPECT_EQ(FindRun({}, "x").status().code(), absl::StatusCode::kNotFound);
}

class LogsTest : public ::testing::Test {
 protected:
  void Write(int generation, int rank, const std::string& text) {
    const std::string path = LogPath(dir_.path(), generation, rank);
    ASSERT_TRUE(MakeDirs(DirName(path)).ok());
    ASSERT_TRUE(AtomicWriteFile(path, text).ok());
  }
  TempDir dir_;
};

TEST_F(LogsTest, GenerationsOfARank) {
  Write(1, 0, "");
  Write(10, 0, "");
  Write(2, 0, "");
  Write(2, 1, "");
  EXPECT_THAT(*LogGenerations(dir_.path(), 0), ElementsAre(1, 2, 10));
  EXPECT_THAT(*LogGenerations(dir_.path(), 1), ElementsAre(2));
  EXPECT_THAT(std::string(LogGenerations(dir_.path(), 5).status().message()), HasSubstr("those of ranks 0, 1"));
  EXPECT_EQ(LogGenerations("/no/such", 0).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(LogsTest, LastLinesAndWhatFollows) {
  std::string text;
  for (int i = 0; i < 30'000; ++i) text += absl::StrCat("line ", i, "\n");
  Write(1, 0, text);
  LogFollower log(dir_.path(), 0);
  ASSERT_TRUE(log.Open(1, 2).ok());
  EXPECT_EQ(*log.Read(), "line 29998\nline 29999\n");
  EXPECT_EQ(*log.Read(), "");
  ASSERT_TRUE(log.Open(1, 0).ok());
  EXPECT_EQ(*log.Read(), "");
  ASSERT_TRUE(log.Open(1, 20'000).ok());
  EXPECT_EQ(log.Read()->substr(0, 11), "line 10000\n");
  ASSERT_TRUE(log.Open(1, 1'000'000).ok());
  EXPECT_EQ(*log.Read(), text);
  Write(2, 0, "no end of line");
  ASSERT_TRUE(log.Open(2, 1).ok());
  EXPECT_EQ(*log.Read(), "no end of line");
  EXPECT_EQ(log.Open(3).code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace composer
