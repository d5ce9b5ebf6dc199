// SPDX-License-Identifier: Apache-2.0
#include "config/job_identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/file.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using ::testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

class ReadJobIdentityTest : public ::testing::Test {
 protected:
  absl::StatusOr<JobIdentity> Read(const std::string& text, const std::vector<std::string>& overrides = {},
                                   const Environment& env = {}) {
    EXPECT_TRUE(AtomicWriteFile(dir_.Path("train.yaml"), text).ok());
    return ReadJobIdentity(dir_.Path("train.yaml"), overrides, env);
  }
  TempDir dir_;
};

TEST_F(ReadJobIdentityTest, Defaults) {
  const absl::StatusOr<JobIdentity> job = Read("model: {name: mlp}\n");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->run_name, "train");
  EXPECT_EQ(job->run_folder, AbsolutePath("runs/train"));
  EXPECT_EQ(job->max_restarts, 3);
  EXPECT_EQ(job->startup_limits.attach, absl::Seconds(60));
  EXPECT_EQ(job->nproc, 0);
}

TEST_F(ReadJobIdentityTest, NameComesFromKeyThenEnvironmentThenFile) {
  const Environment both({{"COMPOSER_RUN_NAME", "c"}, {"RUN_NAME", "r"}});
  EXPECT_EQ(Read("run_name: k\n", {}, both)->run_name, "k");
  EXPECT_EQ(Read("run_name: k\n", {"run_name=o"}, both)->run_name, "o");
  EXPECT_EQ(Read("a: 1\n", {}, both)->run_name, "c");
  EXPECT_EQ(Read("a: 1\n", {}, Environment(Variables{{"RUN_NAME", "r"}}))->run_name, "r");
}

TEST_F(ReadJobIdentityTest, FolderHasThePlaceholderReplaced) {
  const absl::StatusOr<JobIdentity> job = Read("run_name: k\nrun_folder: /tmp/x/{run_name}/y\nnproc: ${env:N}\n",
                                               {"max_restarts=0"}, Environment(Variables{{"N", "4"}}));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->run_folder, "/tmp/x/k/y");
  EXPECT_EQ(job->nproc, 4);
  EXPECT_EQ(job->max_restarts, 0);
}

TEST_F(ReadJobIdentityTest, StartupLimitsAreAMapOfPhases) {
  const absl::StatusOr<JobIdentity> job = Read("startup_limits: {attach: 5, first_step: 0}\n");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->startup_limits.attach, absl::Seconds(5));
  EXPECT_EQ(job->startup_limits.first_step, absl::InfiniteDuration());
  EXPECT_EQ(job->startup_limits.load, StartupLimits().load);
  const std::string message(Read("startup_limits: {atach: 5, load: -1}\n").status().message());
  EXPECT_THAT(message, HasSubstr("did you mean `attach`"));
  EXPECT_THAT(message, HasSubstr("load: must be from 0"));
}

TEST_F(ReadJobIdentityTest, ReportsAllBadValues) {
  const absl::Status status = Read("run_name: a/b\nmax_restarts: -1\nnproc: 0\n").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("train.yaml:1:11: run_name: `a/b` cannot name a run"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("train.yaml:2:15: max_restarts: must be at least 0, got -1"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("train.yaml:3:8: nproc: must be at least 1, got 0"));
}

TEST_F(ReadJobIdentityTest, HashChangesWithOverrides) {
  EXPECT_EQ(Read("a: 1\n")->config_hash, Read("a:  1 # same\n")->config_hash);
  EXPECT_NE(Read("a: 1\n")->config_hash, Read("a: 1\n", {"a=2"})->config_hash);
}

}  // namespace
}  // namespace composer
