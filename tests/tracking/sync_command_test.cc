// Tests composer sync.
// SPDX-License-Identifier: Apache-2.0
#include "tracking/sync/sync_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temp_dir.h"
#include "tests/tracking/fake_mlflow.h"
#include "tracking/open_tracker.h"

namespace composer {
namespace {

using ::testing::HasSubstr;

class SyncCommandTest : public ::testing::Test {
 protected:
  SyncCommandTest() {
    std::ofstream(dir_.Path("metrics.jsonl")) << "{\"time/batch\":1,\"wall\":1,\"loss\":1}\n"
                                              << "{\"time/batch\":2,\"wall\":2,\"loss\":2}\n";
    std::ofstream(dir_.Path("summary.json")) << R"({"exit_reason":"done","run_name":"r"})";
  }
  // A run whose server was away from its start to its end.
  void LeaveBehind() {
    server_->script = [](int, const HttpRequest&) { return FakeMlflow::Fault::kAway; };
    const TrackerOptions options{
        .name = "mlflow", .run = {"r", dir_.path(), 1}, .settings = {{"tracking_uri", "http://here"}}};
    auto tracker = OpenTracker(options, {}, server_, std::make_shared<std::atomic<bool>>(false));
    (*tracker)->AddParameters({{"lr", "1"}});
    EXPECT_FALSE((*tracker)->SendSome().ok());
  }
  std::pair<int, std::string> Sync(const std::vector<std::string>& words) {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int code = SyncCommand(words, {}, server_);
    const std::string output = testing::internal::GetCapturedStdout();
    return {code, output + testing::internal::GetCapturedStderr()};
  }
  TempDir dir_;
  std::shared_ptr<FakeMlflow> server_ = std::make_shared<FakeMlflow>();
};

TEST_F(SyncCommandTest, SendsWhatARunCouldNot) {
  LeaveBehind();
  auto [code, output] = Sync({dir_.path()});
  EXPECT_EQ(code, 69) << output;
  EXPECT_THAT(output, HasSubstr("connection refused"));
  server_->script = [](int, const HttpRequest&) { return FakeMlflow::Fault::kNone; };
  std::tie(code, output) = Sync({dir_.path()});
  EXPECT_EQ(code, 0) << output;
  EXPECT_EQ(output, "r: mlflow has everything\n");
  ASSERT_EQ(server_->runs().size(), 1u);
  EXPECT_EQ(server_->runs()[0].metrics.size(), 2u);
  EXPECT_EQ(server_->runs()[0].params.at("lr"), "1");
  EXPECT_EQ(server_->runs()[0].status, "FINISHED");
  EXPECT_EQ(Sync({dir_.path()}).first, 0);  // again: nothing changes
  EXPECT_EQ(server_->runs().size(), 1u);
  EXPECT_EQ(server_->runs()[0].metrics.size(), 2u);
}

TEST_F(SyncCommandTest, MistakesAreNamed) {
  EXPECT_THAT(Sync({}).second, HasSubstr("sync takes a RUN"));
  EXPECT_THAT(Sync({"nowhere"}).second, HasSubstr("`nowhere` is not a run folder"));
  const auto [code, output] = Sync({dir_.path()});
  EXPECT_EQ(code, 64);
  EXPECT_THAT(output, HasSubstr("has no trackers"));
}

}  // namespace
}  // namespace composer
