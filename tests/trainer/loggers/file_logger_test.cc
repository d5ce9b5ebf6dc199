// SPDX-License-Identifier: Apache-2.0
#include "trainer/loggers/file_logger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using ::testing::HasSubstr;

class FileLoggerTest : public ::testing::Test {
 protected:
  absl::Status Write(FileLogger& logger, int64_t batch, const std::vector<MetricValue>& metrics) {
    Timestamp now;
    now.batch = batch;
    return logger.Write({now, metrics});
  }
  std::string Written() { return ReadFile(dir_.Path("a/b/log.txt")).value(); }
  TempDir dir_;
  FileLogger::Options options_{.path = dir_.Path("a/b/log.txt")};
};

TEST_F(FileLoggerTest, EverythingIsALine) {
  FileLogger logger(options_);
  ASSERT_TRUE(logger.WriteHyperparameters({{"seed", "17"}, {"max_duration", "2ep"}}).ok());
  ASSERT_TRUE(
      Write(logger, 12, {{"loss/train/total", 0.41234}, {"lr", 1e-5}, {"algorithm_traces/MixUp/init", 1}}).ok());
  const std::vector<std::string> columns = {"a"};
  const std::vector<std::vector<std::string>> rows = {{"1"}};
  ASSERT_TRUE(logger.WriteTable({Timestamp(), "t", columns, rows}).ok());
  ASSERT_TRUE(logger.Close().ok());
  EXPECT_EQ(Written(),
            "[hyperparameter]: seed: 17\n[hyperparameter]: max_duration: \"2ep\"\n"
            "[metric][batch=12]: loss/train/total: 0.4123\n[metric][batch=12]: lr: 1e-05\n"
            "[trace]: algorithm_traces/MixUp/init:1\n"
            "[table]: t: {\"columns\":[\"a\"],\"data\":[[\"1\"]]}\n");
}

TEST_F(FileLoggerTest, TracesCanBeLeftOutAndALaterStartGoesOn) {
  options_.log_traces = false;
  options_.flush_interval = 1;
  for (int64_t batch = 1; batch <= 2; ++batch) {
    FileLogger logger(options_);
    ASSERT_TRUE(Write(logger, batch, {{"algorithm_traces/MixUp/init", 1}, {"a", 1}}).ok());
  }
  EXPECT_EQ(Written(), "[metric][batch=1]: a: 1.0000\n[metric][batch=2]: a: 1.0000\n");
}

TEST_F(FileLoggerTest, AFailureNamesThePath) {
  ASSERT_TRUE(AtomicWriteFile(dir_.Path("a"), "no folder").ok());
  FileLogger logger(options_);
  const absl::Status status = Write(logger, 1, {{"a", 1}});
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr(dir_.Path("a")));
}

}  // namespace
}  // namespace composer
