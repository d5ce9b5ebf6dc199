// SPDX-License-Identifier: Apache-2.0
#include "launcher/control/dashboard_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "launcher/workers/worker_group.h"

namespace composer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

nlohmann::json DataOf(const std::string& events, const std::string& name) {
  const std::string begin = absl::StrCat("event: ", name, "\ndata: ");
  const size_t at = events.find(begin);
  if (at == std::string::npos) return nullptr;
  return nlohmann::json::parse(events.substr(at + begin.size(), events.find("\n\n", at) - at - begin.size()));
}

class RecordsTest : public ::testing::Test {
 protected:
  RecordsTest() {
    char name[] = "/tmp/composer-test-XXXXXX";
    folder_ = mkdtemp(name);
    path_ = folder_ + "/metrics.jsonl";
  }
  ~RecordsTest() override { std::filesystem::remove_all(folder_); }

  void Append(const std::string& text) const { std::ofstream(path_, std::ios::app) << text; }
  // The data of the next event, which a viewer is sent that knows what came before; null when there is no news.
  nlohmann::json Ask() {
    const auto viewer = DashboardViewer::Open({folder_, ""}, from_).value();
    const nlohmann::json json = DataOf(viewer->News(), "records");
    if (json.is_null()) return json;
    from_ = json["from"];
    more_ = viewer->more();
    return json;
  }
  void WriteLog(int generation, const std::string& text) const {
    const std::string path = LogPath(folder_, generation, 3);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::app) << text;
  }

  std::string folder_, path_, from_;
  bool more_ = false;
};

TEST_F(RecordsTest, EachRecordComesOnceAndHalfALineWaits) {
  EXPECT_TRUE(Ask().is_null()) << "without a file";
  Append("{\"time/batch\":1}\n{\"time/batch\":2}\n{\"time/ba");
  EXPECT_EQ(Ask()["records"].size(), 2U);
  EXPECT_TRUE(Ask().is_null()) << "half a line";
  Append("tch\":3}\n");
  const nlohmann::json third = Ask();
  ASSERT_EQ(third["records"].size(), 1U);
  EXPECT_EQ(third["records"][0]["time/batch"], 3);
  EXPECT_FALSE(more_);
}

TEST_F(RecordsTest, AFileThatWasCutIsReadAgainFromItsStart) {
  Append("{\"time/batch\":1}\n{\"time/batch\":2}\n");
  Ask();
  std::filesystem::resize_file(path_, 17);
  Append("{\"time/batch\":9}\n{\"time/batch\":10}\n");
  const nlohmann::json cut = Ask();
  EXPECT_TRUE(cut["rewound"]);
  EXPECT_TRUE(more_);
  EXPECT_EQ(Ask()["records"].size(), 3U);
}

TEST_F(RecordsTest, LinesThatAreNoObjectsOfJsonAreLeftOutAndAnswersAreBounded) {
  Append("]}, \"evil\": {\n[1]\n7\n\n{\"a\": NaN}\n{\"ok\":1}\n");
  const nlohmann::json answer = Ask();
  ASSERT_EQ(answer["records"].size(), 1U);
  EXPECT_EQ(answer["records"][0]["ok"], 1);
  std::string many;
  for (int i = 0; i < 100'000; ++i) many += "{\"time/batch\":1234567}\n";
  Append(many);
  EXPECT_LT(DashboardViewer::Open({folder_, ""}, "").value()->News().size(), 3 * LineFollower::kMaxLine / 2);
  size_t records = 0;
  for (more_ = true; more_;) records += Ask()["records"].size();
  EXPECT_EQ(records, 100'000U);
}

TEST_F(RecordsTest, ALogIsFollowedFromGenerationToGeneration) {
  WriteLog(1, "old\n");
  WriteLog(2, "first\nsecond \xff\r\n");
  const auto viewer = DashboardViewer::Open({folder_, "secret"}, "rank=3&key=secret").value();
  nlohmann::json log = DataOf(viewer->News(), "log");
  EXPECT_EQ(log, nlohmann::json::parse("{\"rank\": 3, \"generation\": 2, \"begins\": true,"
                                       "\"text\": \"first\\nsecond \xef\xbf\xbd\\r\\n\"}"));
  EXPECT_EQ(viewer->News(), "");
  WriteLog(2, "third\n");
  log = DataOf(viewer->News(), "log");
  EXPECT_EQ(log["text"], "third\n");
  EXPECT_EQ(log["begins"], false);
  WriteLog(4, "a new world\n");
  log = DataOf(viewer->News(), "log");
  EXPECT_EQ(log["generation"], 4);
  EXPECT_EQ(log["begins"], true);
  const auto other = DashboardViewer::Open({folder_, "secret"}, "rank=5&key=secret").value();
  EXPECT_THAT(std::string(DataOf(other->News(), "log")["error"]), HasSubstr("rank 5 has no log"));
  EXPECT_EQ(other->News(), "") << "said once";
}

TEST_F(RecordsTest, TracesAreListedAndComeInPieces) {
  const auto viewer = DashboardViewer::Open({folder_, "secret"}, "rank=3&key=secret").value();
  EXPECT_THAT(viewer->News(), Not(HasSubstr("event: traces")));
  const std::string folder = folder_ + "/traces", evil = "<img src=x>'\" \xff.json", big(600 << 10, 'x');
  std::filesystem::create_directories(folder + "/sub");
  std::ofstream(folder + "/ep0-ba5-rank0.json") << big;
  std::ofstream(folder + "/" + evil) << "{}";
  std::ofstream(folder + "/.hidden") << "no";
  std::filesystem::create_symlink("/etc/passwd", folder + "/link.txt");
  const nlohmann::json listed =
      DataOf(DashboardViewer::Open({folder_, "secret"}, "rank=3&key=secret").value()->News(), "traces");
  ASSERT_EQ(listed.size(), 2U) << listed;
  EXPECT_EQ(DataOf(DashboardViewer::Open({folder_, "secret"}, "").value()->News(), "traces"), nullptr);

  const auto answer = [&](absl::string_view name, bool head = false) {
    TraceDownload download(folder_, name, head);
    std::string all;
    while (!download.done()) all += download.Next().value();
    return all;
  };
  const std::string whole = answer("ep0-ba5-rank0.json");
  EXPECT_THAT(whole, HasSubstr("\r\nContent-Length: 614400\r\nContent-Disposition: attachment"));
  EXPECT_EQ(whole.substr(whole.find("\r\n\r\n") + 4), big);
  EXPECT_TRUE(answer("ep0-ba5-rank0.json", true).ends_with("\r\n\r\n"));
  const std::string odd = answer("%3Cimg%20src%3Dx%3E%27%22%20%FF.json");
  EXPECT_THAT(odd, HasSubstr("filename=_img_src_x_____.json\r\n"));
  EXPECT_TRUE(odd.ends_with("\r\n\r\n{}"));
  for (const char* name :
       {"", ".", "..", "link.txt", ".hidden", "sub", "../metrics.jsonl", "..%2Fmetrics.jsonl", "%00", "%"})
    EXPECT_THAT(answer(name), testing::StartsWith("HTTP/1.1 404")) << name;
  TraceDownload shrinks(folder_, "ep0-ba5-rank0.json", false);
  ASSERT_TRUE(shrinks.Next().ok() && shrinks.Next().ok());
  std::filesystem::resize_file(folder + "/ep0-ba5-rank0.json", 10);
  EXPECT_EQ(shrinks.Next().status().code(), absl::StatusCode::kDataLoss);
}

TEST(DashboardViewerTest, OnlyWhatAnEventGaveAndLogsForTheKeyAlone) {
  const auto code = [](const char* query, const char* key = "secret") {
    return DashboardViewer::Open({"/nowhere", key}, query).status().code();
  };
  EXPECT_EQ(code("from=512&check=1f"), absl::StatusCode::kOk);
  EXPECT_EQ(code("from=512&check=1f&rank=0&key=secret"), absl::StatusCode::kOk);
  for (const char* query : {"from=-1", "from=x", "from=", "path=/etc/passwd", "from=99999999999999999999", "check=g",
                            "rank=-1&key=secret", "rank=../../x&key=secret", "rank"}) {
    EXPECT_EQ(code(query), absl::StatusCode::kInvalidArgument) << query;
  }
  for (const char* query : {"rank=0", "rank=0&key=", "rank=0&key=secre", "rank=0&key=secrets", "key=secrex&rank=0"}) {
    EXPECT_EQ(code(query), absl::StatusCode::kPermissionDenied) << query;
  }
  EXPECT_EQ(code("rank=0&key=", ""), absl::StatusCode::kPermissionDenied) << "without a key nobody may";
}

TEST(DashboardDataTest, TheJobIsCompletedAndAProgramHasNoRecords) {
  DashboardData data({.source = {}, .complete = [](proto::JobStatus& s) { s.set_members_missing("asked"); }});
  absl::Notification first, second;
  proto::JobStatus status;
  status.set_run_name("</script>");
  data.Job(status, [&](const absl::StatusOr<std::string>& json) {
    EXPECT_THAT(json.value(), HasSubstr("\"members_missing\": \"asked\""));
    first.Notify();
  });
  const std::shared_ptr<DashboardViewer> viewer = DashboardViewer::Open({}, "").value();
  data.News(viewer, [&](const absl::StatusOr<std::string>& events) {
    EXPECT_EQ(events.value(), "");
    second.Notify();
  });
  first.WaitForNotification();
  second.WaitForNotification();
  data.Stop();
  data.News(viewer, [&](const absl::StatusOr<std::string>& news) { EXPECT_TRUE(absl::IsUnavailable(news.status())); });
}

TEST(DashboardPageTest, NothingComesFromElsewhereAndNoTextBecomesMarkup) {
  const std::string page = kDashboardPage;
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  for (const char* word : {"innerHTML", "insertAdjacentHTML", "document.write", "src=\"http", "href=\"http", "eval("}) {
    EXPECT_THAT(page, Not(HasSubstr(word)));
  }
}

}  // namespace
}  // namespace composer
