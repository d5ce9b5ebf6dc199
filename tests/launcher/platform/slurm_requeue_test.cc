// SPDX-License-Identifier: Apache-2.0
#include "launcher/platform/slurm_requeue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "launcher/platform/command_output.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using ::testing::HasSubstr;

// The output of Slurm 22.05's scontrol, shortened.
constexpr char kBatchJob[] =
    "JobId=11 JobName=rq.sbatch UserId=root(0) Priority=4294901757 JobState=RUNNING Reason=None Dependency=(null) "
    "Requeue=1 Restarts=1 BatchFlag=2 Reboot=0 ExitCode=0:0 RunTime=00:00:01 TimeLimit=UNLIMITED\n";

SlurmPlace Place() {
  SlurmPlace place;
  place.job_id = 11;
  place.restarts = 1;
  return place;
}

TEST(SlurmRequeueTest, FactsOfAJob) {
  EXPECT_TRUE(ParseSlurmJob(kBatchJob)->batch);
  EXPECT_TRUE(ParseSlurmJob(kBatchJob)->requeue);
  EXPECT_EQ(ParseSlurmJob(kBatchJob)->state, "RUNNING");
  EXPECT_FALSE(ParseSlurmJob("JobState=RUNNING Requeue=0 BatchFlag=1")->requeue);
  EXPECT_FALSE(ParseSlurmJob("JobState=RUNNING Requeue=1 BatchFlag=0")->batch);
  EXPECT_FALSE(ParseSlurmJob("Requeue=1 BatchFlag=1").ok());
  EXPECT_FALSE(ParseSlurmJob("slurm_load_jobs error: Invalid job id specified").ok());
  EXPECT_FALSE(ParseSlurmJob("").ok());
}

TEST(SlurmRequeueTest, Decisions) {
  EXPECT_EQ(DecideRequeue(Place(), SlurmJobFacts{true, true, "RUNNING"}).reason,
            "Slurm job 11 is requeued (restart 2)");
  EXPECT_TRUE(DecideRequeue(Place(), SlurmJobFacts{true, true, "RUNNING"}).requeue);
  EXPECT_FALSE(DecideRequeue(Place(), SlurmJobFacts{false, true, "RUNNING"}).requeue);
  EXPECT_THAT(DecideRequeue(Place(), SlurmJobFacts{false, true, "RUNNING"}).reason, HasSubstr("is not a batch job"));
  EXPECT_THAT(DecideRequeue(Place(), SlurmJobFacts{true, false, "RUNNING"}).reason, HasSubstr("--no-requeue"));
  EXPECT_FALSE(DecideRequeue(Place(), SlurmJobFacts{true, true, "COMPLETING"}).requeue) << "was cancelled";
  EXPECT_THAT(DecideRequeue(Place(), SlurmJobFacts{true, true, "COMPLETING"}).reason, HasSubstr("is COMPLETING"));
  EXPECT_THAT(DecideRequeue(Place(), absl::NotFoundError("no scontrol")).reason, HasSubstr("(no scontrol)"));
}

TEST(SlurmRequeueTest, OnlyTheFirstLauncherAfterACheckpoint) {
  EXPECT_TRUE(MayRequeue(75, true, true));
  EXPECT_FALSE(MayRequeue(75, false, true));
  EXPECT_FALSE(MayRequeue(75, true, false));
  for (const int code : {0, 64, 69, 70, 93, 137, 143}) EXPECT_FALSE(MayRequeue(code, true, true)) << code;
}

// A scontrol that records how it was called.
class FakeScontrol : public testing::Test {
 protected:
  Environment Install(const std::string& script) {
    const std::string path = dir_.Path("scontrol");
    EXPECT_TRUE(
        AtomicWriteFile(path, absl::StrCat("#!/bin/sh\necho \"$@\" >> ", dir_.Path("calls"), "\n", script)).ok());
    chmod(path.c_str(), 0700);
    return Environment({{"PATH", absl::StrCat(dir_.path(), ":/usr/bin:/bin")}});
  }
  std::string Calls() { return ReadFile(dir_.Path("calls")).value_or(""); }
  TempDir dir_;
};

TEST_F(FakeScontrol, IsAskedAndThenTold) {
  const Environment environment = Install(absl::StrCat("[ \"$1\" = requeue ] || echo '", kBatchJob, "'\n"));
  EXPECT_THAT(RequeueSlurmJob(Place(), environment), HasSubstr("is requeued"));
  EXPECT_EQ(Calls(), "--oneliner show job 11\nrequeue 11\n");
}

TEST_F(FakeScontrol, RefusesTheRequeue) {
  const Environment environment =
      Install(absl::StrCat("[ \"$1\" = requeue ] && { echo 'Access denied' >&2; exit 1; }\necho '", kBatchJob, "'\n"));
  EXPECT_THAT(RequeueSlurmJob(Place(), environment),
              testing::AllOf(HasSubstr("Access denied"), HasSubstr("not requeued")));
}

TEST_F(FakeScontrol, IsNotThere) {
  EXPECT_THAT(RequeueSlurmJob(Place(), Environment({{"PATH", dir_.path()}})), HasSubstr("no scontrol"));
}

TEST(CommandOutputTest, LimitsAndFailures) {
  const Environment environment({{"PATH", std::string("/usr/bin:/bin")}});
  const absl::Duration limit = absl::Seconds(20);
  EXPECT_EQ(*CommandOutput({"/bin/sh", "-c", "echo a; echo b >&2"}, environment, limit), "a\nb\n");
  EXPECT_THAT(std::string(CommandOutput({"/bin/sh", "-c", "echo why; exit 3"}, environment, limit).status().message()),
              HasSubstr("exited with 3: why"));
  EXPECT_TRUE(absl::IsUnavailable(CommandOutput({"/nowhere"}, environment, limit).status()));
  EXPECT_THAT(std::string(CommandOutput({"/bin/sleep", "100"}, environment, absl::Milliseconds(50)).status().message()),
              HasSubstr("did not end within 50ms"));
  EXPECT_EQ(CommandOutput({"/bin/sh", "-c", "head -c 3000000 /dev/zero"}, environment, limit)->size(),
            kMaxCommandOutput);
}

}  // namespace
}  // namespace composer
