// Tests the exact requests of the sources and what they make of the answers, the flag, and the watch over them.
// preemption_integration_test.cc uses real HTTP.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "launcher/platform/preemption_notice.h"
#include "launcher/platform/preemption_sources.h"
#include "launcher/platform/preemption_spec.h"
#include "launcher/platform/preemption_watch.h"
#include "tests/support/processes.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1'767'225'600);  // 2026-01-01T00:00:00Z

TEST(NoticeTest, Aws) {
  const auto notice = ParseAwsInstanceAction(R"({"action":"terminate","time":"2026-01-01T00:02:00Z"})");
  ASSERT_TRUE(notice.ok() && notice->has_value());
  EXPECT_EQ(DescribeNotice(**notice, kNow), "AWS will terminate this spot instance in 120 s (aws)");
  EXPECT_THAT((*ParseAwsInstanceAction(R"({"action":"hibernate"})"))->what, HasSubstr("hibernate"));
  EXPECT_EQ((*ParseAwsInstanceAction(R"({"action":"stop","time":"soon"})"))->deadline, absl::InfiniteFuture());
  EXPECT_THAT((*ParseAwsRebalance(R"({"noticeTime":"2026-01-01T00:00:00Z"})"))->what, HasSubstr("rebalance"));
  for (const char* wrong : {"", "<html>", "[]", "{}", R"({"action":7})", R"({"action":"terminate")", "null"}) {
    EXPECT_FALSE(ParseAwsInstanceAction(wrong).ok()) << wrong;
    EXPECT_FALSE(ParseAwsRebalance(wrong).ok()) << wrong;
  }
}

TEST(NoticeTest, Gcp) {
  EXPECT_FALSE(ParseGcpPreempted("FALSE\n", kNow)->has_value());
  EXPECT_EQ((*ParseGcpPreempted("TRUE", kNow))->deadline, kNow + absl::Seconds(30));
  EXPECT_FALSE(ParseGcpPreempted("true", kNow).ok());
  EXPECT_FALSE(ParseGcpMaintenance("NONE", kNow)->has_value());
  EXPECT_FALSE(ParseGcpMaintenance("MIGRATE_ON_HOST_MAINTENANCE", kNow)->has_value());
  EXPECT_EQ((*ParseGcpMaintenance("TERMINATE_ON_HOST_MAINTENANCE", kNow))->deadline, kNow + absl::Seconds(60));
  EXPECT_FALSE(ParseGcpMaintenance("<html>", kNow).ok());
}

constexpr char kAzureEvents[] = R"({"DocumentIncarnation":2,"Events":[
  {"EventId":"A","EventType":"Freeze","ResourceType":"VirtualMachine","Resources":["worker_1"],
    "EventStatus":"Scheduled",
   "NotBefore":"Thu, 01 Jan 2026 00:00:10 GMT"},
  {"EventId":"B","EventType":"Preempt","ResourceType":"VirtualMachine","Resources":["worker_0","Worker_1"],
   "EventStatus":"Scheduled","NotBefore":"Thu, 01 Jan 2026 00:00:40 GMT"},
  {"EventId":"C","EventType":"Reboot","ResourceType":"VirtualMachine","Resources":["worker_1"],
    "EventStatus":"Scheduled",
   "NotBefore":"Thu, 01 Jan 2026 00:15:00 GMT"},
  {"EventId":"D","EventType":"Preempt","ResourceType":"VirtualMachine","Resources":["worker_11"],
   "EventStatus":"Scheduled","NotBefore":"Thu, 01 Jan 2026 00:00:05 GMT"}]})";

TEST(NoticeTest, AzureTellsTheEarliestThatIsOurs) {
  std::vector<std::string> ids;
  const auto notice = ParseAzureEvents(kAzureEvents, "worker_1", &ids);
  ASSERT_TRUE(notice.ok() && notice->has_value());
  EXPECT_EQ(DescribeNotice(**notice, kNow), "Azure event Preempt for this machine in 40 s (azure)");
  EXPECT_THAT(ids, ElementsAre("B", "C"));
  EXPECT_EQ(AzureAcknowledgement(ids), R"({"StartRequests":[{"EventId":"B"},{"EventId":"C"}]})");
  EXPECT_FALSE(ParseAzureEvents(kAzureEvents, "worker_2", &ids)->has_value());
  EXPECT_TRUE(ids.empty());
  EXPECT_FALSE(ParseAzureEvents(R"({"DocumentIncarnation":1,"Events":[]})", "worker_1", &ids)->has_value());
  for (const char* wrong : {"", "{}", R"({"Events":{}})", R"({"Events":[1]})"}) {
    EXPECT_FALSE(ParseAzureEvents(wrong, "worker_1", &ids).ok()) << wrong;
  }
}

TEST(NoticeTest, AnAzureEventThatHasBegunHasNoTime) {
  std::vector<std::string> ids;
  const auto notice =
      ParseAzureEvents(R"({"Events":[{"EventId":"A","EventType":"Terminate","Resources":["vm"],"NotBefore":"",)"
                       R"("EventStatus":"Started"}]})",
                       "vm", &ids);
  ASSERT_TRUE(notice.ok() && notice->has_value());
  EXPECT_EQ((*notice)->deadline, absl::InfiniteFuture());
}

HttpResponse Reply(int status, std::string body) { return {.status = status, .headers = {}, .body = std::move(body)}; }

// Answers from a list, and keeps the requests.
struct Script final : Http {
  std::deque<absl::StatusOr<HttpResponse>> replies;
  std::vector<std::string> asked;
  absl::StatusOr<HttpResponse> Send(const HttpRequest& request) override {
    EXPECT_FALSE(request.use_proxy);
    EXPECT_EQ(request.timeout, absl::Seconds(1));
    asked.push_back(absl::StrCat(request.method, " ", UrlOf(request), " ",
                                 absl::StrJoin(request.headers, ", ", absl::PairFormatter(": ")),
                                 absl::StrJoin(request.body, "")));
    if (replies.empty()) return absl::UnavailableError("nobody there");
    auto reply = std::move(replies.front());
    replies.pop_front();
    return reply;
  }
};

TEST(SourceTest, AwsRenewsItsTokenAndTakesA404ForNo) {
  const auto script = std::make_shared<Script>();
  const auto source = MakePreemptionSource({PreemptionKind::kAws, "http://imds"}, script);
  script->replies = {Reply(200, "T1\n"), Reply(404, "not found")};
  EXPECT_FALSE(source->Look(kNow)->has_value());
  EXPECT_THAT(script->asked,
              ElementsAre("PUT http://imds/latest/api/token x-aws-ec2-metadata-token-ttl-seconds: 3600",
                          "GET http://imds/latest/meta-data/spot/instance-action x-aws-ec2-metadata-token: T1"));
  script->asked.clear();
  script->replies = {Reply(404, "")};
  EXPECT_FALSE(source->Look(kNow + absl::Minutes(59))->has_value());
  EXPECT_EQ(script->asked.size(), 1u) << "the token is still good";
  script->replies = {Reply(200, "T2"), Reply(401, "")};
  EXPECT_FALSE(source->Look(kNow + absl::Seconds(3590)).ok()) << "renewed early, then refused";
  script->asked.clear();
  script->replies = {Reply(200, "T3"), Reply(200, R"({"action":"terminate","time":"2026-01-01T00:02:00Z"})")};
  EXPECT_TRUE(source->Look(kNow + absl::Seconds(3591))->has_value());
  EXPECT_THAT(script->asked.back(), HasSubstr("token: T3"));
}

TEST(SourceTest, AwsTokensThatWouldBreakAHeaderAreRefused) {
  const auto script = std::make_shared<Script>();
  const auto source = MakePreemptionSource({PreemptionKind::kAws, "http://imds"}, script);
  script->replies = {Reply(200, "a\r\nX: y"), Reply(200, ""), Reply(403, "no")};
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(absl::IsUnavailable(source->Look(kNow).status()));
  EXPECT_EQ(script->asked.size(), 3u) << "never asked for the action";
}

TEST(SourceTest, AwsRebalance) {
  const auto script = std::make_shared<Script>();
  const auto source = MakePreemptionSource({PreemptionKind::kAwsRebalance, "http://imds"}, script);
  script->replies = {Reply(200, "T"), Reply(200, R"({"noticeTime":"2026-01-01T00:00:00Z"})")};
  EXPECT_TRUE(source->Look(kNow)->has_value());
  EXPECT_THAT(script->asked.back(), HasSubstr("/latest/meta-data/events/recommendations/rebalance "));
}

TEST(SourceTest, GcpAsksBothWithItsHeader) {
  const auto script = std::make_shared<Script>();
  const auto source = MakePreemptionSource({PreemptionKind::kGcp, "http://md"}, script);
  script->replies = {Reply(200, "FALSE"), Reply(200, "NONE")};
  EXPECT_FALSE(source->Look(kNow)->has_value());
  EXPECT_THAT(script->asked,
              ElementsAre("GET http://md/computeMetadata/v1/instance/preempted metadata-flavor: Google",
                          "GET http://md/computeMetadata/v1/instance/maintenance-event metadata-flavor: Google"));
  script->replies = {Reply(503, "")};
  EXPECT_FALSE(source->Look(kNow).ok()) << "asked again later";
  script->replies = {Reply(200, "FALSE"), Reply(200, "TERMINATE_ON_HOST_MAINTENANCE")};
  EXPECT_TRUE(source->Look(kNow)->has_value());
  script->replies = {Reply(200, "TRUE")};
  EXPECT_TRUE(source->Look(kNow)->has_value());
}

TEST(SourceTest, AzureLearnsItsNameOnceAndAcknowledgesItsEvents) {
  const auto script = std::make_shared<Script>();
  const auto source = MakePreemptionSource({PreemptionKind::kAzure, "http://imds"}, script);
  script->replies = {Reply(200, "worker_1"), Reply(200, R"({"DocumentIncarnation":1,"Events":[]})"),
                     Reply(200, kAzureEvents)};
  EXPECT_FALSE(source->Look(kNow)->has_value());
  EXPECT_TRUE(source->Look(kNow)->has_value());
  EXPECT_THAT(
      script->asked,
      ElementsAre("GET http://imds/metadata/instance/compute/name?api-version=2020-09-01&format=text metadata: true",
                  "GET http://imds/metadata/scheduledevents?api-version=2020-07-01 metadata: true",
                  "GET http://imds/metadata/scheduledevents?api-version=2020-07-01 metadata: true"));
  script->replies = {Reply(200, "")};
  EXPECT_TRUE(source->Acknowledge().ok());
  EXPECT_EQ(
      script->asked.back(),
      "POST http://imds/metadata/scheduledevents?api-version=2020-07-01 content-type: application/json, metadata: "
      R"(true{"StartRequests":[{"EventId":"B"},{"EventId":"C"}]})");
}

TEST(SourceTest, AFileThatAppearsOrChanges) {
  TempDir dir;
  const std::string path = dir.Path("stop");
  ASSERT_TRUE(AtomicWriteFile(path, "left over").ok());
  const auto source = MakePreemptionSource({PreemptionKind::kFile, path}, {});
  EXPECT_FALSE(source->Look(kNow)->has_value()) << "was there before";
  ASSERT_TRUE(AtomicWriteFile(path, "disk is \x1b[31mfailing\nmore").ok());
  const auto notice = source->Look(kNow);
  ASSERT_TRUE(notice->has_value());
  EXPECT_EQ((*notice)->what, "disk is ?[31mfailing");
  EXPECT_EQ((*notice)->origin, "file " + path);
  EXPECT_FALSE(source->Look(kNow)->has_value());
}

TEST(SpecTest, Words) {
  const Environment none;
  const auto specs = ParsePreemption("aws,gcp,azure,file:/run/stop,aws-rebalance,aws", none, {});
  ASSERT_TRUE(specs.ok()) << specs.status();
  EXPECT_THAT(*specs, ElementsAre(PreemptionSpec{PreemptionKind::kAws, "http://169.254.169.254"},
                                  PreemptionSpec{PreemptionKind::kGcp, "http://metadata.google.internal"},
                                  PreemptionSpec{PreemptionKind::kAzure, "http://169.254.169.254"},
                                  PreemptionSpec{PreemptionKind::kFile, "/run/stop"},
                                  PreemptionSpec{PreemptionKind::kAwsRebalance, "http://169.254.169.254"}));
  EXPECT_TRUE(ParsePreemption("", none, {})->empty());
  EXPECT_TRUE(ParsePreemption("off", none, {})->empty());
}

TEST(SpecTest, Addresses) {
  EXPECT_EQ(ParsePreemption("aws=http://[fd00:ec2::254]/", {}, {})->at(0).where, "http://[fd00:ec2::254]");
  EXPECT_EQ(ParsePreemption(
                "aws", Environment({{"AWS_EC2_METADATA_SERVICE_ENDPOINT", std::string("http://127.0.0.1:81/")}}), {})
                ->at(0)
                .where,
            "http://127.0.0.1:81");
  EXPECT_EQ(ParsePreemption("gcp", Environment({{"GCE_METADATA_HOST", std::string("127.0.0.1:81")}}), {})->at(0).where,
            "http://127.0.0.1:81");
}

TEST(SpecTest, Auto) {
  EXPECT_TRUE(ParsePreemption("auto", {}, {.vendor = "QEMU"})->empty());
  EXPECT_EQ(ParsePreemption("auto", {}, {.vendor = "Amazon EC2"})->at(0).kind, PreemptionKind::kAws);
  EXPECT_EQ(ParsePreemption("auto", {}, {.vendor = "Xen", .bios_version = "4.11.amazon"})->at(0).kind,
            PreemptionKind::kAws);
  EXPECT_EQ(ParsePreemption("auto", {}, {.vendor = "Google", .product = "Google Compute Engine"})->at(0).kind,
            PreemptionKind::kGcp);
  EXPECT_TRUE(ParsePreemption("auto", {}, {.vendor = "Microsoft Corporation"})->empty()) << "Hyper-V elsewhere";
  EXPECT_EQ(ParsePreemption("auto", {},
                            {.vendor = "Microsoft Corporation", .chassis_tag = "7783-7084-3265-9085-8269-3286-77"})
                ->at(0)
                .kind,
            PreemptionKind::kAzure);
}

TEST(SpecTest, Refused) {
  const std::pair<const char*, const char*> table[] = {
      {"awz", "did you mean `aws`"},  {"aws,", "`` is none of"},           {"file:run/stop", "absolute path"},
      {"file:", "absolute path"},     {"aws=https://x", "http://HOST"},    {"aws=169.254.169.254", "http://HOST"},
      {"gcp=http://", "http://HOST"}, {"azure=http://a b", "http://HOST"}, {"file=/run/stop", "is none of aws"},
  };
  for (const auto& [text, expected] : table) {
    EXPECT_THAT(std::string(ParsePreemption(text, {}, {}).status().message()), HasSubstr(expected)) << text;
  }
  EXPECT_THAT(
      std::string(
          ParsePreemption("gcp", Environment({{"GCE_METADATA_HOST", std::string("a b")}}), {}).status().message()),
      HasSubstr("GCE_METADATA_HOST"));
}

TEST(SpecTest, FactsOfThisMachine) {
  TempDir dir;
  ASSERT_TRUE(AtomicWriteFile(dir.Path("sys_vendor"), "Amazon EC2\n").ok());
  EXPECT_EQ(ReadMachineFacts(dir.path()).vendor, "Amazon EC2");
  EXPECT_EQ(ReadMachineFacts(dir.path()).product, "");
}

// Fails several times, then gives a notice.
class ScriptedSource final : public PreemptionSource {
 public:
  ScriptedSource(int failures, std::atomic<int>* acknowledged) : failures_(failures), acknowledged_(acknowledged) {}
  std::string name() const override { return "scripted"; }
  absl::Duration interval() const override { return absl::Milliseconds(1); }
  absl::Duration patience() const override { return absl::ZeroDuration(); }
  NoticeOr Look(absl::Time) override {
    if (failures_-- > 0) return absl::UnavailableError("nobody there");
    return Notice{.what = "the end is near", .origin = "scripted"};
  }
  absl::Status Acknowledge() override {
    ++*acknowledged_;
    return absl::UnavailableError("too late");
  }

 private:
  int failures_;
  std::atomic<int>* acknowledged_;
};

TEST(WatchTest, TellsAFailureOnceAndANoticeOnce) {
  std::atomic<int> notices = 0, acknowledged = 0;
  absl::Mutex mutex;
  std::vector<std::string> told;
  std::vector<std::unique_ptr<PreemptionSource>> sources;
  sources.push_back(std::make_unique<ScriptedSource>(5, &acknowledged));
  sources.push_back(std::make_unique<ScriptedSource>(1'000'000'000, &acknowledged));
  PreemptionWatch watch(std::move(sources),
                        {.on_notice = [&](const Notice& notice) { notices += notice.what == "the end is near"; },
                         .on_unreachable =
                             [&](const std::string& text) {
                               absl::MutexLock lock(&mutex);
                               told.push_back(text);
                             }},
                        &RealClock::Get());
  ASSERT_TRUE(WaitUntil([&] { return notices > 0; }, absl::Seconds(10)));
  watch.Acknowledge();
  EXPECT_EQ(acknowledged, 1) << "only the source that gave a notice";
  EXPECT_EQ(notices, 1);
  absl::MutexLock lock(&mutex);
  ASSERT_EQ(told.size(), 3u);
  EXPECT_EQ(told[0], "--preemption: scripted gives no answer, asking on: nobody there");
  EXPECT_EQ(told[2], "cannot acknowledge the notice of scripted: too late");
}

}  // namespace
}  // namespace composer
