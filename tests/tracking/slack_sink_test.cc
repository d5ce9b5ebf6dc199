// Tests what is posted to Slack, when, and what is not said.
// SPDX-License-Identifier: Apache-2.0
#include "tracking/slack_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_join.h"

namespace composer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class FakeSlack final : public Http {
 public:
  absl::StatusOr<HttpResponse> Send(const HttpRequest& request) override {
    if (fails) return HttpResponse{.status = 200, .headers = {}, .body = R"({"ok":false,"error":"channel_not_found"})"};
    const auto json = nlohmann::json::parse(absl::StrJoin(request.body, ""));
    texts.push_back(json["text"].get<std::string>());
    channel = json.value("channel", "");
    url = UrlOf(request);
    return HttpResponse{.status = 200, .headers = {}, .body = "ok"};
  }
  bool fails = false;
  std::vector<std::string> texts;
  std::string channel, url;
};

TrackedRecord Record(int64_t batch, double loss) {
  TrackedRecord record;
  record.row.batch = batch;
  record.values = {{"loss/train/total", loss}, {"lr", 1}};
  return record;
}

class SlackSinkTest : public ::testing::Test {
 protected:
  SlackSink Sink(std::map<std::string, std::string> settings) {
    settings["events"] = "start,restart,end";
    return SlackSink(slack_, *SlackSink::ReadOptions(settings, hook_));
  }
  const Environment hook_ = Environment({{"SLACK_WEBHOOK_URL", std::string("https://hooks.example/services/secret")}});
  std::shared_ptr<FakeSlack> slack_ = std::make_shared<FakeSlack>();
  TrackerMemory memory_;
};

TEST_F(SlackSinkTest, TellsEventsAndChosenMetricsAtTheInterval) {
  SlackSink sink = Sink({{"include_keys", "loss/*"}, {"every_batches", "2"}});
  ASSERT_TRUE(sink.Begin({"a<b>", "/r", 0}, memory_).ok());
  const std::vector<TrackedRecord> records = {Record(1, 1), Record(2, 0.5), Record(3, 3), Record(4, 0.25)};
  ASSERT_TRUE(sink.Send(records, memory_).ok());
  ASSERT_TRUE(sink.Finish("done", memory_).ok());
  EXPECT_THAT(slack_->texts,
              ElementsAre("*a&lt;b&gt;* has started",
                          "*a&lt;b&gt;*\nbatch 2  loss/train/total: 0.5\nbatch 4  loss/train/total: 0.25",
                          "*a&lt;b&gt;* has ended: done"));
  EXPECT_EQ(slack_->url, "https://hooks.example/services/secret");
  SlackSink next = Sink({});
  ASSERT_TRUE(next.Begin({"r", "/r", 0, "1.2"}, memory_).ok());
  EXPECT_EQ(slack_->texts.back(), "*r* continues after a restart");
}

TEST_F(SlackSinkTest, TellsEachStartAndItsEndOnce) {
  const TrackedRun first{"r", "/r", 0, "1.1"}, restarted{"r", "/r", 0, "1.2"};
  for (const TrackedRun* run : {&first, &restarted, &restarted}) {  // the last as `composer sync` does
    SlackSink sink = Sink({});
    ASSERT_TRUE(sink.Begin(*run, memory_).ok());
    ASSERT_TRUE(sink.Begin(*run, memory_).ok());
    if (run != &first) ASSERT_TRUE(sink.Finish("done", memory_).ok());
  }
  EXPECT_THAT(slack_->texts, ElementsAre("*r* has started", "*r* continues after a restart", "*r* has ended: done"));
}

TEST_F(SlackSinkTest, KeysMayBeComposersExpressions) {
  for (const auto& [key, is_told] : {std::pair("loss.*", true), std::pair("^loss/(train|eval)/", true),
                                     std::pair("train/total$", false), std::pair("loss/(eval)", false)}) {
    slack_->texts.clear();
    SlackSink sink = Sink({{"include_keys", key}, {"every_batches", "1"}});
    TrackerMemory memory;
    ASSERT_TRUE(sink.Send({Record(1, 1)}, memory).ok());
    EXPECT_EQ(slack_->texts.size(), is_told ? 1u : 0u) << key;
  }
  const absl::Status refused = SlackSink::ReadOptions({{"include_keys", "loss/(a"}}, hook_).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("`loss/(a` is not a regular expression"));
}

TEST_F(SlackSinkTest, AMessageHasAtMostSoManyLogsAndAFailureRepeatsNone) {
  SlackSink sink = Sink({{"include_keys", "loss/*"}, {"every_batches", "1"}, {"max_logs_per_message", "2"}});
  ASSERT_TRUE(sink.Begin({"r", "/r", 0}, memory_).ok());
  slack_->texts.clear();
  const std::vector<TrackedRecord> records = {Record(1, 1), Record(2, 2), Record(3, 3)};
  ASSERT_TRUE(sink.Send(records, memory_).ok());
  EXPECT_EQ(slack_->texts.size(), 2u);
  ASSERT_TRUE(sink.Send(records, memory_).ok());  // again: nothing is due
  EXPECT_EQ(slack_->texts.size(), 2u);
  slack_->fails = true;
  const std::vector<TrackedRecord> more = {Record(4, 4)};
  const absl::Status failed = sink.Send(more, memory_);
  EXPECT_THAT(failed.message(), HasSubstr("channel_not_found"));
  EXPECT_THAT(failed.message(), Not(HasSubstr("secret")));
  slack_->fails = false;
  ASSERT_TRUE(sink.Send(more, memory_).ok());
  EXPECT_THAT(slack_->texts.back(), HasSubstr("batch 4"));
}

TEST_F(SlackSinkTest, KeysComeFromTheEnvironment) {
  EXPECT_THAT(SlackSink::ReadOptions({}, {}).status().message(),
              HasSubstr("slack needs the variable SLACK_WEBHOOK_URL"));
  EXPECT_THAT(
      SlackSink::ReadOptions({}, Environment({{"SLACK_WEBHOOK_URL", std::string("nonsense")}})).status().message(),
      HasSubstr("must be https://HOST/PATH"));
  const auto api = SlackSink::ReadOptions(
      {{"events", "end"}}, Environment({{"SLACK_LOGGING_API_KEY", "k"}, {"SLACK_LOGGING_CHANNEL_ID", "C1"}}));
  ASSERT_TRUE(api.ok());
  SlackSink sink(slack_, *api);
  ASSERT_TRUE(sink.Finish("done", memory_).ok());
  EXPECT_EQ(slack_->channel, "C1");
  EXPECT_EQ(slack_->url, "https://slack.com/api/chat.postMessage");
}

}  // namespace
}  // namespace composer
