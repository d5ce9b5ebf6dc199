// Tests that a tracker gets each record of metrics.jsonl once: with a server that is away, that loses answers, after
// kills, resumes and restarts.
// SPDX-License-Identifier: Apache-2.0
#include "tracking/tracker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "tests/support/temp_dir.h"
#include "tests/tracking/fake_mlflow.h"
#include "tracking/mlflow_sink.h"
#include "tracking/open_tracker.h"
#include "trainer/loggers/tracker_logger.h"

namespace composer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Fault = FakeMlflow::Fault;

std::string Line(int batch, double loss, int generation = 1) {
  return absl::StrCat("{\"time/epoch\":0,\"time/batch\":", batch, ",\"time/sample\":", 8 * batch,
                      ",\"wall\":", 1000 + batch, ".", 100 * generation, ",\"launch\":1,\"generation\":", generation,
                      ",\"loss\":", loss, ",\"nan@x\":null}\n");
}

class TrackerTest : public ::testing::Test {
 protected:
  TrackerOptions Options(int64_t launch = 1, bool keeps = false) {
    return {.name = "mlflow",
            .run = {"r", dir_.path(), 1000},
            .settings = {{"tracking_uri", "http://here:5000"}, {"experiment_name", "e"}, {"tags.team", "a"}},
            .keeps_rewound_steps = keeps,
            .launch = launch};
  }
  std::unique_ptr<Tracker> Open(const TrackerOptions& options, bool resumed = true) {
    auto tracker = OpenTracker(options, environment_, server_, given_up_);
    EXPECT_TRUE(tracker.ok()) << tracker.status();
    EXPECT_TRUE((*tracker)->Load(resumed).ok());
    return *std::move(tracker);
  }
  void Append(const std::string& text) { std::ofstream(path_, std::ios::app) << text; }
  // Returns the first error.
  static absl::Status Drain(Tracker& tracker) {
    for (bool more = true; more;) {
      const auto sent = tracker.SendSome();
      if (!sent.ok()) return sent.status();
      more = *sent;
    }
    return absl::OkStatus();
  }
  // The losses of a run by step, with all values that a step has.
  static std::vector<std::pair<int64_t, std::string>> Losses(const FakeMlflow::Run& run) {
    std::vector<std::pair<int64_t, std::string>> losses;
    for (const auto& [key, step, time, value] : run.metrics) {
      if (key == "loss") losses.emplace_back(step, value);
    }
    std::sort(losses.begin(), losses.end());
    return losses;
  }

  TempDir dir_;
  const std::string path_ = dir_.Path("metrics.jsonl");
  Environment environment_;
  std::shared_ptr<std::atomic<bool>> given_up_ = std::make_shared<std::atomic<bool>>(false);
  std::shared_ptr<FakeMlflow> server_ = std::make_shared<FakeMlflow>();
};

TEST_F(TrackerTest, EveryPointArrivesOnceInBatchesThatMlflowTakes) {
  for (int i = 1; i <= 1600; ++i) Append(Line(i, i));
  auto tracker = Open(Options());
  for (int i = 0; i < 250; ++i) tracker->AddParameters({{absl::StrCat("p/", i), "v"}, {"p/0", "other"}});
  ASSERT_TRUE(Drain(*tracker).ok());
  ASSERT_TRUE(tracker->Finish("done").ok());
  ASSERT_EQ(server_->runs().size(), 1u);
  const FakeMlflow::Run run = server_->runs()[0];
  EXPECT_EQ(run.metrics.size(), 3200u);
  EXPECT_TRUE(run.metrics.contains({"loss", 1600, 2600100, "1600.0"}));
  EXPECT_TRUE(run.metrics.contains({"nan_x", 1, 1001100, "\"NaN\""}));
  EXPECT_EQ(run.params.size(), 250u);
  EXPECT_EQ(run.params.at("p/0"), "v");
  EXPECT_EQ(run.tags.at("team"), "a");
  EXPECT_EQ(run.name, "r");
  EXPECT_EQ(run.status, "FINISHED");
}

TEST_F(TrackerTest, NothingIsLostOrDoubledWhenRequestsAndAnswersAre) {
  uint32_t random = 0;
  server_->script = [&](int number, const HttpRequest&) {
    random = (random * 1103515245 + 12345) & 0x7fffffff;
    return number < 5 ? Fault::kAway : static_cast<Fault>((random >> 16) % 4);
  };
  std::unique_ptr<Tracker> tracker = Open(Options());
  for (int round = 1; round <= 30; ++round) {
    for (int i = 0; i < 100; ++i) Append(Line(100 * (round - 1) + i + 1, i));
    Drain(*tracker).IgnoreError();
    if (round % 7 == 0) tracker = Open(Options());  // the process was killed
  }
  server_->script = [](int, const HttpRequest&) { return Fault::kNone; };
  ASSERT_TRUE(Drain(*tracker).ok());
  const auto runs = server_->runs();
  EXPECT_EQ(runs.back().metrics.size(), 6000u);
  EXPECT_EQ(Losses(runs.back()).size(), 3000u);
}

TEST_F(TrackerTest, AfterAResumeTheRunHasExactlyTheStepsOfTheFile) {
  Append(Line(1, 1) + Line(2, 2) + Line(3, 3));
  {
    auto tracker = Open(Options());
    tracker->AddParameters({{"lr", "1"}});
    ASSERT_TRUE(Drain(*tracker).ok());
  }
  std::filesystem::resize_file(path_, Line(1, 1).size());
  Append(Line(2, 20, 2) + Line(3, 30, 2) + Line(4, 40, 2));
  auto tracker = Open(Options());
  tracker->AddParameters({{"lr", "1"}});
  ASSERT_TRUE(Drain(*tracker).ok());
  const auto runs = server_->runs();
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_TRUE(runs[0].deleted);
  EXPECT_FALSE(runs[1].deleted);
  EXPECT_EQ(runs[1].name, "r");
  EXPECT_EQ(runs[1].params.at("lr"), "1");
  EXPECT_THAT(Losses(runs[1]),
              ElementsAre(std::pair(1, "1.0"), std::pair(2, "20.0"), std::pair(3, "30.0"), std::pair(4, "40.0")));
}

TEST_F(TrackerTest, KeptStepsAreNotSentAgain) {
  Append(Line(1, 1) + Line(2, 2) + Line(3, 3));
  ASSERT_TRUE(Drain(*Open(Options(1, true))).ok());
  std::filesystem::resize_file(path_, Line(1, 1).size());
  Append(Line(2, 2, 2) + Line(3, 3, 2) + Line(4, 4, 2));
  ASSERT_TRUE(Drain(*Open(Options(1, true))).ok());
  Append(Line(5, 5, 2));
  ASSERT_TRUE(Drain(*Open(Options(1, true))).ok());
  ASSERT_EQ(server_->runs().size(), 1u);
  const auto losses = Losses(server_->runs()[0]);
  EXPECT_EQ(losses.size(), 5u);
  EXPECT_EQ(losses[4], std::pair(int64_t{5}, std::string("5.0")));
}

// A resume at the very point up to which everything was sent needs no second run.
TEST_F(TrackerTest, AResumeWithoutLostStepsContinuesTheRun) {
  Append(Line(1, 1) + Line(2, 2));
  ASSERT_TRUE(Drain(*Open(Options())).ok());
  Append(Line(3, 3, 2));
  ASSERT_TRUE(Drain(*Open(Options())).ok());
  EXPECT_EQ(server_->runs().size(), 1u);
  EXPECT_EQ(Losses(server_->runs()[0]).size(), 3u);
}

TEST_F(TrackerTest, FilesAreSentOnceAndOnlyThoseOfTheRun) {
  const auto file = [](int batch, const char* kind, const char* name, const std::string& path) {
    return absl::StrCat("{\"time/epoch\":0,\"time/batch\":", batch, ",\"wall\":1,\"kind\":\"", kind, "\",\"name\":\"",
                        name, "\",\"path\":\"", path, "\"}\n");
  };
  ASSERT_TRUE(MakeDirs(dir_.Path("media")).ok());
  for (const char* path : {"media/a.png", "media/t.json", "config.yaml"})
    ASSERT_TRUE(AtomicWriteFile(dir_.Path(path), absl::StrCat("bytes of ", path)).ok());
  std::ofstream(dir_.Path("files.jsonl"), std::ios::app)
      << file(1, "image", "A", "media/a.png") << file(1, "table", "T", "media/t.json")
      << file(1, "image", "gone", "media/gone.png") << file(1, "file", "out", "../outside")
      << file(1, "file", "abs", "/etc/passwd") << file(0, "file", "config.yaml", "config.yaml") << "no json\n";
  Append(Line(1, 1));
  TrackerOptions options = Options();
  ASSERT_TRUE(Drain(*Open(options)).ok());
  EXPECT_THAT(
      server_->runs()[0].artifacts,
      testing::UnorderedElementsAre(std::pair<std::string, std::string>("media/a.png", "bytes of media/a.png"),
                                    std::pair<std::string, std::string>("media/t.json", "bytes of media/t.json")));
  EXPECT_EQ(server_->runs()[0].tags.at("mlflow.loggedArtifacts"), R"([{"path":"media/t.json","type":"table"}])");
  const int requests = server_->requests();
  ASSERT_TRUE(Drain(*Open(options)).ok());
  EXPECT_EQ(server_->requests(), requests + 1) << "only that the run goes on";
  std::ofstream(path_, std::ios::trunc) << Line(1, 2, 2);  // done again: another run there, with the files
  options.settings["log_artifacts"] = "true";
  ASSERT_TRUE(Drain(*Open(options)).ok());
  EXPECT_EQ(server_->runs()[1].artifacts.size(), 3u);
  EXPECT_TRUE(server_->runs()[1].artifacts.contains("config.yaml"));
}

TEST_F(TrackerTest, TheNewestCheckpointIsRegisteredOnceThoughAnAnswerIsLost) {
  for (const char* name : {"ep0-ba1", "ep0-ba2"}) {
    ASSERT_TRUE(MakeDirs(dir_.Path(absl::StrCat("checkpoints/", name))).ok());
    ASSERT_TRUE(AtomicWriteFile(dir_.Path(absl::StrCat("checkpoints/", name, "/manifest.json")), "{}").ok());
    std::ofstream(dir_.Path("files.jsonl"), std::ios::app)
        << R"({"time/batch":1,"kind":"checkpoint","name":")" << name << R"(","path":"checkpoints/)" << name
        << R"(/manifest.json"})"
        << "\n";
  }
  Append(Line(1, 1));
  TrackerOptions options = Options();
  options.settings["log_artifacts"] = "true";
  options.settings["registered_model"] = "fashion";
  const auto tracker = Open(options);
  ASSERT_TRUE(Drain(*tracker).ok());
  server_->script = [](int, const HttpRequest& request) {
    const bool registers = absl::StrContains(request.path, "model-versions/create");
    return registers ? FakeMlflow::Fault::kLostAnswer : FakeMlflow::Fault::kNone;
  };
  EXPECT_FALSE(tracker->Finish("done").ok());
  EXPECT_TRUE(tracker->Finish("done").ok());
  EXPECT_TRUE(Open(options)->Finish("done").ok());  // as `composer sync` does
  ASSERT_EQ(server_->versions().size(), 1u);
  EXPECT_EQ(server_->versions()[0]["name"], "fashion");
  EXPECT_EQ(server_->versions()[0]["source"], "mlflow-artifacts:/7/0/artifacts/checkpoints/ep0-ba2");
}

TEST_F(TrackerTest, FilesOfAServerWithArtifactsElsewhereAreLeftOut) {
  server_->artifact_root = "s3://bucket/";
  ASSERT_TRUE(AtomicWriteFile(dir_.Path("a.png"), "x").ok());
  std::ofstream(dir_.Path("files.jsonl")) << R"({"time/batch":1,"kind":"image","name":"A","path":"a.png"})"
                                          << "\n";
  Append(Line(1, 1));
  ASSERT_TRUE(Drain(*Open(Options())).ok());
  EXPECT_TRUE(server_->runs()[0].artifacts.empty());
  EXPECT_EQ(Losses(server_->runs()[0]).size(), 1u);
}

TEST_F(TrackerTest, AnotherLifeOfARunIsAnotherRunThere) {
  Append(Line(1, 1) + Line(2, 2));
  ASSERT_TRUE(Drain(*Open(Options(1))).ok());
  std::filesystem::rename(path_, dir_.Path("metrics-1.jsonl"));
  Append(Line(1, 5));
  ASSERT_TRUE(Drain(*Open(Options(2), /*resumed=*/false)).ok());
  const auto runs = server_->runs();
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_FALSE(runs[0].deleted);
  EXPECT_EQ(Losses(runs[1]).size(), 1u);
}

TEST_F(TrackerTest, TheStateHasNoSecretAndADamagedOneIsReported) {
  environment_.Set("MLFLOW_TRACKING_TOKEN", "sesame");
  Append(Line(1, 1));
  auto tracker = Open(Options());
  ASSERT_TRUE(Drain(*tracker).ok());
  EXPECT_THAT(server_->last_headers(),
              testing::Contains(std::pair<std::string, std::string>("authorization", "Bearer sesame")));
  EXPECT_THAT(*ReadFile(tracker->path()), Not(HasSubstr("sesame")));
  const auto options = ReadTrackerOptions(tracker->path());
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->settings, Options().settings);
  EXPECT_EQ(std::filesystem::canonical(options->run.folder), std::filesystem::canonical(dir_.path()));
  std::ofstream(tracker->path(), std::ios::trunc) << "{";
  EXPECT_THAT(ReadTrackerOptions(tracker->path()).status().message(), HasSubstr("is damaged"));
  EXPECT_FALSE((*OpenTracker(Options(), environment_, server_, given_up_))->Load(true).ok());
}

TEST(MlflowOptions, AddressesAreChecked) {
  const Environment none;
  for (const char* bad : {"", "databricks", "file:///tmp/x", "http://", "http:///x", "http://u:p@host"})
    EXPECT_THAT(MlflowSink::ReadOptions({{"tracking_uri", bad}}, none).status().message(),
                HasSubstr("must be http://HOST"))
        << bad;
  const auto options = MlflowSink::ReadOptions({}, Environment({{"MLFLOW_TRACKING_URI", "https://h:1/a/b/"},
                                                                {"MLFLOW_TRACKING_USERNAME", "u"},
                                                                {"MLFLOW_TRACKING_PASSWORD", "p"}}));
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->origin, "https://h:1");
  EXPECT_EQ(options->path, "/a/b");
  EXPECT_EQ(options->authorization, "Basic dTpw");
  EXPECT_EQ(MlflowName("a@b\u00e4/x:y z"), "a_b__/x:y z");
  EXPECT_EQ(MlflowName(std::string(300, 'x')).size(), 250u);
}

class TrackerLoggerTest : public TrackerTest {
 protected:
  std::unique_ptr<TrackerLogger> Logger(absl::Duration patience) {
    TrackerLogger::Options options{
        .name = "MLFlowLogger", .run_folder = dir_.path(), .interval = absl::Milliseconds(5)};
    options.flush_timeout = patience;
    return std::make_unique<TrackerLogger>(*OpenTracker(Options(), environment_, server_, given_up_), given_up_,
                                           options);
  }
};

TEST_F(TrackerLoggerTest, SendsBehindTrainingAndEndsTheRun) {
  auto logger = Logger(absl::Seconds(60));
  ASSERT_TRUE(logger->Start({}).ok());
  ASSERT_TRUE(logger->WriteHyperparameters({{"lr", "1"}}).ok());
  const Timestamp time;
  for (int i = 1; i <= 300; ++i) {
    Append(Line(i, i));
    ASSERT_TRUE(logger->Write({time, {}}).ok());
  }
  ASSERT_TRUE(logger->WriteHyperparameters({{"late", "2"}}).ok());
  ASSERT_TRUE(logger->Close().ok());
  const auto runs = server_->runs();
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(Losses(runs[0]).size(), 300u);
  EXPECT_EQ(runs[0].status, "FINISHED");
  EXPECT_EQ(runs[0].params.at("late"), "2");
}

TEST_F(TrackerLoggerTest, AnAbsentServerDelaysNoLogCallAndIsNamedAtTheEnd) {
  absl::Notification release;
  server_->script = [&](int, const HttpRequest&) {
    release.WaitForNotificationWithTimeout(absl::Seconds(60));
    return Fault::kAway;
  };
  auto logger = Logger(absl::Milliseconds(50));
  ASSERT_TRUE(logger->Start({}).ok());
  const Timestamp time;
  Append(Line(1, 1));
  std::vector<absl::Duration> taken;
  for (int i = 0; i < 20'000; ++i) {
    const absl::Time before = absl::Now();
    ASSERT_TRUE(logger->Write({time, {}}).ok());
    taken.push_back(absl::Now() - before);
  }
  std::sort(taken.begin(), taken.end());
  RecordProperty("p99_ns", static_cast<int>(absl::ToInt64Nanoseconds(taken[taken.size() * 99 / 100])));
  EXPECT_LE(taken[taken.size() * 99 / 100], absl::Microseconds(20));
  release.Notify();
  const absl::Status closed = logger->Close();
  EXPECT_THAT(closed.message(), HasSubstr("composer sync"));
  EXPECT_TRUE(server_->runs().empty());
}

}  // namespace
}  // namespace composer
