// Tests what composer init writes. tests/integration/start_test.py trains it.
// SPDX-License-Identifier: Apache-2.0
#include "launcher/start/init_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "config/document.h"
#include "config/job_check.h"
#include "config/schema.h"
#include "launcher/start/job_templates.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using ::testing::HasSubstr;

std::pair<int, std::string> Init(const std::vector<std::string>& words) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int code = InitCommand(words);
  const std::string output = testing::internal::GetCapturedStdout();
  return {code, output + testing::internal::GetCapturedStderr()};
}

TEST(InitCommand, EveryKindIsAValidJobAndNothingIsOverwritten) {
  TempDir dir;
  for (const JobTemplate& job : JobTemplates()) {
    const std::string folder = dir.Path(std::string(job.name));
    EXPECT_EQ(Init({std::string(job.name), folder}).first, 0) << job.name;
    const auto config = LoadConfig({JoinPath(folder, "train.yaml")}, {}, {});
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(CheckJob(*config, {BuiltInSchema()}).message(), "") << job.name;
    const auto [code, output] = Init({std::string(job.name), folder});
    EXPECT_EQ(code, 64);
    EXPECT_THAT(output, HasSubstr("train.yaml is there already"));
  }
}

TEST(InitCommand, HelpsWithKinds) {
  EXPECT_THAT(Init({}).second, HasSubstr("a small GPT on a text file"));
  EXPECT_THAT(Init({"gtp"}).second, HasSubstr("did you mean `gpt`"));
  EXPECT_EQ(Init({"gpt", "a", "b"}).first, 64);
}

}  // namespace
}  // namespace composer
