// SPDX-License-Identifier: Apache-2.0
#include "trainer/core/logger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "tests/support/temp_dir.h"
#include "trainer/core/engine.h"
#include "trainer/core/state.h"
#include "trainer/loggers/in_memory.h"

namespace composer {
namespace {

using ::testing::ElementsAre;

// Records the names in order, and fails on request.
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

// Fails, or throws, whatever is called.
class Broken final : public LoggerDestination {
 public:
  explicit Broken(bool throws) : throws_(throws) {}
  std::string name() const override { return throws_ ? "Thrower" : "Failer"; }
  absl::Status Write(const MetricRecord&) override { return Fail(); }
  absl::Status WriteHyperparameters(const Hyperparameters&) override { return Fail(); }
  absl::Status WriteImages(const ImageRecord&) override { return Fail(); }
  absl::Status WriteTable(const TableRecord&) override { return Fail(); }
  absl::Status TakeFile(absl::string_view, const std::string&) override { return Fail(); }
  absl::Status Close() override { return Fail(); }

 private:
  absl::Status Fail() const {
    if (throws_) throw std::runtime_error("no more disk");
    return absl::UnavailableError("no more disk");
  }
  bool throws_;
};

TEST(LoggerTest, WhateverFailsIsSaidOnceADestinationAndTheOthersGoOn) {
  for (const bool throws : {false, true}) {
    MetricHistory history;
    Logger logger;
    logger.AddDestination(std::make_unique<Broken>(throws));
    logger.AddDestination(std::make_unique<InMemoryLogger>(&history));
    ::testing::internal::CaptureStderr();
    const Timestamp now;
    const std::vector<Image> images(1, Image{1, 1, 1, {7}});
    const std::vector<std::string> columns = {"c"};
    const std::vector<std::vector<std::string>> rows = {{"r"}};
    logger.LogHyperparameters({{"a", "1"}});
    logger.LogImages({now, "i", images});
    logger.LogTable({now, "t", columns, rows});
    logger.LogFile("f", "/f");
    logger.Log("m", 1);
    logger.Flush(now);
    logger.Close();
    const std::string said = ::testing::internal::GetCapturedStderr();
    const size_t first = said.find("no more disk");
    EXPECT_NE(first, std::string::npos);
    EXPECT_EQ(said.find("no more disk", first + 1), std::string::npos);
    EXPECT_THAT(history.Values("m"), ElementsAre(1));
    EXPECT_EQ(history.hyperparameters, (Hyperparameters{{"a", "1"}}));
    ASSERT_EQ(history.images.size(), 1u);
    EXPECT_EQ(history.images[0].second[0].pixels, images[0].pixels);
    EXPECT_EQ(history.tables["t"], R"({"columns":["c"],"data":[["r"]]})");
  }
}

// Sees two events and has one file.
class Keeper final : public LoggerDestination {
 public:
  explicit Keeper(std::vector<Event>* seen) : seen_(seen) {}
  std::string name() const override { return "Keeper"; }
  absl::Status Write(const MetricRecord&) override { return absl::OkStatus(); }
  EventSet events() const override { return {Event::kFitStart, Event::kBatchEnd}; }
  absl::Status See(Event event, const State& state) override {
    seen_->push_back(event);
    return absl::OkStatus();
  }
  absl::Status FetchFile(absl::string_view name, const std::string& path) override {
    if (name != "a") return absl::NotFoundError(absl::StrCat("there is no ", name));
    return AtomicWriteFile(path, "of a");
  }

 private:
  std::vector<Event>* seen_;
};

TEST(LoggerTest, EventsReachThoseWhoWantToSeeThem) {
  std::vector<Event> seen;
  State state;
  Logger logger;
  logger.AddDestination(std::make_unique<Broken>(true));
  EXPECT_FALSE(logger.events().Has(Event::kFitStart)) << "by default none";
  logger.AddDestination(std::make_unique<Keeper>(&seen));
  Engine engine(state, logger);
  for (const Event event : {Event::kInit, Event::kFitStart, Event::kBatchStart, Event::kBatchEnd, Event::kFitEnd})
    ASSERT_TRUE(engine.Run(event).ok());
  EXPECT_THAT(seen, ElementsAre(Event::kFitStart, Event::kBatchEnd));
  logger.Close();
  EXPECT_FALSE(logger.events().Has(Event::kFitStart));
  engine.Close();
}

TEST(LoggerTest, AnEventIsSeenAfterTheCallbacksAndAFailureStopsNothing) {
  std::string order;
  struct Notes final : Callback {
    explicit Notes(std::string* o) : order(o) {}
    std::string name() const override { return "Notes"; }
    absl::Status Run(Event, State&, Logger&) override { return *order += 'c', absl::OkStatus(); }
    std::string* order;
  };
  struct Fails final : LoggerDestination {
    explicit Fails(std::string* o) : order(o) {}
    std::string name() const override { return "Fails"; }
    absl::Status Write(const MetricRecord&) override { return absl::OkStatus(); }
    EventSet events() const override { return EventSet::All(); }
    absl::Status See(Event, const State&) override {
      *order += 'l';
      throw std::runtime_error("cannot see");
    }
    std::string* order;
  };
  State state;
  state.callbacks.push_back(std::make_unique<Notes>(&order));
  Logger logger;
  logger.AddDestination(std::make_unique<Fails>(&order));
  Engine engine(state, logger);
  ::testing::internal::CaptureStderr();
  for (const Event event : {Event::kInit, Event::kBatchEnd}) EXPECT_TRUE(engine.Run(event).ok());
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(order, "lccl") << "at INIT first, as in Composer";
  EXPECT_NE(said.find("cannot see"), std::string::npos);
  EXPECT_EQ(said.find("cannot see"), said.rfind("cannot see"));
  engine.Close();
}

TEST(LoggerTest, AFileIsFetchedFromWhoHasIt) {
  const TempDir folder;
  std::vector<Event> seen;
  Logger logger;
  EXPECT_EQ(logger.FetchFile("a", folder.Path("a")).code(), absl::StatusCode::kUnimplemented) << "another rank";
  logger.AddDestination(std::make_unique<Broken>(false));
  EXPECT_EQ(logger.FetchFile("a", folder.Path("a")).message(),
            "no logger of this rank keeps files from which a could be fetched, as remote_uploader_downloader does");
  logger.AddDestination(std::make_unique<Keeper>(&seen));
  ASSERT_TRUE(logger.FetchFile("a", folder.Path("a")).ok());
  EXPECT_EQ(*ReadFile(folder.Path("a")), "of a");
  EXPECT_EQ(logger.FetchFile("b", folder.Path("b")), absl::NotFoundError("there is no b"));
}

TEST(LoggerTest, WhatIsLoggedWithoutDestinationsGoesNowhere) {
  Logger logger;
  EXPECT_FALSE(logger.has_destinations());
  logger.LogHyperparameters({{"a", "1"}});
  logger.LogImages({Timestamp(), "i", {}});
  logger.AddDestination(std::make_unique<Broken>(false));
  EXPECT_TRUE(logger.has_destinations());
}

}  // namespace
}  // namespace composer
