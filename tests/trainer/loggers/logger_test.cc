// SPDX-License-Identifier: Apache-2.0
#include "trainer/loggers/logger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "trainer/loggers/in_memory.h"

namespace composer {
namespace {

using ::testing::ElementsAre;

// Remembers the names in order, and fails when told to.
class Recorder final : public LoggerDestination {
 public:
  struct Log {
    std::vector<std::vector<std::string>> names;
    int closed = 0;
    bool fail = false;
  };
  explicit Recorder(Log* log) : log_(log) {}
  std::string name() const override { return "Recorder"; }
  absl::Status Write(const MetricRecord& record) override {
    std::vector<std::string> names;
    for (const MetricValue& metric : record.metrics) names.emplace_back(metric.name);
    log_->names.push_back(names);
    return log_->fail ? absl::ResourceExhaustedError("disk full") : absl::OkStatus();
  }
  absl::Status Close() override {
    ++log_->closed;
    return absl::OkStatus();
  }

 private:
  Log* log_;
};

TEST(LoggerTest, OneRecordPerFlushInTheOrderOfTheFirstLog) {
  Recorder::Log log;
  MetricHistory history;
  Logger logger;
  logger.AddDestination(std::make_unique<Recorder>(&log));
  logger.AddDestination(std::make_unique<InMemoryLogger>(&history));
  const auto a = logger.Intern("a"), b = logger.Intern("b");
  EXPECT_EQ(logger.Intern("a"), a);
  Timestamp now;
  now.batch = 7;
  logger.Log(b, 1);
  logger.Log(a, 2);
  logger.Log(b, 3);
  logger.Flush(now);
  logger.Flush(now);
  logger.Log("c", 4);
  logger.Flush(now);
  EXPECT_THAT(log.names, ElementsAre(ElementsAre("b", "a"), ElementsAre("c")));
  EXPECT_THAT(history.Values("b"), ElementsAre(3));
  EXPECT_THAT(history.Values("c"), ElementsAre(4));
  EXPECT_EQ(history.data["a"][0].first.batch, 7);
  EXPECT_EQ(history.records, 2);
}

TEST(LoggerTest, LastIsKnownWithoutDestinationsAndAfterFlush) {
  Logger logger;
  EXPECT_TRUE(std::isnan(logger.Last("a")));
  logger.Intern("a");
  EXPECT_TRUE(std::isnan(logger.Last("a")));
  logger.Log("a", 1);
  logger.Flush(Timestamp());
  EXPECT_EQ(logger.Last("a"), 1);
}

TEST(LoggerTest, AFailingDestinationDoesNotStopTheOthersAndIsTriedAgain) {
  Recorder::Log bad, good;
  bad.fail = true;
  Logger logger;
  logger.AddDestination(std::make_unique<Recorder>(&bad));
  logger.AddDestination(std::make_unique<Recorder>(&good));
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) logger.Log("a", i), logger.Flush(Timestamp());
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(bad.names.size(), 3u);
  EXPECT_EQ(good.names.size(), 3u);
  const size_t first = said.find("disk full");
  EXPECT_NE(first, std::string::npos);
  EXPECT_EQ(said.find("disk full", first + 1), std::string::npos);
  logger.Close();
  EXPECT_EQ(good.closed, 1);
}

}  // namespace
}  // namespace composer
