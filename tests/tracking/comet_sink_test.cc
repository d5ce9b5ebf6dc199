// Tests the offline experiment of Comet, unpacked by Python's zipfile. tests/integration/trackers_test.py has the
// package's own reader and its schemas.
// SPDX-License-Identifier: Apache-2.0
#include "tracking/comet_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "tests/support/run_python.h"
#include "tests/support/temp_dir.h"
#include "tracking/open_tracker.h"
#include "tracking/zip_file.h"

namespace composer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Prints experiment.json, then each message in short. Fails on a wrong checksum.
constexpr char kUnpack[] = R"(
import json, sys, zipfile
archive = zipfile.ZipFile(sys.argv[1])
assert archive.testzip() is None
about = json.loads(archive.read('experiment.json'))
print(*(about[key] for key in ('offline_id', 'project_name', 'workspace', 'start_time', 'stop_time', 'tags')))
for n, line in enumerate(archive.read('messages.json').splitlines(), 1):
    message = json.loads(line)
    payload = message['payload']
    assert payload.pop('message_id') == n
    if message['type'] == 'file_upload': payload['bytes'] = archive.read(payload['file_path']).decode()
    print(message['type'], json.dumps(payload, sort_keys=True))
)";

class CometSinkTest : public ::testing::Test {
 protected:
  void Append(const std::string& text) { std::ofstream(dir_.Path("metrics.jsonl"), std::ios::app) << text; }
  std::unique_ptr<Tracker> Open() {
    const TrackerOptions options{.name = "cometml",
                                 .run = {"r", dir_.path(), 1000},
                                 .settings = {{"project_name", "p"}, {"tags", "a,b"}, {"log_artifacts", "true"}}};
    auto tracker = OpenTracker(options, {}, nullptr, nullptr);
    EXPECT_TRUE((*tracker)->Load(true).ok());
    return *std::move(tracker);
  }
  static void Drain(Tracker& tracker) {
    absl::StatusOr<bool> more = true;
    while (more.ok() && *more) more = tracker.SendSome();
    EXPECT_TRUE(more.ok()) << more.status();
  }
  std::string Unpack(const Tracker& tracker) {
    return RunPythonScript(kUnpack, {dir_.Path(absl::StrCat("comet/", tracker.memory().notes.at("key"), ".zip"))});
  }
  TempDir dir_;
};

TEST_F(CometSinkTest, AnExperimentReadsBack) {
  ASSERT_TRUE(AtomicWriteFile(dir_.Path("a.png"), "a picture").ok());
  std::ofstream(dir_.Path("files.jsonl"))
      << R"({"time/batch":1,"wall":1001,"kind":"image","name":"Images/Train","path":"a.png"})"
      << "\n";
  Append("{\"time/batch\":1,\"time/epoch\":0,\"wall\":1001.5,\"loss\":0.5,\"x\":null}\n");
  Append("{\"time/batch\":2,\"time/epoch\":1,\"wall\":1002.5,\"loss\":0.25}\n");
  auto tracker = Open();
  tracker->AddParameters({{"lr", "0.1"}, {"git_commit", "abc"}});
  Drain(*tracker);
  ASSERT_TRUE(tracker->Finish("done").ok());
  const std::string text = Unpack(*tracker);
  EXPECT_THAT(text, HasSubstr(tracker->memory().notes.at("key") + " p None 1000000 1002500 ['a', 'b']\n"));
  EXPECT_EQ(tracker->memory().notes.at("key").size(), 32u);
  EXPECT_THAT(text, HasSubstr(R"(log_other {"key": "Name", "value": "r"})"));
  EXPECT_THAT(text,
              HasSubstr(R"("param": {"paramName": "lr", "paramValue": "0.1", "source": "manual", "step": null}})"));
  EXPECT_THAT(text, HasSubstr(R"(git_metadata {"git_metadata": {"parent": "abc", "user": null}})"));
  EXPECT_THAT(text, HasSubstr(R"(metric_msg {"local_timestamp": 1001500, "metric": {"epoch": 0, "metricName": "loss", )"
                              R"("metricValue": 0.5, "step": 1}})"));
  EXPECT_THAT(text, HasSubstr(R"("metricName": "x", "metricValue": "NaN", "step": 1})"));
  EXPECT_THAT(text, HasSubstr(R"("figName": "Images/Train")"));
  EXPECT_THAT(text, HasSubstr(R"("bytes": "a picture")"));
}

TEST_F(CometSinkTest, AfterAResumeTheArchiveHasExactlyTheStepsOfTheFile) {
  const std::string first = "{\"time/batch\":1,\"wall\":1001,\"loss\":1}\n";
  Append(first + "{\"time/batch\":2,\"wall\":1002,\"loss\":2}\n");
  Drain(*Open());  // the process is killed: no archive
  EXPECT_EQ(ListDir(dir_.Path("comet"))->size(), 1u);
  std::filesystem::resize_file(dir_.Path("metrics.jsonl"), first.size());
  Append("{\"time/batch\":2,\"wall\":1003,\"loss\":20}\n");
  auto tracker = Open();
  Drain(*tracker);
  ASSERT_TRUE(tracker->Finish("preempted").ok());
  const std::string text = Unpack(*tracker);
  EXPECT_THAT(text, HasSubstr(R"("metricValue": 1.0, "step": 1})"));
  EXPECT_THAT(text, HasSubstr(R"("metricValue": 20.0, "step": 2})"));
  EXPECT_THAT(text, Not(HasSubstr(R"("metricValue": 2.0)")));
}

TEST(ZipFileTest, PythonUnpacksEveryFileAndAnUnfinishedArchiveIsGone) {
  TempDir dir;
  std::string large;
  for (int i = 0; i < 200'000; ++i) absl::StrAppend(&large, i * 7919, " ");
  ASSERT_TRUE(AtomicWriteFile(dir.Path("large"), large).ok());
  {
    auto archive = ZipFile::Create(dir.Path("a.zip"));
    ASSERT_TRUE(archive.ok());
    ASSERT_TRUE(archive->AddText("empty", "").ok() && archive->AddText("ä/text", "hello").ok());
    ASSERT_TRUE(archive->AddFile("large", dir.Path("large")).ok());
    EXPECT_TRUE(absl::IsNotFound(archive->AddFile("gone", dir.Path("gone"))));
    ASSERT_TRUE(archive->Finish().ok());
    auto unfinished = ZipFile::Create(dir.Path("b.zip"));
    ASSERT_TRUE(unfinished.ok() && unfinished->AddText("x", "y").ok());
  }
  EXPECT_EQ(RunPythonScript("import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); assert z.testzip() is None; "
                            "print([(i.filename, i.file_size) for i in z.infolist()], z.read('ä/text'))",
                            {dir.Path("a.zip")}),
            absl::StrCat("[('empty', 0), ('ä/text', 5), ('large', ", large.size(), ")] b'hello'\n"));
  EXPECT_EQ(ListDir(dir.path())->size(), 2u);
}

}  // namespace
}  // namespace composer
