// SPDX-License-Identifier: Apache-2.0
#include "job/run/job_resume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/file.h"
#include "config/effective_config.h"
#include "config/interpolation.h"
#include "config/yaml.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class JobResumeTest : public ::testing::Test {
 protected:
  KeptConfig Kept(const std::string& text, const Environment& env = {}) {
    ConfigNode document = *ParseYaml(text, "t.yaml");
    EXPECT_TRUE(Interpolate(env, document).ok());
    return *KeepConfigOfRun(EffectiveConfig(document, BuiltInSchema()), dir_.path(), /*make_key=*/true);
  }
  std::string Judge(const std::string& before, const std::string& now, const std::vector<std::string>& permitted = {}) {
    const ResumePoint point{"/runs/x/checkpoints/ep2-ba64", "2026-11-22T12:01:07Z", SerializeKept(Kept(before))};
    const absl::StatusOr<std::string> said = JudgeResume(point, Kept(now), permitted);
    EXPECT_TRUE(said.ok() || said.status().code() == absl::StatusCode::kInvalidArgument);
    return said.ok() ? *said : absl::StrCat("refused: ", said.status().message());
  }
  TempDir dir_;
};

TEST_F(JobResumeTest, SaysFromWhereAndWhatChangedSince) {
  EXPECT_EQ(Judge("optimizers: {name: adamw}", "optimizers: {name: adamw, lr: 0.001}\nprogress_bar: false"),
            "resuming from ep2-ba64 of 2026-11-22 12:01:07 UTC (/runs/x/checkpoints/ep2-ba64)");
  EXPECT_THAT(Judge("optimizers: {name: adamw}", "optimizers: {name: adamw, lr: 0.5}\nmax_duration: 3ep"),
              HasSubstr("; changed since: max_duration (not given) -> 3ep, optimizers.lr 1e-3 -> 0.5"));
}

TEST_F(JobResumeTest, RefusesWhatMakesTheStateMeaningless) {
  const char* before = "seed: 0\nmodel: {name: mlp}\ntrain_dataloader: {name: gaussian_classification}\n";
  const char* now = "seed: 5\nmodel: {name: mlp}\ntrain_dataloader: {name: gaussian_classification, seed: 1}\n";
  const std::string refused = Judge(before, now);
  EXPECT_THAT(refused, HasSubstr("refused: seed: cannot resume from /runs/x/checkpoints/ep2-ba64"));
  EXPECT_THAT(refused, HasSubstr("seed 0 -> 5, train_dataloader.seed 0 -> 1"));
  EXPECT_THAT(refused, HasSubstr("resume_changes: [seed, train_dataloader]"));
  EXPECT_THAT(Judge(before, now, {"seed"}), HasSubstr("refused: train_dataloader"));
  EXPECT_THAT(Judge(before, now, {"seed", "train_dataloader"}), HasSubstr("changed since: seed 0 -> 5"));
  EXPECT_THAT(Judge(before, now, {"allow"}), HasSubstr("resuming from"));
  EXPECT_THAT(Judge(before, "seed: 0\nmodel: {name: gpt}\ntrain_dataloader: {name: gaussian_classification}\n"),
              HasSubstr("refused: model: "));
}

TEST_F(JobResumeTest, AnOlderCheckpointHasNoConfiguration) {
  const absl::StatusOr<std::string> said = JudgeResume({"s3://b/ep1-ba2", "", ""}, Kept("seed: 1"), {});
  EXPECT_EQ(*said, "resuming from ep1-ba2 (s3://b/ep1-ba2)");
  EXPECT_EQ(JudgeResume({"x", "", "[1]"}, Kept("seed: 1"), {}).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(JobResumeTest, SecretsAreKeptAsHashesOfAKeyThatStaysInTheRunFolder) {
  Environment one, other;
  one.Set("SECRET", "hunter2");
  other.Set("SECRET", "hunter3");
  const char* text = "variables: {k: '${oc.env:SECRET}', token: literal}\nload_path: ${variables.k}";
  const std::string kept = SerializeKept(Kept(text, one));
  EXPECT_THAT(kept, Not(HasSubstr("hunter2")));
  EXPECT_THAT(kept, Not(HasSubstr("literal")));
  EXPECT_EQ(*ParseKept(kept), Kept(text, one));
  EXPECT_NE(Kept(text, other).hashes.at("load_path"), Kept(text, one).hashes.at("load_path"));
  struct stat info{};
  ASSERT_EQ(stat(dir_.Path(".config_key").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  // On another machine, without the key, the change is not reported.
  ASSERT_TRUE(RemoveFile(dir_.Path(".config_key")).ok());
  EXPECT_THAT(*JudgeResume({"/c/ep0-ba1", "", kept}, Kept(text, other), {}), Not(HasSubstr("changed")));
}

TEST_F(JobResumeTest, TheSummarySaysWhetherTheRunHasEnded) {
  EXPECT_FALSE(HasEnded(dir_.path()));
  ASSERT_TRUE(AtomicWriteFile(dir_.Path("summary.json"), R"({"exit_reason": "failed"})").ok());
  EXPECT_FALSE(HasEnded(dir_.path()));
  ASSERT_TRUE(AtomicWriteFile(dir_.Path("summary.json"), R"({"exit_reason": "done"})").ok());
  EXPECT_TRUE(HasEnded(dir_.path()));
}

}  // namespace
}  // namespace composer
